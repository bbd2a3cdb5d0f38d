// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
)

// The defaults of the API, for a spec that no API server has defaulted.
const (
	defaultRetries       = 2
	defaultRestarts      = 1
	defaultRejoinTimeout = 10 * time.Minute
	defaultMaxParallel   = 1
	defaultMaxNotReady   = "40%"
)

func retries(spec *fencingv1.NodeFenceSpec) int32 { return ptr.Deref(spec.Retries, defaultRetries) }

func restarts(spec *fencingv1.NodeFenceSpec) int32 { return ptr.Deref(spec.Restarts, defaultRestarts) }

func powerDelay(spec *fencingv1.NodeFenceSpec) time.Duration {
	if spec.PowerDelay == nil {
		return 0
	}
	return spec.PowerDelay.Duration.Duration
}

func rejoinTimeout(spec *fencingv1.NodeFenceSpec) time.Duration {
	if spec.RejoinTimeout == nil {
		return defaultRejoinTimeout
	}
	return spec.RejoinTimeout.Duration.Duration
}

// NeedsCluster reports whether the limits are evaluated with this record, so that all Nodes of the cluster are read.
func NeedsCluster(r *fencingv1.NodeFenceStatus, spec *fencingv1.NodeFenceSpec) bool {
	switch {
	case spec.Mode == fencingv1.CheckDevices:
		return false
	case r.Phase == fencingv1.PhaseNew && r.Step == fencingv1.StepIsolation:
		return true
	}
	return r.Phase == fencingv1.PhaseRunning && r.Step == fencingv1.StepPowerManagement && !SwitchedOff(r)
}

// SwitchedOff reports whether this fence has begun to switch the Node off: the point after which it goes on to its end.
func SwitchedOff(r *fencingv1.NodeFenceStatus) bool {
	return slices.ContainsFunc(r.Methods, func(m fencingv1.MethodRecord) bool {
		return m.Step == fencingv1.StepPowerManagement && m.OffRequested != nil
	})
}

// blocked returns why the fence must not begin, and must not switch the Node off; the empty Why if it can. It is asked at admission, and
// again before the first action that switches the Node off.
func (o *Observation) blocked() Why {
	switch node := &o.Node; {
	case o.Paused:
		return Why{Reason: ReasonPaused}
	case o.Observe:
		return Why{Reason: ReasonObserveMode}
	case o.Problem != nil:
		return o.unresolved()
	case node.State == NodeGone:
		return Why{Reason: ReasonNodeNotFound}
	case o.Plan == nil || node.State == NodeUnreadable:
		return o.unreadable()
	case o.Spec.Mode == fencingv1.CheckDevices:
		return Why{}
	case node.Fence != "" && node.Fence != string(o.UID):
		return Why{Reason: ReasonQueued, Detail: node.Fence}
	case node.Disruption != "":
		return Why{Reason: ReasonNodeDisrupted, Detail: node.Disruption}
	case node.Ready == corev1.ConditionTrue && len(o.Plan.Levels) > 0 && o.Spec.Drain == nil:
		return Why{Reason: ReasonNodeReady}
	}
	return o.overLimit()
}

// Blocked reports whether the fence must not begin.
func (o *Observation) Blocked() bool { return o.blocked() != Why{} }

// unreadable is why the Node was not read.
func (o *Observation) unreadable() Why {
	return Why{Reason: ReasonTargetUnreadable, Detail: o.Unreadable}
}

// unresolved is why there is no plan.
func (o *Observation) unresolved() Why {
	if o.Problem != nil {
		return Why{Reason: o.Problem.Reason, Detail: o.Problem.Message}
	}
	return o.unreadable()
}

// overLimit returns which limit keeps the fence from beginning. A cluster that cannot be read is over every limit.
func (o *Observation) overLimit() Why {
	cluster, limits := o.Cluster, &o.Spec.Limits
	if cluster == nil {
		return o.unreadable()
	}
	for _, condition := range limits.BlockingConditions {
		if o.Node.Conditions[string(condition.Type)] == corev1.ConditionStatus(condition.Status) {
			return Why{Reason: ReasonBlockingCondition, Detail: string(condition.Type) + "=" + string(condition.Status)}
		}
	}
	allowed := allowedNotReady(ptr.Deref(limits.MaxNotReady, intstr.FromString(defaultMaxNotReady)), cluster.Nodes)
	parallel := int(ptr.Deref(limits.MaxParallel, defaultMaxParallel))
	switch {
	case cluster.NotReady > allowed || cluster.NotReady >= cluster.Nodes && o.Node.Ready != corev1.ConditionTrue:
		return Why{Reason: ReasonTooManyNotReady, Count: cluster.NotReady, Total: cluster.Nodes, Allowed: allowed}
	case cluster.Fenced >= parallel:
		return Why{Reason: ReasonTooManyFences, Count: cluster.Fenced, Total: cluster.Nodes, Allowed: parallel}
	case o.Node.ControlPlane && (cluster.OtherControlPlane == 0 || cluster.UnavailableControlPlane > 0):
		return Why{Reason: ReasonControlPlane, Count: cluster.UnavailableControlPlane, Total: cluster.OtherControlPlane}
	}
	return Why{}
}

// allowedNotReady is how many of these Nodes can be not Ready. A limit that is not valid allows one.
func allowedNotReady(limit intstr.IntOrString, nodes int) int {
	if limit.Type == intstr.Int {
		return max(int(limit.IntVal), 1)
	}
	percent, err := strconv.Atoi(strings.TrimSuffix(limit.StrVal, "%"))
	if err != nil || percent < 0 || percent > 100 {
		return 1
	}
	return max(int(math.Ceil(float64(percent*nodes)/100)), 1)
}
