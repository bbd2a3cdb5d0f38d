// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// LeaseRenewed means: the kubelet has renewed its Lease since the Node became Unknown. It blocks for one more timeout at most.
const LeaseRenewed Reason = "LeaseRenewed"

// OnlyReadyUnknown reports whether the only cause that is met is Ready=Unknown. With any other cause the Lease does not matter.
func OnlyReadyUnknown(v *health.Verdict) bool {
	return v.Kind == health.Unhealthy && !slices.ContainsFunc(v.Findings, func(f health.Finding) bool {
		return f.Met && (f.Rule != health.UnhealthyNode || f.Condition != string(corev1.NodeReady) || f.Status != string(corev1.ConditionUnknown))
	})
}

// Both times are from the clock of the workload cluster. A missing Lease does not block.
func guardLeaseRenewed(p *pass, _ *Target, _ *candidate) (bool, Hold) {
	look := p.preflight.look
	if !p.preflight.d.Starts() || look.LeaseRenewed.IsZero() || !OnlyReadyUnknown(&look.Verdict) {
		return false, Hold{}
	}
	hold := Hold{Seen: Seen{Since: look.LeaseRenewed}}
	for i := range look.Verdict.Findings {
		f := &look.Verdict.Findings[i]
		if !f.Met {
			continue
		}
		if !look.LeaseRenewed.After(f.Since) {
			return false, Hold{}
		}
		hold.Until = health.Latest(hold.Until, f.Due.Add(f.Lasting))
	}
	return p.now.Before(hold.Until), hold
}
