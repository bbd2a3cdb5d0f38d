// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// copied shares nothing with the original.
func copied(s Snapshot) Snapshot {
	s.Targets = slices.Clone(s.Targets)
	for i := range s.Targets {
		t := &s.Targets[i]
		t.Node.Conditions = slices.Clone(t.Node.Conditions)
		if t.Machine != nil {
			machine := *t.Machine
			machine.Conditions = slices.Clone(machine.Conditions)
			t.Machine = &machine
		}
	}
	return s
}

func copiedPolicy(p Policy) Policy {
	p.NodeConditions, p.MachineConditions = slices.Clone(p.NodeConditions), slices.Clone(p.MachineConditions)
	return p
}

func TestEvaluate_SameFacts_GiveSameVerdicts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, p := drawSnapshot(t), drawPolicy(t)
		before, policyBefore := copied(s), copiedPolicy(p)
		first, second := Evaluate(&s, &p, noon), Evaluate(&s, &p, noon)
		if !reflect.DeepEqual(first, second) {
			t.Fatalf("%+v, and then %+v", first, second)
		}
		if !reflect.DeepEqual(s, before) || !reflect.DeepEqual(p, policyBefore) {
			t.Fatalf("the facts have changed: %+v, before %+v", s, before)
		}
	})
}

func TestEvaluate_TargetOrder_IsIrrelevant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, p := drawSnapshot(t), drawPolicy(t)
		straight := Evaluate(&s, &p, noon)
		turned := copied(s)
		slices.Reverse(turned.Targets)
		for i := range turned.Targets {
			slices.Reverse(turned.Targets[i].Node.Conditions)
			if turned.Targets[i].Machine != nil {
				slices.Reverse(turned.Targets[i].Machine.Conditions)
			}
		}
		got := Evaluate(&turned, &p, noon)
		slices.Reverse(got.Verdicts)
		for i := range got.Verdicts {
			a, b := got.Verdicts[i], straight.Verdicts[i]
			a.Findings, b.Findings = nil, nil
			if !reflect.DeepEqual(a, b) {
				t.Fatalf("%+v turned round is %+v", b, a)
			}
		}
		if got.Counts != straight.Counts || !got.WakeUp.Equal(straight.WakeUp) {
			t.Fatalf("%+v turned round is %+v", straight.Counts, got.Counts)
		}
	})
}

func TestEvaluate_Unhealthy_StaysSoWithTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, p := drawSnapshot(t), drawPolicy(t)
		later := noon.Add(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "later")))
		first, second := Evaluate(&s, &p, noon), Evaluate(&s, &p, later)
		for i := range first.Verdicts {
			// A Node that is missing for the first time is missing since now, until that is recorded.
			unnoted := s.Targets[i].nodeState() == Gone && (s.Targets[i].Machine == nil || s.Targets[i].Machine.NodeGoneSince.IsZero())
			if first.Verdicts[i].Kind == Unhealthy && second.Verdicts[i].Kind != Unhealthy && !unnoted {
				t.Fatalf("unhealthy, and %v later %+v", later.Sub(noon), second.Verdicts[i])
			}
		}
	})
}

func TestEvaluate_Deadline_IsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, p := drawSnapshot(t), drawPolicy(t)
		for i, v := range Evaluate(&s, &p, noon).Verdicts {
			one := Snapshot{Cluster: s.Cluster, Targets: s.Targets[i : i+1]}
			if v.Kind == Suspect && s.Targets[i].nodeState() != Gone {
				if !v.Until.After(noon) {
					t.Fatalf("suspect until %v, which is not ahead", v.Until)
				}
				if before := Evaluate(&one, &p, v.Until.Add(-time.Nanosecond)).Verdicts[0]; before.Kind != Suspect {
					t.Fatalf("a moment before its deadline it is %+v", before)
				}
				if at := Evaluate(&one, &p, v.Until).Verdicts[0]; at.Kind != Unhealthy {
					t.Fatalf("at its deadline it is %+v", at)
				}
			}
			if v.Reason == ReconnectGracePeriod {
				if at := Evaluate(&one, &p, v.Until).Verdicts[0]; at.Reason == ReconnectGracePeriod {
					t.Fatalf("the first look never ends: %+v", at)
				}
			}
		}
	})
}

func TestEvaluate_BetweenWakeUps_IsUnchanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, p := drawSnapshot(t), drawPolicy(t)
		first := Evaluate(&s, &p, noon)
		if first.WakeUp.IsZero() || slices.ContainsFunc(s.Targets, func(t Target) bool { return t.nodeState() == Gone }) {
			return
		}
		if !first.WakeUp.After(noon) {
			t.Fatalf("wake up at %v, which is not ahead", first.WakeUp)
		}
		just := Evaluate(&s, &p, first.WakeUp.Add(-time.Nanosecond))
		if just.Counts != first.Counts {
			t.Fatalf("%+v has become %+v without a wake-up", first.Counts, just.Counts)
		}
	})
}

func TestEvaluate_UnreadableNode_IsUndetermined(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, p := drawSnapshot(t), drawPolicy(t)
		for i := range s.Targets {
			s.Targets[i].Node.State = Unreadable
		}
		for i, v := range Evaluate(&s, &p, noon).Verdicts {
			if v.Kind == Healthy {
				t.Fatalf("what cannot be read is healthy: %+v", s.Targets[i])
			}
			for _, f := range v.Findings {
				if f.Rule == UnhealthyNode || f.Rule == NodeDeleted || f.Rule == NodeStartupTimeout {
					t.Fatalf("an unreadable Node has a finding: %+v", f)
				}
			}
		}
	})
}

func TestEvaluate_PauseOrSkip_WinsOverEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, p := drawSnapshot(t), drawPolicy(t)
		for i := range s.Targets {
			s.Targets[i].Annotations.Paused = rapid.Bool().Draw(t, "paused")
			s.Targets[i].Annotations.SkipRemediation = !s.Targets[i].Annotations.Paused
		}
		for _, v := range Evaluate(&s, &p, noon).Verdicts {
			if v.Kind != Skipped || len(v.Findings) > 0 {
				t.Fatalf("%+v", v)
			}
		}
	})
}

// Twin: a Machine and a bare Node about which the same is known get the same verdict. Only the annotations have different names.
func TestEvaluate_MachineAndNode_AreTreatedAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, p := drawSnapshot(t), drawPolicy(t)
		p.MachineConditions = nil
		for i := range s.Targets {
			if s.Targets[i].nodeState() == NotJoined || s.Targets[i].nodeState() == Gone {
				s.Targets[i].Node.State = Present
			}
			s.Targets[i].Machine = nil
		}
		bare := Evaluate(&s, &p, noon)
		for i := range bare.Verdicts {
			bare.Verdicts[i].OnNode = false
			for j := range bare.Verdicts[i].Findings {
				bare.Verdicts[i].Findings[j].OnNode = false
			}
		}
		for i := range s.Targets {
			s.Targets[i].Machine = &MachineFacts{CreatedAt: drawTime(t, "created"), InfrastructureReady: drawMilestone(t, "infrastructure")}
		}
		if backed := Evaluate(&s, &p, noon); !reflect.DeepEqual(bare, backed) {
			t.Fatalf("bare %+v, with a Machine %+v", bare, backed)
		}
	})
}

// TestProperties_DrawnCases_ReachEveryReason shows that the properties above see every gate, rule and kind of verdict. The seeds are fixed:
// the result depends on the generators only, and not on luck.
func TestProperties_DrawnCases_ReachEveryReason(t *testing.T) {
	missing := map[string]bool{"reason ": true, "reason " + string(Deleting): true, "reason " + string(NodeNotJoined): true, "reason " + string(NodeUnreadable): true}
	for _, gate := range gates {
		missing["reason "+string(gate.reason)] = true
	}
	for _, r := range rules {
		missing["reason "+string(r.reason)], missing["rule "+string(r.reason)] = true, true
	}
	for kind := Undetermined; kind <= Unhealthy; kind++ {
		missing[fmt.Sprint("kind ", kind)] = true
	}
	assessments := rapid.Custom(func(t *rapid.T) Assessment {
		s, p := drawSnapshot(t), drawPolicy(t)
		return Evaluate(&s, &p, noon)
	})
	seed := 0
	for ; len(missing) > 0 && seed < 10_000; seed++ {
		for _, v := range assessments.Example(seed).Verdicts {
			delete(missing, "reason "+string(v.Reason))
			delete(missing, fmt.Sprint("kind ", v.Kind))
			for _, f := range v.Findings {
				delete(missing, "rule "+string(f.Rule))
			}
		}
	}
	for name := range missing {
		t.Errorf("no drawn case reaches %q", name)
	}
	t.Logf("%d cases drawn", seed)
}

func FuzzEvaluate(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		s, p := drawSnapshot(t), drawPolicy(t)
		now := time.Unix(rapid.Int64().Draw(t, "now"), 0)
		p.NodeStartupTimeout = time.Duration(rapid.Int64().Draw(t, "any startup timeout"))
		p.NodeGoneTimeout = time.Duration(rapid.Int64().Draw(t, "any gone timeout"))
		p.NodeConditions = append(p.NodeConditions, ConditionCheck{rapid.String().Draw(t, "any type"), rapid.String().Draw(t, "any status"), time.Duration(rapid.Int64().Draw(t, "any time"))})
		got := Evaluate(&s, &p, now)
		sum := got.Counts.Healthy + got.Counts.Suspect + got.Counts.Unhealthy + got.Counts.Undetermined
		if len(got.Verdicts) != len(s.Targets) || got.Counts.Expected != sum || got.Counts.Expected+got.Counts.Skipped != len(s.Targets) {
			t.Fatalf("%d targets, %+v", len(s.Targets), got.Counts)
		}
	}))
}

func benchmarkEvaluate(b *testing.B, n int) {
	s := Snapshot{Cluster: up(), Targets: make([]Target, n)}
	for i := range s.Targets {
		s.Targets[i] = machine(
			nodeIs("DiskPressure", "False", time.Hour), nodeIs("MemoryPressure", "False", time.Hour), nodeIs("PIDPressure", "False", time.Hour),
		)
		s.Targets[i].Machine.Conditions = []metav1.Condition{{Type: "InfrastructureReady", Status: "True"}, {Type: "NodeReady", Status: "True"}}
		s.Targets[i].Node.Conditions = append(s.Targets[i].Node.Conditions, corev1.NodeCondition{Type: "NetworkUnavailable", Status: "False"})
	}
	b.ReportAllocs()
	for b.Loop() {
		if got := Evaluate(&s, &usual, noon); got.Counts.Healthy != n {
			b.Fatal(got.Counts)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/target")
}

func BenchmarkEvaluate100(b *testing.B)   { benchmarkEvaluate(b, 100) }
func BenchmarkEvaluate1000(b *testing.B)  { benchmarkEvaluate(b, 1000) }
func BenchmarkEvaluate10000(b *testing.B) { benchmarkEvaluate(b, 10000) }

// A healthy target costs nothing on the heap, however many there are: only the list of verdicts is made.
func TestGuard_HealthyTarget_AllocatesNothing(t *testing.T) {
	s := Snapshot{Cluster: up(), Targets: make([]Target, 1000)}
	for i := range s.Targets {
		s.Targets[i] = machine()
	}
	if got := testing.AllocsPerRun(10, func() { _ = Evaluate(&s, &usual, noon) }); got > 1 {
		t.Errorf("%v allocations for 1000 healthy targets; the list of verdicts is one", got)
	}
}

// The time since which a Node is missing is kept until the Node is read again, whatever can be read meanwhile.
func TestNodeGoneSince_MissingNode_IsKeptUntilBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, p := drawSnapshot(t), drawPolicy(t)
		for i, v := range Evaluate(&s, &p, noon).Verdicts {
			target := &s.Targets[i]
			want := time.Time{}
			if target.Machine != nil {
				want = target.Machine.NodeGoneSince
			}
			switch state := target.nodeState(); {
			case state == Present:
				want = time.Time{}
			case state == Gone && target.Machine != nil && (want.IsZero() || want.After(noon)):
				want = noon
			}
			if !v.NodeGoneSince.Equal(want) {
				t.Fatalf("target %d in state %d remembers %s instead of %s", i, target.nodeState(), v.NodeGoneSince, want)
			}
		}
	})
}
