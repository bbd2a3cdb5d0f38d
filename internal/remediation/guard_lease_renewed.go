// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// LeaseRenewed means: its Node is said to be unknown, and its kubelet has renewed its Lease since. It is held for one further timeout at most.
const LeaseRenewed Reason = "LeaseRenewed"

// OnlySilent says whether a target is unhealthy for nothing but a Node that has fallen silent, as far as its cluster knows. Any other cause stands by
// itself, whatever the Lease says: nobody has to read it.
func OnlySilent(v *health.Verdict) bool {
	return v.Kind == health.Unhealthy && !slices.ContainsFunc(v.Findings, func(f health.Finding) bool {
		return f.Met && (f.Rule != health.UnhealthyNode || f.Condition != string(corev1.NodeReady) || f.Status != string(corev1.ConditionUnknown))
	})
}

// Both times are by the clock of the Node's cluster. No Lease is no objection.
func lookLeaseRenewed(l *lastLook) (held bool, until time.Time, seen Seen) {
	look := l.look
	if !l.d.starts() || look.LeaseRenewed.IsZero() || !OnlySilent(&look.Verdict) {
		return false, time.Time{}, Seen{}
	}
	for i := range look.Verdict.Findings {
		f := &look.Verdict.Findings[i]
		if !f.Met {
			continue
		}
		if !look.LeaseRenewed.After(f.Since) {
			return false, time.Time{}, Seen{}
		}
		until = latest(until, f.Due.Add(f.Lasting))
	}
	return l.now.Before(until), until, Seen{Since: look.LeaseRenewed}
}

// latest is the later of two times.
func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
