// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package modelcheck_test

import (
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// preflights runs the preflight check of every decision of a plan in every state that can follow in the meantime: by an event, or by the
// writes of another leader. The preflight check has to detect the change.
func (e *explorer) preflights(s *state, plan *remediation.Planned, order [3]int, meanwhile []state) {
	situation, a := s.facts(e.setting, order)
	for m := range meanwhile {
		now := &meanwhile[m]
		read, judged := now.facts(e.setting, order)
		for place, i := range order {
			d := &plan.Decisions[place]
			if len(d.Writes(&situation.Targets[place])) == 0 {
				continue
			}
			look := now.look(e.setting, plan, order, place, &read, &judged)
			confirmed := remediation.Confirm(plan, &situation.Targets[place], d, &a.Verdicts[place], &look, noon)
			writes := confirmed.Writes(&situation.Targets[place])
			if now.paused {
				e.premise("preflight: paused")
				e.must(len(writes) == 0, "preflight: paused", now, confirmed)
			}
			if d.Action == remediation.GiveUp && !now.nodes[i].bad && !now.cut {
				e.premise("preflight: healthy again")
				e.must(len(writes) == 0, "preflight: healthy again", now, confirmed)
			}
			if d.Action == remediation.StartRequest {
				e.auditPreflight(now, i, &confirmed)
			}
		}
	}
}

// byOthers returns the states in which another leader, with another cache, has created a request for one of the Nodes.
func (s *state) byOthers() []state {
	var all []state
	for i := range s.nodes {
		// The Node may be healthy again.
		for _, bad := range []bool{true, false} {
			if after := *s; !after.nodes[i].request {
				after.nodes[i] = node{bad: bad, overdue: bad, request: true}
				all = append(all, after)
			}
		}
	}
	return all
}

// auditPreflight checks that no request is created unless the live reads confirm it.
func (e *explorer) auditPreflight(now *state, i int, confirmed *remediation.Decision) {
	n, others, healthy, unhealthy := &now.nodes[i], 0, 0, 0
	for k := range now.nodes {
		if now.nodes[k].overdue || now.nodes[k].request {
			unhealthy++
		}
		if k != i && now.nodes[k].request {
			others++
		}
		if k != i && !now.nodes[k].bad {
			healthy++
		}
	}
	for name, is := range map[string]bool{
		"preflight: healthy again": !n.bad || !n.overdue, "preflight: maxInFlight": e.setting.slots > 0 && others >= e.setting.slots,
		"preflight: request exists": n.request, "preflight: the control plane": e.setting.controlPlane && (others > 0 || healthy < 2),
		"preflight: the limit": e.setting.limit > 0 && unhealthy > e.setting.limit,
		"preflight: a storm":   now.storm > 0, "preflight: unreachable": now.cut,
	} {
		if is {
			e.premise(name)
			e.must(confirmed.Action != remediation.StartRequest, name, now, confirmed)
		}
	}
}

// look returns what the preflight check reads in a state for the Node in one place.
func (s *state) look(
	c *setting, plan *remediation.Planned, order [3]int, place int, situation *remediation.Situation, a *health.Assessment,
) remediation.PreflightCheck {
	policy := c.policy()
	look := remediation.PreflightCheck{
		Failed: s.cut, Paused: s.paused, Changed: (s.storm > 0) != !plan.Storm.Since.IsZero(),
		Verdict: a.Verdicts[place], Target: situation.Targets[place], ControlPlane: situation.ControlPlane,
		LimitState: remediation.Plan(situation, a, &policy, noon).LimitState,
	}
	for other, i := range order {
		if other != place && s.nodes[i].request {
			look.Others++
			if c.controlPlane {
				look.ControlPlane.Busy = append(look.ControlPlane.Busy, situation.Targets[other].Name)
			}
		}
	}
	return look
}
