//go:build long

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"context"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/depth"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// scenario is a stage with a sequence of steps. Each step runs when the instance has nothing left to do after the one before.
type scenario struct {
	*stage.Stage
	recorder *stage.Recorder
	steps    []func()
	next     int
}

// run continues the scenario where an earlier process has stopped.
func (s *scenario) run(ctx context.Context, p *faults.Process) error {
	c, err := s.StartAs(p, s.User())
	if err != nil {
		return err
	}
	defer c.Stop()
	for {
		if err := c.RunUntilIdle(ctx); err != nil {
			return err
		}
		if s.next == len(s.steps) {
			return nil
		}
		s.steps[s.next]()
		s.next++
	}
}

// runAtEachWrite runs a scenario once for the first and the last write of each kind in it, and lets that write meet the first of these
// faults; at full depth every single write meets each of them. Without faults, the process crashes after the write, and at full depth also
// before it: to the next process that is a crash after the write before.
func runAtEachWrite(t *testing.T, begin func(s *scenario), injected ...faults.Fault) {
	t.Helper()
	runStageAtEachWrite(t, func() *stage.Stage { return stage.New(t, stage.WithClock) }, begin, injected...)
}

// runStageAtEachWrite is the same with another stage.
func runStageAtEachWrite(t *testing.T, begins func() *stage.Stage, begin func(s *scenario), injected ...faults.Fault) {
	t.Helper()
	if len(injected) == 0 {
		injected = []faults.Fault{faults.CrashAfter, faults.CrashBefore}
	}
	if !depth.Full() {
		injected = injected[:1]
	}
	faults.EachWrite(t, faults.Scenario[*scenario]{
		Faults: injected, OncePerKind: !depth.Full(),
		Begin: func(context.Context) (*scenario, error) {
			s := &scenario{Stage: begins()}
			s.recorder = s.StartRecorder()
			begin(s)
			return s, nil
		},
		Run: func(ctx context.Context, p *faults.Process, s *scenario) error { return s.run(ctx, p) },
		State: func(_ context.Context, s *scenario) ([]client.Object, error) {
			var all []client.Object
			for _, check := range s.Checks() {
				delete(check.Annotations, stage.WakeAnnotation)
				// An instance records a remediation when it observes its end, and forgets it when it crashes.
				check.Status.RecentRemediations = nil
				all = append(all, &check)
			}
			for _, check := range s.NodeChecks() {
				delete(check.Annotations, stage.WakeAnnotation)
				check.Status.RecentRemediations = nil
				all = append(all, &check)
				// Of a Node, only annotations are written.
				for i := range check.Status.UnhealthyTargets {
					node := s.NodeOfName(check.Status.UnhealthyTargets[i].Name)
					all = append(all, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, Annotations: node.Annotations}})
				}
				all = append(all, nodeLeases(s.Stage)...)
			}
			for _, m := range s.Machines() {
				all = append(all, &m)
			}
			for _, kind := range []remediator.Kind{remediator.Example, remediator.Metal3, remediator.FenceAgents, remediator.SelfNode} {
				for _, request := range s.Requests(kind) {
					all = append(all, &request)
				}
			}
			return append(all, requestsInWorkload(s.Stage)...), nil
		},
		// The number of status writes varies, because a reconcile can observe two changes. Nothing depends on it.
		Options: []faults.Option{faults.Ignoring(faults.Events, isOtherLease, isCheckStatusWrite)},
		Names:   func(s *scenario) []string { return []string{s.Namespace} },
		End:     func(_ context.Context, s *scenario) { s.recorder.Stop() },
		Check: func(_ context.Context, s *scenario, writes []faults.Write) error {
			created := map[string]int{}
			for _, w := range writes {
				// Between two steps, the Lease of a Node is released.
				if w.Verb == "create" && w.Landed() && !faults.Leases(w) {
					if created[w.Resource+" "+w.Name]++; created[w.Resource+" "+w.Name] > 1 {
						return errors.Errorf("%s %s was created twice", w.Resource, w.Name)
					}
				}
			}
			if violation := s.recorder.Violation(); violation != "" {
				return errors.New(violation)
			}
			return nil
		},
	})
}

// isOtherLease: a write of a Lease that is not that of a Node. When the control-plane Lease is renewed varies.
func isOtherLease(w faults.Write) bool {
	return faults.Leases(w) && w.Namespace != workload.NodeLeaseKey("").Namespace
}

// nodeLeases are the Leases of the Nodes of a stage, without their times.
func nodeLeases(s *stage.Stage) (all []client.Object) {
	leases := &coordinationv1.LeaseList{}
	s.Expect(s.Nodes().List(s.Ctx, leases, client.InNamespace(workload.NodeLeaseKey("").Namespace))).To(Succeed())
	for i := range leases.Items {
		if lease := &leases.Items[i]; strings.Contains(lease.Name, s.Namespace) {
			all = append(all, &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Namespace: lease.Namespace, Name: lease.Name},
				Spec:       coordinationv1.LeaseSpec{HolderIdentity: lease.Spec.HolderIdentity},
			})
		}
	}
	return all
}

func TestOwnerRemediation_CrashAtAnyWrite_EndsTheSame(t *testing.T) {
	t.Parallel()
	runAtEachWrite(t, func(s *scenario) {
		s.CreateUnhealthyMachine("m-1")
		s.CreateMachine("m-2")
		s.CreateCheck("workers", stage.MaxInFlight(1))
	})
}

func TestEscalation_CrashAtAnyWrite_EndsTheSame(t *testing.T) {
	t.Parallel()
	runAtEachWrite(t, func(s *scenario) {
		s.CreateUnhealthyMachine("m-1")
		s.CreateCheck(
			"workers",
			stage.BySteps(s.CreateTemplate(remediator.Example, "soft"), s.CreateTemplate(remediator.Metal3, "hard"), nil),
		)
		s.steps = []func(){
			func() { s.Advance(10 * time.Minute) },
			func() { s.SetReady("m-1", corev1.ConditionTrue, 0) },
		}
	})
}

// createNodes creates two healthy Nodes and an unhealthy one.
func createNodes(s *stage.Stage) {
	s.CreateNode("n-1")
	s.CreateNode("n-2")
	s.CreateUnhealthyNode("n-3")
}

// The history of a Node is written to the Node, in the cluster of the manager. The Node recovers during the second step.
func TestNodeEscalation_CrashAtAnyWrite_EndsTheSame(t *testing.T) {
	t.Parallel()
	begins := func() *stage.Stage { return stage.New(t, stage.WithClock, stage.WithAllNamespaces) }
	runStageAtEachWrite(t, begins, func(s *scenario) {
		createNodes(s.Stage)
		s.CreateNodeCheck("workers", stage.NodeSteps(
			s.CreateNodeTemplate(remediator.FenceAgents, "soft"), s.CreateNodeTemplate(remediator.SelfNode, "hard")))
		s.steps = []func(){
			func() { s.Advance(10 * time.Minute) },
			func() { s.SetReady("n-3", corev1.ConditionTrue, 0) },
		}
	})
}

// inWorkload are the kinds of requests in the workload cluster, of one step each.
var inWorkload = []remediator.Kind{remediator.FenceAgents, remediator.SelfNode}

// requestsInWorkload are those in the workload cluster, in the namespace of the name of the stage; none if their kind is not served there.
func requestsInWorkload(s *stage.Stage) (all []client.Object) {
	for _, kind := range inWorkload {
		requests := &unstructured.UnstructuredList{}
		requests.SetGroupVersionKind(kind.GroupVersionKind)
		if err := s.Workload.List(s.Ctx, requests, client.InNamespace(s.Namespace)); !meta.IsNoMatchError(err) {
			s.Expect(err).ToNot(HaveOccurred())
		}
		for i := range requests.Items {
			all = append(all, &requests.Items[i])
		}
	}
	return all
}

// createWorkloadCheck creates a check of two steps, whose templates and requests are in the workload cluster.
func createWorkloadCheck(s *stage.Stage) *remedyv1.NodeHealthCheck {
	s.T.Helper()
	leases := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: workload.NodeLeaseKey("").Namespace}}
	s.Expect(client.IgnoreAlreadyExists(s.Workload.Create(s.Ctx, leases))).To(Succeed())
	s.Expect(s.Workload.Create(s.Ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}})).To(Succeed())
	steps := make([]*remedyv1.NodeTemplateReference, 0, len(inWorkload))
	for _, kind := range inWorkload {
		s.Expect(stage.Workload.InstallCRDObjects(kind.CRDs()...)).To(Succeed())
		s.Expect(s.Workload.Create(s.Ctx, kind.NewTemplate(s.Namespace, "step", map[string]any{"agent": "any"}))).To(Succeed())
		steps = append(steps, stage.NodeTemplateReference(s, kind, "step"))
	}
	return s.CreateNodeCheck("workers", func(spec *remedyv1.NodeHealthCheckSpec) {
		spec.TemplateLocation = remedyv1.WorkloadLocation
		stage.NodeSteps(steps...)(spec)
	})
}

// Requests, the history of a Node and its Lease are in the workload cluster, where each write can fail, too. No watch shows these requests.
// The check is deleted during the second step.
func TestWorkloadEscalation_CrashAtAnyWrite_EndsTheSame(t *testing.T) {
	t.Parallel()
	begins := func() *stage.Stage { return stage.New(t, stage.WithClock, stage.WithWorkloadWrites) }
	runStageAtEachWrite(t, begins, func(s *scenario) {
		createNodes(s.Stage)
		check := createWorkloadCheck(s.Stage)
		s.steps = []func(){
			func() { s.Advance(10 * time.Minute) },
			func() { s.Expect(client.IgnoreNotFound(s.Admin.Delete(s.Ctx, check))).To(Succeed()) },
		}
	})
}

func TestCleanup_CrashAtAnyWrite_EndsTheSame(t *testing.T) {
	t.Parallel()
	runAtEachWrite(t, func(s *scenario) {
		s.CreateUnhealthyMachine("m-1")
		s.CreateUnhealthyMachine("m-2")
		check := s.CreateCheck("workers", stage.ByTemplate(s.CreateTemplate(remediator.Metal3, "soft")), stage.MaxInFlight(1))
		s.steps = []func(){func() { s.Expect(client.IgnoreNotFound(s.Admin.Delete(s.Ctx, check))).To(Succeed()) }}
	})
}

// A check cancels the remediation of its Machine. Each write of that fails once; at full depth, it also succeeds and the response is lost.
func TestWithdrawal_AnyWriteFails_EndsTheSame(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *stage.Stage, check *remedyv1.MachineHealthCheck){
		"check deleted": func(s *stage.Stage, check *remedyv1.MachineHealthCheck) {
			s.Expect(s.Admin.Delete(s.Ctx, check)).To(Succeed())
		},
		"observe mode":   setObserveMode,
		"other selector": selectOtherPool,
	} {
		if name != "check deleted" && !depth.Full() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runAtEachWrite(t, func(s *scenario) {
				s.CreateUnhealthyMachine("m-1")
				s.CreateUnhealthyMachine("m-2")
				check := s.CreateCheck("workers", stage.ByTemplate(s.CreateTemplate(remediator.Example, "soft")), stage.MaxInFlight(1))
				runUntilIdle(s.Stage)
				s.Remediate(remediator.Example, remediator.Hangs)
				change(s.Stage, check)
				s.steps = []func(){func() { s.Remediate(remediator.Example, remediator.Hangs) }}
			}, faults.Refuse, faults.LoseAnswer)
		})
	}
}

func TestControlPlane_CrashAtAnyWrite_EndsTheSame(t *testing.T) {
	t.Parallel()
	stage.LockControlPlane(t)
	runAtEachWrite(t, func(s *scenario) {
		s.CreateControlPlane(3)
		s.FailNode("cp-1")
		s.CreateCheck("control", stage.OfPool("control"), stage.ByTemplate(s.CreateTemplate(remediator.Metal3, "soft")))
		s.steps = []func(){
			func() {
				s.Expect(s.ControlPlaneLeaseHolder()).To(Equal("MachineHealthCheck/" + s.Namespace + "/control"))
				s.Remediate(remediator.Metal3, remediator.Succeeds)
				s.SetReady("cp-1", corev1.ConditionTrue, 0)
			},
			func() { s.Remediate(remediator.Metal3, remediator.Succeeds) },
			func() { s.Expect(s.ControlPlaneLeaseHolder()).To(BeEmpty()) },
		}
	})
}
