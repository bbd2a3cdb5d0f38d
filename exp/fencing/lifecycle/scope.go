// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"time"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
)

// defaultReleaseTimeout is that of the API.
const defaultReleaseTimeout = 10 * time.Minute

// NeedsWorkload returns which Pods of the Node are read for a decision with this record.
func NeedsWorkload(r *fencingv1.NodeFenceStatus, spec *fencingv1.NodeFenceSpec) WorkloadScope {
	switch {
	case r.Step == fencingv1.StepIsolation && r.Phase == fencingv1.PhaseRunning && spec.Drain != nil && r.Drained == nil:
		return DrainScope
	case !releasing(r, spec):
		return NoWorkload
	case r.Evidence.Class == fencingv1.EvidenceStorageIsolation:
		return StorageScope
	}
	return NodeScope
}

// toRelease reports whether there is workload to release.
func toRelease(r *fencingv1.NodeFenceStatus, spec *fencingv1.NodeFenceSpec) bool {
	return spec.Release.Policy != fencingv1.ReleaseNone && r.Evidence != nil && (r.Release == nil || r.Release.EndedAt == nil)
}

// releasing reports whether the workload is being released.
func releasing(r *fencingv1.NodeFenceStatus, spec *fencingv1.NodeFenceSpec) bool {
	return toRelease(r, spec) && r.Step == fencingv1.StepPowerManagement && r.Phase == fencingv1.PhaseDone
}

func releaseTimeout(spec *fencingv1.NodeFenceSpec) time.Duration {
	if spec.Release.Timeout == nil {
		return defaultReleaseTimeout
	}
	return spec.Release.Timeout.Duration.Duration
}
