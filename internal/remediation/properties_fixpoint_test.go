// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

// landed are the facts once everything that a plan writes has been written: what every write does, in one place.
func (d *drawn) landed(plan *Planned, finalizer bool) (drawn, bool) {
	after := copied(d)
	s := &after.situation
	for _, write := range plan.CheckWrites(&d.situation, finalizer) {
		switch write {
		case AddFinalizer, RemoveFinalizer:
			finalizer = write == AddFinalizer
		case WriteStorm:
			s.Check.Storm = plan.Storm
		case WriteReplacing:
			s.Replacing = slices.Clone(plan.Replacing)
		case ReleaseControlPlaneLease:
			s.ControlPlane.Lease = Lease{Used: true}
		}
	}
	for i := range plan.Decisions {
		decision := &plan.Decisions[i]
		for _, write := range decision.Writes(&d.situation.Targets[i]) {
			s.Targets[i].land(write, decision)
			if write == AcquireControlPlaneLease {
				s.ControlPlane.Lease = Lease{Used: true, Holder: "this", HeldByThis: true, Until: decision.ControlPlaneLeaseUntil}
			}
		}
	}
	for i := range plan.Orphans {
		decision, orphan := &plan.Orphans[i], &s.Orphans[i]
		as := Target{Request: orphan.Request, Lease: orphan.Lease, History: orphan.History, NodeGoneSince: orphan.NodeGoneSince, OwnerRemediation: OwnerRemediation{MarkedByThis: orphan.Marked}}
		for _, write := range decision.OrphanWrites(&d.situation.Orphans[i]) {
			as.land(write, decision)
			if write == AcquireControlPlaneLease {
				s.ControlPlane.Lease = Lease{Used: true, Holder: "this", HeldByThis: true, Until: decision.ControlPlaneLeaseUntil}
			}
		}
		orphan.Request, orphan.Lease, orphan.History, orphan.NodeGoneSince, orphan.Marked = as.Request, as.Lease, as.History, as.NodeGoneSince, as.OwnerRemediation.MarkedByThis
	}
	return after, finalizer
}

// land is what a write makes of a target.
func (t *Target) land(write Write, d *Decision) {
	switch write {
	case WriteHistory:
		t.History = d.History
	case WriteNodeGone:
		t.NodeGoneSince = d.NodeGoneSince
	case WriteRecovery:
		t.Request.HealthySince = d.HealthySince
	case AcquireLease:
		t.Lease = Lease{Used: t.Lease.Used, Holder: "this", HeldByThis: true, Until: d.LeaseUntil}
	case SetMarkedBy:
		// A check that annotates a target sets its unhealthy condition right after that.
		t.OwnerRemediation.MarkedByThis, t.OwnerRemediation.Unhealthy = true, true
	case CreateRequest:
		t.Request = &Request{Step: d.Step, Attempt: d.Attempt, Started: noon}
	case SetOwnerRemediated:
		if !t.OwnerRemediation.Requested {
			t.OwnerRemediation.Requested, t.OwnerRemediation.Waiting, t.OwnerRemediation.Unhealthy, t.OwnerRemediation.Since = true, true, true, noon
			t.OwnerRemediation.RequestedByThis, t.OwnerRemediation.HandedOverAt = !d.HandsOver, time.Time{}
		}
	case StopRemediator:
		t.Request.TimedOut = true
	case DeleteRequest:
		t.Request.DeletingSince = noon
	case RemoveOwnerRemediated:
		t.OwnerRemediation.Requested, t.OwnerRemediation.Waiting, t.OwnerRemediation.RequestedByThis = false, false, false
	case ClearConditions:
		t.OwnerRemediation = OwnerRemediation{}
	case RemoveMarkedBy:
		t.OwnerRemediation.MarkedByThis, t.OwnerRemediation.RequestedByThis = false, false
	case RemoveConfirmation:
		t.Confirmed = false
	case ReleaseLease:
		t.Lease = Lease{Used: t.Lease.Used}
	case AcquireControlPlaneLease:
	}
}

// writesOf is everything that a plan writes, in words.
func (d *drawn) writesOf(plan *Planned, finalizer bool) []any {
	var all []any
	for _, write := range plan.CheckWrites(&d.situation, finalizer) {
		all = append(all, write)
	}
	for i := range plan.Decisions {
		for _, write := range plan.Decisions[i].Writes(&d.situation.Targets[i]) {
			all = append(all, write)
		}
	}
	for i := range plan.Orphans {
		for _, write := range plan.Orphans[i].OrphanWrites(&d.situation.Orphans[i]) {
			all = append(all, write)
		}
	}
	return all
}

// Fixpoint: once everything is written, the same moment brings nothing new. Only a mark that was canceled leaves room for the step that
// comes instead of it, and what is done then is the last of it.
func TestPlan_CarriedOut_LeavesNothingToDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		plan := d.plan()
		after, finalizer := d.landed(&plan, rapid.Bool().Draw(t, "finalizer"))
		second := after.plan()
		room, ends := false, false
		for i := range second.Decisions {
			ends = ends || plan.Decisions[i].Action == GiveUp || plan.Decisions[i].Action == Withdraw
			room = room || plan.Decisions[i].Action == CancelOwnerRemediation || plan.Decisions[i].Action == RemoveConditions
			// What a remediator requests follows the end of its request, or another target gets the place. The history follows the hand-over.
			room = room || plan.Decisions[i].HandsOver || second.Decisions[i].HandsOver || after.situation.Targets[i].handedOver(&d.assessment.Verdicts[i])
		}
		for i := range second.Decisions {
			if second.Decisions[i].Starts() && !room {
				t.Fatalf("%+v of %+v, and then %+v of %+v", plan.Decisions[i], d.situation.Targets[i], second.Decisions[i], after.situation.Targets[i])
			}
		}
		// A Lease is not renewed, or released after its end, in the moment in which a request is ended, but while it is waited for; and a
		// finalizer goes when nothing is left.
		writes := slices.DeleteFunc(after.writesOf(&second, finalizer), func(write any) bool {
			return ends && (write == AcquireLease || write == ReleaseLease) || plan.Finalizer && write == RemoveFinalizer
		})
		if len(writes) > 0 && !room {
			t.Fatalf("everything is written, and then %v: %+v, and then %+v", writes, plan, second)
		}
		for range 3 {
			second = after.plan()
			after, finalizer = after.landed(&second, finalizer)
		}
		second = after.plan()
		if writes := after.writesOf(&second, finalizer); len(writes) > 0 {
			t.Fatalf("it never comes to rest: %v: %+v", writes, second)
		}
	})
}

// renamed are the same facts with other names in the same order.
func (d *drawn) renamed() drawn {
	other := copied(d)
	s := &other.situation
	for i := range s.Targets {
		s.Targets[i].Name, s.Targets[i].Node = "x"+s.Targets[i].Name, "y"+s.Targets[i].Node
	}
	for i := range s.Orphans {
		s.Orphans[i].Name = "x" + s.Orphans[i].Name
	}
	for i := range s.Replacing {
		s.Replacing[i].Target = "x" + s.Replacing[i].Target
	}
	s.ControlPlane.Busy, s.ControlPlane.Etcd.Members = slices.Clone(s.ControlPlane.Busy), slices.Clone(s.ControlPlane.Etcd.Members)
	for i, name := range s.ControlPlane.Busy {
		s.ControlPlane.Busy[i] = "y" + name
	}
	for i := range s.ControlPlane.Etcd.Members {
		s.ControlPlane.Etcd.Members[i].Node = "y" + s.ControlPlane.Etcd.Members[i].Node
	}
	return other
}

// plain is a decision without the names in it.
func plain(d *Decision) Decision {
	p := *d
	p.Block.Details.Cause, p.Answers = "", slices.Clone(d.Answers)
	for i := range p.Answers {
		p.Answers[i].Details.Cause = ""
	}
	return p
}

// The kind does not matter: a Machine and a bare Node with the same facts and the same free places get the same plan.
func TestPlan_Names_AreIrrelevant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		twin := d.renamed()
		one, other := d.plan(), twin.plan()
		for i := range one.Decisions {
			if a, b := plain(&one.Decisions[i]), plain(&other.Decisions[i]); !reflect.DeepEqual(a, b) {
				t.Fatalf("%s gets %+v, and %s %+v", d.situation.Targets[i].Name, a, twin.situation.Targets[i].Name, b)
			}
		}
		if one.WakeUp != other.WakeUp || one.Counts != other.Counts || one.LimitState != other.LimitState || one.Storm != other.Storm || one.Finalizer != other.Finalizer || one.ReleaseControlPlaneLease != other.ReleaseControlPlaneLease {
			t.Fatalf("%+v, and with other names %+v", one, other)
		}
	})
}

// Twin: of two targets with the same facts none is preferred, where there are places for both.
func TestPlan_EqualTargets_AreTreatedAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		if len(d.situation.Targets) == 0 {
			return
		}
		d.policy.MaxInFlight, d.policy.Limits = nil, Limits{Default: intstr.FromString("100%")}
		i := rapid.IntRange(0, len(d.situation.Targets)-1).Draw(t, "twin")
		// Of a control plane it is one at a time.
		d.situation.Targets[i].ControlPlane = false
		twin := d.situation.Targets[i]
		twin.Name, twin.Node = "twin", "node of the twin"
		if twin.Request != nil {
			request := *twin.Request
			twin.Request = &request
		}
		d.situation.Targets = append(d.situation.Targets, twin)
		d.assessment = assessed(append(slices.Clone(d.assessment.Verdicts), d.assessment.Verdicts[i]))
		plan := d.plan()
		a, b := plain(&plan.Decisions[i]), plain(&plan.Decisions[len(plan.Decisions)-1])
		// How many are in flight has changed between the two.
		a.Answers, b.Answers = nil, nil
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("%+v, and its twin %+v", a, b)
		}
	})
}

// A check that observes or is being deleted only removes things. It holds the Leases until the request is deleted.
func TestWrites_ObservingOrDeleting_OnlyRemove(t *testing.T) {
	takes := []Write{StopRemediator, DeleteRequest, RemoveOwnerRemediated, ClearConditions, RemoveMarkedBy, RemoveConfirmation, ReleaseLease}
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		d.situation.Check.Deleting = rapid.Bool().Draw(t, "goes")
		d.policy.Observe = !d.situation.Check.Deleting
		plan := d.plan()
		check := func(decision *Decision, write Write, requested bool) {
			switch {
			case slices.Contains(takes, write):
			case write == WriteHistory && decision.History == History{}, write == WriteNodeGone && decision.NodeGoneSince.IsZero():
			case (write == AcquireLease || write == AcquireControlPlaneLease) && requested:
			default:
				t.Fatalf("write %d of %+v", write, decision)
			}
		}
		for i := range plan.Decisions {
			for _, write := range plan.Decisions[i].Writes(&d.situation.Targets[i]) {
				check(&plan.Decisions[i], write, d.situation.Targets[i].Request != nil)
			}
		}
		for i := range plan.Orphans {
			for _, write := range plan.Orphans[i].OrphanWrites(&d.situation.Orphans[i]) {
				check(&plan.Orphans[i], write, d.situation.Orphans[i].Request != nil)
			}
		}
		for _, write := range plan.CheckWrites(&d.situation, rapid.Bool().Draw(t, "finalizer")) {
			// The finalizer may still be needed for the cleanup. Annotations of a check
			// are deleted with it.
			if d.policy.Observe && (write == WriteReplacing && len(plan.Replacing) > 0 || write == WriteStorm && !plan.Storm.Since.IsZero()) {
				t.Fatalf("check write %d: %+v", write, plan)
			}
		}
	})
}
