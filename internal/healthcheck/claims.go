// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"context"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/report"
)

// Claims returns the claims of the other checks of the same Cluster, from the cache.
func (e *Environment) Claims(ctx context.Context, check *Check, cluster *clusterv1.Cluster) ([]Claim, error) {
	var all []Claim
	for _, claimant := range e.Claimants {
		// Without Cluster API there are no checks of it. With it, a kind that cannot be read stops the reconcile: another check may be
		// responsible.
		if e.leavesOut(claimant.Object()) {
			continue
		}
		claims, err := claimant.Claims(ctx, e.Cache, check, cluster)
		if err != nil {
			return nil, err
		}
		all = append(all, claims...)
	}
	return all, nil
}

// holds reports whether another check remediates a target.
func (s *snapshot) holds(c *Claim, t *Target) bool {
	return c.Check.Name != "" && slices.Contains(s.elsewhere[t.uid()], c.Check) || c.InFlight[t.NodeTarget.Name] ||
		c.Author != "" && notes.ResponsibleCheck(t.Object.GetAnnotations()) == c.Author
}

// responsible returns the other check that is responsible for a target; empty if this one is. A check that remediates a target stays
// responsible until the remediation has ended.
func (s *snapshot) responsible(t *Target, facts *remediation.Target) (claim remediation.Claim, title string) {
	var claims []remediation.Claim
	titles := map[remediation.Claim]string(nil)
	for i := range s.claims {
		c := &s.claims[i]
		claim := c.Claim
		claim.Holds = s.holds(c, t)
		if claim.Holds || !c.Deleting && c.Selects(t) {
			if titles == nil {
				titles = make(map[remediation.Claim]string, len(s.claims))
			}
			claims, titles[claim] = append(claims, claim), c.Title
		}
	}
	if len(claims) == 0 {
		return remediation.Claim{}, ""
	}
	own := s.check.Claim
	own.Observes, own.Holds = s.observes(), s.requestFor(t) != nil || facts.OwnerRemediation.MarkedByThis
	claim, _ = remediation.ResponsibleClaim(append(claims, own))
	return claim, titles[claim]
}

// busyElsewhere returns the targets of the control plane that other checks remediate.
func (s *snapshot) busyElsewhere() []string {
	var busy []string
	for t := range s.all {
		if !t.ControlPlane {
			continue
		}
		held := len(s.elsewhere[t.uid()]) > 0
		if t.Machine != nil {
			mark := report.OwnerRemediation(t.Machine, s.check.Author())
			held = held || mark.Requested && !mark.Refused && !mark.MarkedByThis
		}
		for i := range s.claims {
			held = held || s.claims[i].InFlight[t.NodeTarget.Name]
		}
		if held {
			busy = append(busy, t.name())
		}
	}
	return busy
}
