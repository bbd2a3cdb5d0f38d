// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package smallworld_test

import (
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// lookAgain carries out every decision of a plan in every state that can have come meanwhile: by what has happened, or by what another leader has
// done. The last look has to notice it.
func (e *explorer) lookAgain(s *small, plan *remediation.Planned, order [3]int, meanwhile []small) {
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
				e.premise("last look: paused")
				e.must(len(writes) == 0, "last look: paused", now, confirmed)
			}
			if d.Action == remediation.GiveUp && !now.nodes[i].bad && !now.cut {
				e.premise("last look: well again")
				e.must(len(writes) == 0, "last look: well again", now, confirmed)
			}
			if d.Action == remediation.MakeRequest {
				e.auditLastLook(now, i, &confirmed)
			}
		}
	}
}

// byOthers are the states in which a leader with another cache has begun with one of the Nodes.
func (s *small) byOthers() []small {
	var all []small
	for i := range s.nodes {
		// Its target may be well again by now.
		for _, bad := range []bool{true, false} {
			if after := *s; !after.nodes[i].request {
				after.nodes[i] = node{bad: bad, overdue: bad, request: true}
				all = append(all, after)
			}
		}
	}
	return all
}

// auditLastLook: nothing is started that what was read just before does not bear out any more.
func (e *explorer) auditLastLook(now *small, i int, confirmed *remediation.Decision) {
	n, others, healthy := &now.nodes[i], 0, 0
	for k := range now.nodes {
		if k != i && now.nodes[k].request {
			others++
		}
		if k != i && !now.nodes[k].bad {
			healthy++
		}
	}
	for name, is := range map[string]bool{
		"last look: well again": !n.bad || !n.overdue, "last look: no place": e.setting.slots > 0 && others >= e.setting.slots,
		"last look: asked for already": n.request, "last look: the control plane": e.setting.controlPlane && (others > 0 || healthy < 2),
		"last look: a storm": now.storm > 0, "last look: unreadable": now.cut,
	} {
		if is {
			e.premise(name)
			e.must(confirmed.Action != remediation.MakeRequest, name, now, confirmed)
		}
	}
}

// look is what is read again in a state, about the Node in one place.
func (s *small) look(c *setting, plan *remediation.Planned, order [3]int, place int, situation *remediation.Situation, a *health.Assessment) remediation.Look {
	look := remediation.Look{
		Failed: s.cut, Frozen: s.paused, Changed: (s.storm > 0) != !plan.Storm.Since.IsZero(), Verdict: a.Verdicts[place], Target: situation.Targets[place],
		ControlPlane: situation.ControlPlane,
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
