// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// inWorkload has its template and its requests in the workload cluster, in a namespace of the name of the stage.
func inWorkload(s *stage.Stage) func(*remedyv1.NodeHealthCheckSpec) {
	s.T.Helper()
	return inWorkloadWith(s, remediator.FenceAgents)
}

func inWorkloadWith(s *stage.Stage, kind remediator.Kind) func(*remedyv1.NodeHealthCheckSpec) {
	s.T.Helper()
	s.Expect(stage.Workload.InstallCRDObjects(kind.CRDs()...)).To(Succeed())
	s.Expect(s.Workload.Create(s.Ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}})).To(Succeed())
	template := kind.NewTemplate(s.Namespace, "reboot", map[string]any{"agent": "fence_ipmilan"})
	s.Expect(s.Workload.Create(s.Ctx, template)).To(Succeed())
	return func(spec *remedyv1.NodeHealthCheckSpec) {
		spec.TemplateLocation = remedyv1.WorkloadLocation
		spec.RemediationTemplate = stage.NodeTemplateReference(s, kind, "reboot")
	}
}

// requestInWorkload reads the request for the Node n-3 in the workload cluster; nil without one.
func requestInWorkload(s *stage.Stage) func() *unstructured.Unstructured {
	return requestInWorkloadOf(s, remediator.FenceAgents)
}

func requestInWorkloadOf(s *stage.Stage, kind remediator.Kind) func() *unstructured.Unstructured {
	return func() *unstructured.Unstructured {
		request := kind.NewRequest(s.Namespace, s.NodeName("n-3"))
		if err := s.Workload.Get(s.Ctx, client.ObjectKeyFromObject(request), request); err != nil {
			s.Expect(client.IgnoreNotFound(err)).To(Succeed())
			return nil
		}
		return request
	}
}

// Every remediator that finds its Node by name is driven in the same cluster, too: until the Node is healthy, and until it does not exist.
// It gets its requests there, from a template there. They belong to the Node.
func TestWorkloadLocation_EachRemediator_IsDriven(t *testing.T) {
	t.Parallel()
	for _, known := range knownRemediators {
		if known.ofMachine || known.vanishes {
			continue
		}
		t.Run(known.name, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t)
			node := createNodes(s)
			check := s.CreateNodeCheck("workers", inWorkloadWith(s, known.kind))
			c := s.Start()
			c.NeverIdle = true
			request := requestInWorkloadOf(s, known.kind)
			becomes := func(outcome remediator.Outcome, expected types.GomegaMatcher) {
				s.Eventually(func() *unstructured.Unstructured {
					remediateBesideNodes(s, known.kind, outcome)
					return request()
				}).WithTimeout(stage.OutcomeTimeout).Should(expected)
			}
			becomes(remediator.Succeeds, HaveField("GetFinalizers()", Not(BeEmpty())))
			s.Expect(request().GetOwnerReferences()).To(ConsistOf(And(HaveField("Kind", "Node"), HaveField("UID", node.UID))))
			s.Expect(request().GetLabels()).To(HaveKey(remedyv1.CheckLabel))
			s.Expect(s.Requests(known.kind)).To(BeEmpty())
			s.Expect(stage.Get(s, check)().Finalizers).To(ConsistOf(remedyv1.CleanupFinalizer))
			s.SetReady("n-3", corev1.ConditionTrue, 0)
			becomes(remediator.Succeeds, BeNil())
			s.Eventually(stage.Get(s, check)).Should(And(HaveField("Finalizers", BeEmpty()), WithTransform(status, Equal([]int32{3, 3, 0}))))

			s.FailNode("n-3")
			becomes(remediator.Hangs, HaveField("GetFinalizers()", Not(BeEmpty())))
			s.Expect(s.Workload.Delete(s.Ctx, s.Node("n-3"))).To(Succeed())
			s.Eventually(request).WithTimeout(stage.OutcomeTimeout).Should(And(
				HaveField("GetAnnotations()", HaveKey(remedyv1.TimedOutAnnotation)), HaveField("GetDeletionTimestamp()", Not(BeNil()))))
			if !known.stuckWithoutNode {
				becomes(remediator.Hangs, BeNil())
				s.Eventually(stage.Get(s, check)).WithTimeout(stage.OutcomeTimeout).Should(HaveField("Status.InFlightRemediations", BeEmpty()))
			}
		})
	}
}

// remediateBesideNodes lets a remediator of the workload cluster do all it can.
func remediateBesideNodes(s *stage.Stage, kind remediator.Kind, outcome remediator.Outcome) {
	s.T.Helper()
	player := s.Remediator(kind, outcome)
	player.Client = client.NewNamespacedClient(s.Workload, s.Namespace)
	for acted := true; acted; {
		var err error
		if acted, err = player.Act(s.Ctx); apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			acted, err = true, nil
		}
		s.Expect(err).ToNot(HaveOccurred())
	}
}

// Requests in the workload cluster are not watched. The check reads the failure of one that it has created after a backoff, when nothing
// else wakes it.
func TestWorkloadLocation_SecondAttemptFails_IsRead(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithOwnPollInterval)
	createNodes(s)
	second := stage.Duration(time.Second)
	s.CreateNodeCheck("workers", inWorkload(s), func(spec *remedyv1.NodeHealthCheckSpec) { spec.Backoff.Initial = &second })
	c := s.Start()
	c.NeverIdle = true
	for _, attempt := range []string{"1", "2"} {
		s.Eventually(func() string {
			remediateBesideNodes(s, remediator.FenceAgents, remediator.Hangs)
			return attemptOf(requestInWorkload(s)())
		}).Should(Equal(attempt))
		remediateBesideNodes(s, remediator.FenceAgents, remediator.Fails)
		s.Eventually(func() string {
			remediateBesideNodes(s, remediator.FenceAgents, remediator.Hangs)
			return s.Node("n-3").Annotations[remedyv1.AttemptsAnnotation]
		}).WithTimeout(stage.OutcomeTimeout).Should(Equal(attempt))
	}
}

func attemptOf(request *unstructured.Unstructured) string {
	if request == nil {
		return ""
	}
	return request.GetAnnotations()[remedyv1.AttemptAnnotation]
}

// While the workload cluster cannot be reached, the check keeps its finalizer. When its Cluster no longer exists, there is nothing to clean
// up.
func TestWorkloadLocation_Outage_FinalizerStaysAsLongAsTheCluster(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithProxy)
	createNodes(s)
	check := s.CreateNodeCheck("workers", inWorkload(s))
	c := s.Start()
	c.NeverIdle = true
	s.Eventually(requestInWorkload(s)).ShouldNot(BeNil())
	s.Eventually(stage.Get(s, check)).Should(HaveField("Status.InFlightRemediations", HaveLen(1)))
	s.Expect(s.Proxy.Set(faults.RefuseConnections)).To(Succeed())
	s.Eventually(stage.Get(s, check)).Should(WithTransform(
		stage.OfNodes(stage.CheckCondition(remedyv1.ClusterReachableCondition)), Equal("False ClusterUnreachable")))
	s.Expect(check.Status.InFlightRemediations).To(HaveLen(1))
	s.Expect(s.Admin.Delete(s.Ctx, check)).To(Succeed())
	s.Eventually(stage.Get(s, check)).Should(WithTransform(
		stage.OfNodes(stage.CheckCondition(remedyv1.ReadyCondition)), HaveSuffix(remedyv1.CleaningUpReason)))
	s.Expect(check.Finalizers).To(ConsistOf(remedyv1.CleanupFinalizer))
	s.Expect(s.Admin.Delete(s.Ctx, s.Cluster)).To(Succeed())
	s.Eventually(func() error {
		return client.IgnoreNotFound(s.Admin.Get(s.Ctx, client.ObjectKeyFromObject(check), check))
	}).Should(Succeed())
	s.Eventually(func() bool {
		return s.Admin.Get(s.Ctx, client.ObjectKeyFromObject(check), &remedyv1.NodeHealthCheck{}) != nil
	}).Should(BeTrue())
	s.Expect(requestInWorkload(s)()).ToNot(BeNil(), "the workload cluster is not reached any more")
}

// Metal3 reads the Machine of a request in its namespace. Requests in the management cluster would never be remediated by a remediator that
// reads Nodes of its own cluster.
func TestWorkloadLocation_RemediatorCannotRead_IsReported(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind   remediator.Kind
		change func(*remedyv1.NodeHealthCheckSpec)
		says   string
	}{
		"Metal3 in the workload cluster": {remediator.Metal3, func(spec *remedyv1.NodeHealthCheckSpec) {
			spec.TemplateLocation = remedyv1.WorkloadLocation
		}, "create the template in the management cluster"},
		"Metal3 in another namespace": {remediator.Metal3, func(spec *remedyv1.NodeHealthCheckSpec) {
			spec.RemediationTemplate.Namespace = "default"
		}, "create the template in namespace team-"},
		"local remediator in the management cluster": {remediator.FenceAgents, func(*remedyv1.NodeHealthCheckSpec) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t)
			createNodes(s)
			check := s.CreateNodeCheck("workers", func(spec *remedyv1.NodeHealthCheckSpec) {
				spec.RemediationTemplate = s.CreateNodeTemplate(test.kind, "workers")
				test.change(spec)
			})
			c := s.Start()
			c.NeverIdle = true
			decided(s, check, "n-3", Equal("Blocked TemplateNotResolved"))
			s.Expect(templatesResolved(check)).To(Equal("False WrongLocation"))
			s.Expect(stage.OfNodes(stage.CheckMessage(remedyv1.TemplatesResolvedCondition))(check)).To(ContainSubstring(test.says))
			c.ReconcileAll()
			s.Expect(s.Requests(test.kind)).To(BeEmpty())
		})
	}
}

// The kubeconfig leads to another cluster, which does not have the requests. They are not taken for requests that no longer exist.
func TestWorkloadLocation_OtherCluster_FinalizerStays(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	for _, name := range []string{"n-1", "n-2", "n-3"} {
		s.CreateMachine(name)
	}
	ownNodes(s, "n-1", "n-2", "n-3")
	s.FailNode("n-3")
	check := s.CreateNodeCheck("workers", inWorkload(s))
	c := s.Start()
	c.NeverIdle = true
	s.Eventually(requestInWorkload(s)).ShouldNot(BeNil())
	s.Eventually(stage.Get(s, check)).Should(HaveField("Status.InFlightRemediations", HaveLen(1)))
	c.Stop()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "prod-kubeconfig"}}
	s.Change(secret, func() { secret.Data["value"] = s.Kubeconfig(stage.Management.Admin) })
	restarted := s.Start()
	restarted.NeverIdle = true
	s.Eventually(stage.Get(s, check)).Should(WithTransform(
		stage.OfNodes(stage.CheckCondition(remedyv1.ClusterReachableCondition)), Equal("False WrongCluster")))
	restarted.ReconcileAll()
	stage.Get(s, check)()
	s.Expect(check.Finalizers).To(ConsistOf(remedyv1.CleanupFinalizer))
	s.Expect(check.Status.InFlightRemediations).To(HaveLen(1))
}
