// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck_test

import (
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/manifests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// restricted gives the manager a kubeconfig that allows only these resources of the core group.
func restricted(s *stage.Stage, resources ...string) {
	s.T.Helper()
	user := controlplane.User{Name: s.Namespace}
	stage.Workload.Grant(s.T, user, "",
		rbacv1.PolicyRule{APIGroups: []string{"", coordinationv1.GroupName}, Resources: resources, Verbs: []string{"*"}},
		rbacv1.PolicyRule{NonResourceURLs: []string{"*"}, Verbs: []string{"*"}})
	useKubeconfigOf(s, user)
}

// useKubeconfigOf gives the manager the kubeconfig of a user of the workload cluster.
func useKubeconfigOf(s *stage.Stage, user controlplane.User) {
	s.T.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "prod-kubeconfig"}}
	s.Change(secret, func() { secret.Data["value"] = s.Kubeconfig(stage.Workload.ConfigOf(s.T, user)) })
}

// Nodes of a cluster that cannot be reached still exist: their requests stay, and their number is still reported.
func TestOutage_Requests_Stay(t *testing.T) {
	t.Parallel()
	for name, restarts := range map[string]bool{"while it runs": false, "before a restart": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t, stage.WithProxy)
			createNodes(s)
			check := s.CreateNodeCheck("workers", rebooting(s))
			first, err := s.StartAs(faults.Start(s.Ctx), s.User())
			s.Expect(err).ToNot(HaveOccurred())
			t.Cleanup(first.Stop)
			s.WaitRequest(remediator.Example, s.NodeName("n-3"))
			s.Eventually(stage.Get(s, check)).Should(HaveField("Status.InFlightRemediations", HaveLen(1)))
			if restarts {
				first.StopIdle()
			}
			s.Expect(s.Proxy.Set(faults.RefuseConnections)).To(Succeed())
			if restarts {
				s.Start()
			}
			s.Eventually(stage.Get(s, check)).Should(WithTransform(
				stage.OfNodes(stage.CheckCondition(remedyv1.ClusterReachableCondition)), Equal("False ClusterUnreachable")))
			s.Expect(check.Status.ObservedNodes).To(HaveValue(BeNumerically(">=", 1)))
			s.Expect(check.Status.Limit).To(HaveValue(HaveField("MaxUnhealthy", BeEquivalentTo(1))))
			s.Expect(check.Status.InFlightRemediations).To(HaveLen(1))
			request := s.NodeRequest(remediator.Example, "n-3")()
			s.Expect(request.GetDeletionTimestamp()).To(BeNil())
			s.Expect(request.GetAnnotations()).ToNot(HaveKey(remedyv1.TimedOutAnnotation))
		})
	}
}

// A check whose Cluster no longer exists deletes its requests.
func TestCluster_IsDeleted_CheckCleansUp(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	createNodes(s)
	check := s.CreateNodeCheck("workers", rebooting(s))
	c := s.Start()
	// The connection to the Cluster ends with it.
	c.NeverIdle = true
	s.WaitRequest(remediator.Example, s.NodeName("n-3"))
	s.Expect(s.Admin.Delete(s.Ctx, s.Cluster)).To(Succeed())
	s.Eventually(s.NodeRequest(remediator.Example, "n-3")).Should(BeNil())
	s.Eventually(stage.Get(s, check)).Should(And(
		HaveField("Finalizers", BeEmpty()),
		WithTransform(stage.OfNodes(stage.CheckCondition(remedyv1.ReadyCondition)), Equal("False ClusterNotFound"))))
}

// A check that is deleted, or only observes, deletes its requests and removes its history from the Nodes.
func TestCleanup_DeletedOrObserving_LeavesNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*stage.Stage, *remedyv1.NodeHealthCheck){
		"deleted": func(s *stage.Stage, c *remedyv1.NodeHealthCheck) { s.Expect(s.Admin.Delete(s.Ctx, c)).To(Succeed()) },
		"observes": func(s *stage.Stage, c *remedyv1.NodeHealthCheck) {
			s.Change(c, func() { c.Spec.Mode = remedyv1.ObserveMode })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t, stage.WithAllNamespaces, stage.WithClock)
			createNodes(s)
			check := s.CreateNodeCheck("workers", stage.NodeSteps(
				s.CreateNodeTemplate(remediator.FenceAgents, "a"), s.CreateNodeTemplate(remediator.FenceAgents, "b")))
			s.Start()
			s.WaitRequest(remediator.FenceAgents, s.NodeName("n-3"))
			decided(s, check, "n-3", Equal("Remediating "))
			s.Advance(10 * time.Minute)
			s.Eventually(func() map[string]string { return s.Node("n-3").Annotations }).Should(HaveKey(remedyv1.TriedAnnotation))
			change(s, check)
			s.Eventually(s.NodeRequest(remediator.FenceAgents, "n-3")).Should(BeNil())
			s.Eventually(func() map[string]string { return s.Node("n-3").Annotations }).ShouldNot(HaveKey(ContainSubstring(remedyv1.Prefix)))
			s.Eventually(func() []string {
				if err := s.Admin.Get(s.Ctx, client.ObjectKeyFromObject(check), check); err != nil {
					s.Expect(client.IgnoreNotFound(err)).To(Succeed())
					return nil
				}
				return check.Finalizers
			}).Should(BeEmpty())
		})
	}
}

// Nothing is written while a check is paused, not even for a Node that is healthy again.
func TestPause_Request_Stays(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces)
	createNodes(s)
	check := s.CreateNodeCheck("workers")
	c := s.Start()
	s.WaitRequest(remediator.FenceAgents, s.NodeName("n-3"))
	decided(s, check, "n-3", Equal("Remediating "))
	s.Annotate(check, "cluster.x-k8s.io/paused", "yes")
	s.Eventually(
		stage.Get(s, check),
	).Should(
		WithTransform(stage.OfNodes(stage.CheckCondition(remedyv1.PausedCondition)), Equal("True Paused")),
	)
	s.SetReady("n-3", corev1.ConditionTrue, 0)
	c.WaitIdle()
	s.Expect(s.NodeRequest(remediator.FenceAgents, "n-3")().GetDeletionTimestamp()).To(BeNil())
	s.Annotate(check, "cluster.x-k8s.io/paused", "")
	s.Eventually(s.NodeRequest(remediator.FenceAgents, "n-3")).Should(BeNil())
}

// Control-plane Nodes of the management cluster are remediated one at a time, with the permissions of a component. One that medik8s
// remediates counts, too.
func TestControlPlane_OwnCluster_NeedsComponent(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces, stage.WithClock)
	member := func(node *corev1.Node) { node.Labels["node-role.kubernetes.io/control-plane"] = "" }
	for _, name := range []string{"cp-1", "cp-2", "cp-3"} {
		s.CreateNode(name, member)
	}
	check := s.CreateNodeCheck("control-plane")
	s.Start()
	s.Eventually(stage.Get(s, check)).Should(WithTransform(status, Equal([]int32{3, 3, 0})))
	s.FailNode("cp-3")
	decided(s, check, "cp-3", Equal("Blocked QuorumUnknown"))

	// With the permissions of the component, the first reconcile that any event causes would remediate cp-3.
	other := remediatedByMedik8s(s, "cp-2")
	advancing := func() string {
		s.Advance(time.Minute)
		return s.NodeDecision("cp-3")(stage.Get(s, check)())
	}
	s.Eventually(advancing).WithPolling(time.Second).Should(Equal("Blocked ControlPlaneBusy"))
	objects, err := manifests.Read(filepath.Join("..", "..", "config", "components", "control-plane-nodes", "role.yaml"))
	s.Expect(err).ToNot(HaveOccurred())
	for _, object := range objects {
		s.Create(object)
	}
	s.Expect(s.Admin.Delete(s.Ctx, other)).To(Succeed())
	s.Eventually(advancing).WithPolling(time.Second).Should(Equal("Remediating "))
	s.Expect(s.NodeRequest(remediator.FenceAgents, "cp-3")().GetLabels()).To(HaveKey(remedyv1.ControlPlaneRequestLabel))
	// Without its label, the Node is remediated as a part of the control plane until its request no longer exists.
	s.ChangeNode("cp-3", func(node *corev1.Node) { delete(node.Labels, "node-role.kubernetes.io/control-plane") })
	s.FailNode("cp-2")
	decided(s, check, "cp-2", Or(Equal("Blocked ControlPlaneBusy"), Equal("Blocked QuorumAtRisk"), Equal("Blocked TooManyUnhealthy")))
	s.Expect(s.Requests(remediator.FenceAgents)).To(HaveLen(1))
	lease := &coordinationv1.Lease{}
	s.Expect(s.Admin.Get(s.Ctx, stage.Key("kube-system", "remedy-control-plane"), lease)).To(Succeed())
	s.Expect(lease.Spec.HolderIdentity).To(HaveValue(HaveSuffix(check.Name)))
}

// A Node that exists is evaluated whatever the state of the infrastructure of its Cluster is.
func TestCluster_InfrastructureNotReady_NodesAreRemediated(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.ChangeStatus(s.Cluster, func() {
		for i := range s.Cluster.Status.Conditions {
			if c := &s.Cluster.Status.Conditions[i]; c.Type == clusterv1.ClusterInfrastructureReadyCondition {
				c.Status, c.Reason = metav1.ConditionFalse, "LoadBalancerDown"
			}
		}
	})
	createNodes(s)
	s.CreateNodeCheck("workers", rebooting(s))
	s.Start()
	s.WaitRequest(remediator.Example, s.NodeName("n-3"))
}
