// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

func copied(d *drawn) drawn {
	c := *d
	c.assessment.Verdicts = slices.Clone(d.assessment.Verdicts)
	c.policy.Steps = slices.Clone(d.policy.Steps)
	c.situation.Targets, c.situation.Orphans = slices.Clone(d.situation.Targets), slices.Clone(d.situation.Orphans)
	for i := range c.situation.Targets {
		if r := c.situation.Targets[i].Request; r != nil {
			request := *r
			c.situation.Targets[i].Request = &request
		}
	}
	for i := range c.situation.Orphans {
		if r := c.situation.Orphans[i].Request; r != nil {
			request := *r
			c.situation.Orphans[i].Request = &request
		}
	}
	c.situation.Replacing, c.situation.Owners = slices.Clone(d.situation.Replacing), slices.Clone(d.situation.Owners)
	return c
}

func TestPlan_SameFacts_GiveSamePlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		before := copied(&d)
		first, second := d.plan(), d.plan()
		if !reflect.DeepEqual(first, second) {
			t.Fatalf("%+v, and then %+v", first, second)
		}
		if !reflect.DeepEqual(d, before) {
			t.Fatalf("the facts have changed: %+v, before %+v", d, before)
		}
	})
}

func TestPlan_TargetOrder_IsIrrelevant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		turned := copied(&d)
		slices.Reverse(turned.situation.Targets)
		slices.Reverse(turned.assessment.Verdicts)
		slices.Reverse(turned.policy.Steps)
		slices.Reverse(turned.situation.Replacing)
		straight, got := d.plan(), turned.plan()
		slices.Reverse(got.Decisions)
		if !reflect.DeepEqual(straight, got) {
			t.Fatalf("%+v turned round is %+v", straight, got)
		}
	})
}

// No silence: an unhealthy target has an action or a hold; what holds has a reason. Only a target without an owner has both: it gets the
// conditions, and is not in flight.
func TestPlan_UnhealthyTarget_HasOneActionOrHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		held := 0
		for i, got := range d.plan().Decisions {
			unowned := got.Action == RequestOwnerRemediation && got.Block.Reason == NoRemediatingOwner && !got.InFlight && !got.Budgeted
			if got.Action != None && got.Block.Reason != "" && !unowned {
				t.Fatalf("both: %+v", got)
			}
			switch kind := d.assessment.Verdicts[i].Kind; {
			case kind != health.Unhealthy && kind != health.Skipped && got.Block.Reason != "":
				held++
				continue
			case kind != health.Unhealthy:
				continue
			}
			if got.Action == None && got.Block.Reason == "" {
				t.Fatalf("no decision about %+v", d.situation.Targets[i])
			}
			// What is unhealthy and not in flight is blocked, also while its conditions are removed.
			if got.Block.Reason != "" || !got.InFlight {
				held++
			}
		}
		if plan := d.plan(); plan.Counts.Blocked != held {
			t.Fatalf("%d are held, and %d are counted", held, plan.Counts.Blocked)
		}
	})
}

// Only the unhealthy are acted on; what is unreadable, suspect or skipped never is.
func TestPlan_HealthyTarget_IsNotRemediated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		for i, got := range d.plan().Decisions {
			if got.Starts() && d.assessment.Verdicts[i].Kind != health.Unhealthy {
				t.Fatalf("%+v is remediated: %+v", d.assessment.Verdicts[i], got)
			}
		}
	})
}

// Budget: what is started and what is in flight together are never more than may be, except for what was in flight before.
func TestPlan_MaxInFlight_IsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		plan := d.plan()
		started := 0
		for i, got := range plan.Decisions {
			if got.Starts() && got.Budgeted {
				started++
			}
			if got.Action == RequestOwnerRemediation && d.situation.Targets[i].ControlPlane && got.Budgeted {
				t.Fatalf("the mark of a Machine of the control plane takes up a place: %+v", got)
			}
		}
		if plan.Limited && started > 0 && plan.Counts.InFlight > plan.Slots {
			t.Fatalf("%d are started, and then %d of %d are in flight", started, plan.Counts.InFlight, plan.Slots)
		}
		if plan.LimitState.Limit.Left(plan.LimitState.Unhealthy) < 0 || plan.Counts.InFlight < 0 || plan.Counts.Healthy < 0 {
			t.Fatalf("less than nothing: %+v", plan)
		}
		if started > 0 && !plan.LimitState.Allowed {
			t.Fatalf("%d are started behind a closed gate", started)
		}
	})
}

// Guards subtract: without any one of them, at least as many candidates get past the others.
func TestGuards_MoreGuards_StartNoMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		// With few places, a target that a guard no longer blocks takes the place of another.
		d.policy.MaxInFlight = nil
		for i := range d.situation.Targets {
			d.situation.Targets[i].ControlPlane = d.situation.Targets[i].ControlPlane && i == 0
		}
		with := d.plan()
		left := rapid.IntRange(0, len(guards)-1).Draw(t, "left out")
		fewer := slices.Delete(slices.Clone(guards[:]), left, left+1)
		without := planWith(fewer, &d.situation, &d.assessment, &d.policy, noon)
		for i := range with.Decisions {
			if with.Decisions[i].Starts() && !without.Decisions[i].Starts() {
				t.Fatalf("%s adds %+v", guards[left].reason, with.Decisions[i])
			}
		}
	})
}

func TestPlan_Paused_WritesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		d.situation.Check.Paused = true
		plan := d.plan()
		for i := range plan.Decisions {
			if writes := plan.Decisions[i].Writes(&d.situation.Targets[i]); len(writes) > 0 {
				t.Fatalf("frozen, and yet %v: %+v", writes, plan.Decisions[i])
			}
		}
		for i := range plan.Orphans {
			if writes := plan.Orphans[i].OrphanWrites(&d.situation.Orphans[i]); len(writes) > 0 {
				t.Fatalf("frozen, and yet %v: %+v", writes, plan.Orphans[i])
			}
		}
		if writes := plan.CheckWrites(&d.situation, rapid.Bool().Draw(t, "finalizer")); len(writes) > 0 {
			t.Fatalf("frozen, and yet %v", writes)
		}
	})
}

func TestPlan_PausedTarget_IsUnchanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		for i := range d.assessment.Verdicts {
			d.assessment.Verdicts[i] = health.Verdict{Kind: health.Skipped, Reason: health.Paused}
		}
		plan := d.plan()
		for i := range plan.Decisions {
			if writes := plan.Decisions[i].Writes(&d.situation.Targets[i]); len(writes) > 0 {
				t.Fatalf("paused, and yet %v: %+v", writes, plan.Decisions[i])
			}
		}
	})
}

// What holds up new starts lets what is in flight go on to its end.
func TestPlan_Blocked_ContinuesWhatHasBegun(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		d.situation.Check = Check{}
		d.policy.StormCooldown = 0
		for i := range d.situation.Targets {
			d.situation.Targets[i].OwnerRemediation = OwnerRemediation{}
		}
		free := d.plan()
		held := copied(&d)
		if rapid.Bool().Draw(t, "unreachable") {
			held.situation.Check.Unreachable = true
		} else {
			held.situation.Check.PauseRequests = []string{"an upgrade"}
		}
		got := held.plan()
		for i := range free.Decisions {
			a, b := &free.Decisions[i], &got.Decisions[i]
			request := d.situation.Targets[i].Request
			if request != nil && !released(request, noon) && (a.Action != b.Action || a.Why != b.Why || a.Block.Reason != b.Block.Reason) {
				t.Fatalf("held up, %+v becomes %+v", a, b)
			}
		}
	})
}

// Who observes, or is about to go, only ever takes away.
func TestPlan_ObservingOrDeleting_StartsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		d.situation.Check.Deleting = rapid.Bool().Draw(t, "goes")
		d.policy.Observe = !d.situation.Check.Deleting
		plan := d.plan()
		for _, got := range append(plan.Decisions, plan.Orphans...) {
			if got.Starts() || got.Action == GiveUp {
				t.Fatalf("%+v", got)
			}
		}
	})
}

// The next look is ahead, and nothing new begins before it if the world stays as it is.
func TestPlan_BetweenWakeUps_IsUnchanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		first := d.plan()
		if first.WakeUp.IsZero() {
			first.WakeUp = noon.Add(24 * time.Hour)
		}
		if !first.WakeUp.After(noon) {
			t.Fatalf("wake up at %v, which is not ahead", first.WakeUp)
		}
		just := first.WakeUp.Add(-time.Nanosecond)
		second := Plan(&d.situation, &d.assessment, &d.policy, just)
		for i := range first.Decisions {
			a, b := &first.Decisions[i], &second.Decisions[i]
			if a.Action != b.Action || a.Why != b.Why || a.Block.Reason != b.Block.Reason {
				t.Fatalf("at noon %+v, and a moment before the next look %+v", a, b)
			}
		}
	})
}

// Control plane: at most one Node of it is asked for, and only if the others keep the quorum, or its own member is lost already.
func TestPlan_ControlPlane_KeepsQuorum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		asked := 0
		for i, got := range d.plan().Decisions {
			target := &d.situation.Targets[i]
			if got.Action != StartRequest || !target.ControlPlane {
				continue
			}
			asked++
			etcd := &d.situation.ControlPlane.Etcd
			healthy, lost := 0, false
			for _, m := range etcd.Members {
				if m.Node != target.Node && m.Healthy {
					healthy++
				}
				lost = lost || m.Node == target.Node && m.Unhealthy
			}
			if etcd.State == EtcdUnreadable || etcd.State == EtcdStacked && !lost && 2*healthy <= len(etcd.Members) {
				t.Fatalf("%s is remediated with etcd %+v", target.Name, etcd)
			}
		}
		if asked > 1 {
			t.Fatalf("%d Nodes of one control plane at once", asked)
		}
	})
}

// Twin: a Machine and a bare Node with the same verdict and the same budget input get the same plan.
func TestPlan_BothKinds_AreTreatedAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		d.policy.Counting = CountNotHealthy
		for i := range d.assessment.Verdicts {
			if k := d.assessment.Verdicts[i].Kind; k == health.Suspect || k == health.Undetermined {
				d.assessment.Verdicts[i] = health.Verdict{Kind: health.Healthy}
			}
		}
		d.assessment = assessed(d.assessment.Verdicts)
		machines := d.plan()
		d.policy.Counting = CountUnhealthy
		if nodes := d.plan(); !reflect.DeepEqual(machines, nodes) {
			t.Fatalf("Machines %+v, Nodes %+v", machines, nodes)
		}
	})
}

// Only requests and conditions of this check are withdrawn, given up or canceled.
func TestPlan_OtherChecks_AreNotCleanedUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		for i, got := range d.plan().Decisions {
			target := &d.situation.Targets[i]
			if (got.Action == Withdraw || got.Action == GiveUp) && target.Request == nil {
				t.Fatalf("there is nothing to take away: %+v", got)
			}
			if (got.Action == CancelOwnerRemediation || got.Action == RemoveConditions) && !target.OwnerRemediation.MarkedByThis {
				t.Fatalf("owner remediation of another check is canceled: %+v", got)
			}
			if got.Action == CancelOwnerRemediation && !target.OwnerRemediation.RequestedByThis {
				t.Fatalf("owner remediation that another component has requested is canceled: %+v", got)
			}
			if got.Action == CancelOwnerRemediation && !target.OwnerRemediation.Waiting {
				t.Fatalf("a mark that its owner acts on is canceled: %+v", got)
			}
		}
	})
}

func FuzzPlan(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		d := draw(t)
		d.policy.StormCooldown, d.policy.HealthyDelay = time.Duration(rapid.Int64().Draw(t, "cooldown")), time.Duration(
			rapid.Int64().Draw(t, "delay"),
		)
		d.policy.Backoff = Backoff{time.Duration(rapid.Int64().Draw(t, "initial")), time.Duration(rapid.Int64().Draw(t, "limit"))}
		for i := range d.policy.Steps {
			d.policy.Steps[i].Timeout = time.Duration(rapid.Int64().Draw(t, "timeout"))
			d.policy.Steps[i].Owner = rapid.Bool().Draw(t, "owner anywhere")
		}
		now := time.Unix(rapid.Int64Range(-1<<40, 1<<40).Draw(t, "now"), 0)
		plan := Plan(&d.situation, &d.assessment, &d.policy, now)
		if plan.LimitState.Limit.Left(plan.LimitState.Unhealthy) < 0 || plan.Counts.InFlight < 0 || len(plan.Decisions) != len(d.situation.Targets) {
			t.Fatalf("%+v", plan)
		}
		for i := range plan.Decisions {
			_ = plan.Decisions[i].Writes(&d.situation.Targets[i])
		}
	}))
}
