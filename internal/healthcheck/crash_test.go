//go:build long

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/depth"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// story is a stage on which one thing happens after the other, each when the controller has nothing left to do about the one before.
type story struct {
	*stage.Stage
	recorder *stage.Recorder
	chapters []func()
	at       int
}

// play goes on with the story where an earlier process has stopped.
func (s *story) play(ctx context.Context, p *faults.Process) error {
	c, err := s.StartAs(p, s.User())
	if err != nil {
		return err
	}
	defer c.Stop()
	for {
		if err := c.RunUntilIdle(ctx); err != nil {
			return err
		}
		if s.at == len(s.chapters) {
			return nil
		}
		s.chapters[s.at]()
		s.at++
	}
}

// eachWrite runs a story once for each of these faults and each kind of write in it; at full depth for every single write. Without faults
// it is a crash before and after the write.
func eachWrite(t *testing.T, begin func(s *story), these ...faults.Fault) {
	t.Helper()
	faults.EachWrite(t, faults.Scenario[*story]{
		Faults: these, OncePerKind: !depth.Full(),
		Begin: func(context.Context) (*story, error) {
			s := &story{Stage: stage.New(t, stage.WithClock)}
			s.recorder = s.StartRecorder()
			begin(s)
			return s, nil
		},
		Run: func(ctx context.Context, p *faults.Process, s *story) error { return s.play(ctx, p) },
		State: func(_ context.Context, s *story) ([]client.Object, error) {
			var all []client.Object
			for _, check := range s.Checks() {
				delete(check.Annotations, stage.WakeAnnotation)
				// What has ended is told by who has seen it, and forgotten when that one dies.
				check.Status.RecentRemediations = nil
				all = append(all, &check)
			}
			for _, m := range s.Machines() {
				all = append(all, &m)
			}
			for _, kind := range []remediator.Kind{remediator.FenceAgents, remediator.Metal3} {
				for _, request := range s.Requests(kind) {
					all = append(all, &request)
				}
			}
			return all, nil
		},
		// The status of a check is told once or twice, as it happens: two changes may be seen in one pass. Nothing rests on it.
		Options: []faults.Option{faults.Ignoring(faults.Events, faults.Leases, statusOfCheck)},
		Names:   func(s *story) []string { return []string{s.Namespace} },
		End:     func(_ context.Context, s *story) { s.recorder.Stop() },
		Check: func(_ context.Context, s *story, writes []faults.Write) error {
			made := map[string]int{}
			for _, w := range writes {
				if w.Verb == "create" && w.Landed() {
					if made[w.Resource+" "+w.Name]++; made[w.Resource+" "+w.Name] > 1 {
						return errors.Errorf("there was a second %s %s", w.Resource, w.Name)
					}
				}
			}
			if wrong := s.recorder.Violation(); wrong != "" {
				return errors.New(wrong)
			}
			return nil
		},
	})
}

func TestAMarkSurvivesACrashAtAnyWrite(t *testing.T) {
	t.Parallel()
	eachWrite(t, func(s *story) {
		s.CreateUnhealthyMachine("m-1")
		s.CreateMachine("m-2")
		s.CreateCheck("workers", stage.MaxInFlight(1))
	})
}

func TestAnEscalationSurvivesACrashAtAnyWrite(t *testing.T) {
	t.Parallel()
	eachWrite(t, func(s *story) {
		s.CreateUnhealthyMachine("m-1")
		s.CreateCheck(
			"workers",
			stage.BySteps(s.CreateTemplate(remediator.FenceAgents, "soft"), s.CreateTemplate(remediator.Metal3, "hard"), nil),
		)
		s.chapters = []func(){
			func() { s.Advance(10 * time.Minute) },
			func() { s.SetReady("m-1", corev1.ConditionTrue, 0) },
		}
	})
}

func TestTheEndOfACheckSurvivesACrashAtAnyWrite(t *testing.T) {
	t.Parallel()
	eachWrite(t, func(s *story) {
		s.CreateUnhealthyMachine("m-1")
		s.CreateUnhealthyMachine("m-2")
		check := s.CreateCheck("workers", stage.ByTemplate(s.CreateTemplate(remediator.Metal3, "soft")), stage.MaxInFlight(1))
		s.chapters = []func(){func() { s.Expect(client.IgnoreNotFound(s.Admin.Delete(s.Ctx, check))).To(Succeed()) }}
	})
}

// TestAWithdrawalSurvivesAFailureOfAnyWrite: a check lets its Machine go, and each write of that fails once, or lands and nobody hears of
// it.
func TestAWithdrawalSurvivesAFailureOfAnyWrite(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *stage.Stage, check *remedyv1.MachineHealthCheck){
		"the check is deleted": func(s *stage.Stage, check *remedyv1.MachineHealthCheck) {
			s.Expect(s.Admin.Delete(s.Ctx, check)).To(Succeed())
		},
		"it observes":    observes,
		"others are its": looksAfterOthers,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachWrite(t, func(s *story) {
				s.CreateUnhealthyMachine("m-1")
				s.CreateUnhealthyMachine("m-2")
				check := s.CreateCheck("workers", stage.ByTemplate(s.CreateTemplate(remediator.FenceAgents, "soft")), stage.MaxInFlight(1))
				untilQuiet(s.Stage)
				s.Remediate(remediator.FenceAgents, remediator.Hangs)
				change(s.Stage, check)
				s.chapters = []func(){func() { s.Remediate(remediator.FenceAgents, remediator.Hangs) }}
			}, faults.Refuse, faults.LoseAnswer)
		})
	}
}

func TestTheTurnAtAControlPlaneSurvivesACrashAtAnyWrite(t *testing.T) {
	t.Parallel()
	stage.LockControlPlane(t)
	eachWrite(t, func(s *story) {
		s.CreateControlPlane(3)
		s.FailNode("cp-1")
		s.CreateCheck("control", stage.OfPool("control"), stage.ByTemplate(s.CreateTemplate(remediator.Metal3, "soft")))
		s.chapters = []func(){
			func() {
				s.Expect(s.ControlPlaneLeaseHolder()).To(Equal("MachineHealthCheck/" + s.Namespace + "/control"))
				s.Remediate(remediator.Metal3, remediator.Succeeds)
				s.SetReady("cp-1", corev1.ConditionTrue, 0)
			},
			func() { s.Remediate(remediator.Metal3, remediator.Succeeds) },
			func() { s.Expect(s.ControlPlaneLeaseHolder()).To(BeEmpty()) },
		}
	}, faults.CrashBefore, faults.CrashAfter)
}
