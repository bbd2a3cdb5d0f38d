// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck_test

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/nodehealthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// ofPool selects the Nodes of a pool instead of the workers.
func ofPool(pool remedyv1.LabelValue) func(*remedyv1.NodeHealthCheckSpec) {
	return func(spec *remedyv1.NodeHealthCheckSpec) { spec.Selector.MatchLabels["pool"] = pool }
}

// Without a selector, a check selects the Nodes that do not belong to the control plane. An empty selector selects every Node.
func TestSelector_NoneOrEmpty_SelectsWorkersOrAll(t *testing.T) {
	g := NewWithT(t)
	none := nodehealthcheck.CheckOf(&remedyv1.NodeHealthCheck{})
	empty := nodehealthcheck.CheckOf(&remedyv1.NodeHealthCheck{Spec: remedyv1.NodeHealthCheckSpec{Selector: &remedyv1.Selector{}}})
	for _, test := range []struct {
		label  string
		worker bool
	}{
		{"kubernetes.io/hostname", true},
		{"node-role.kubernetes.io/worker", true},
		{"node-role.kubernetes.io/control-plane", false},
		{"node-role.kubernetes.io/master", false},
		{"node-role.kubernetes.io/etcd", false},
	} {
		g.Expect(none.Selector.Matches(labels.Set{test.label: ""})).To(Equal(test.worker), test.label)
		g.Expect(empty.Selector.Matches(labels.Set{test.label: ""})).To(BeTrue(), test.label)
	}
}

// When a label of a Node changes, the check that selected it and the check that selects it now count their Nodes again. So does a check
// whose selector changes.
func TestSelector_LabelOrSelectorChanges_NodesAreCounted(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateNode("n-1")
	s.CreateNode("n-2")
	s.CreateNode("n-3")
	template := func(spec *remedyv1.NodeHealthCheckSpec) {
		spec.RemediationTemplate = stage.NodeTemplateReference(s, remediator.Example, "reboot")
	}
	workers, others := s.CreateNodeCheck("workers", rebooting(s)), s.CreateNodeCheck("others", ofPool("others"), template)
	s.Start()
	s.Eventually(stage.Get(s, workers)).Should(WithTransform(status, Equal([]int32{3, 3, 0})))
	s.Eventually(stage.Get(s, others)).Should(WithTransform(status, Equal([]int32{0, 0, 0})))
	s.ChangeNode("n-3", func(node *corev1.Node) { node.Labels["pool"] = "others" })
	s.Eventually(stage.Get(s, workers)).Should(WithTransform(status, Equal([]int32{2, 2, 0})))
	s.Eventually(stage.Get(s, others)).Should(WithTransform(status, Equal([]int32{1, 1, 0})))
	s.Change(others, func() { ofPool("workers")(&others.Spec) })
	s.Eventually(stage.Get(s, others)).Should(WithTransform(status, Equal([]int32{2, 2, 0})))
	s.Expect(s.Workload.Delete(s.Ctx, s.Node("n-1"))).To(Succeed())
	s.Eventually(stage.Get(s, workers)).Should(WithTransform(status, Equal([]int32{1, 1, 0})))
	s.Eventually(stage.Get(s, others)).Should(WithTransform(status, Equal([]int32{1, 1, 0})))
}

// changeStatus changes the status of the Node n-1 of the workload cluster, as its kubelet does.
func changeStatus(s *stage.Stage, change func(*corev1.NodeStatus)) {
	s.T.Helper()
	node := s.Node("n-1")
	before := node.DeepCopy()
	change(&node.Status)
	s.Expect(s.Workload.Status().Patch(s.Ctx, node, client.MergeFrom(before))).To(Succeed())
}

// Heartbeats, and changes of what no rule reads, cause no reconcile. Neither does the status that the manager writes. In the
// management cluster, the checks of other tests would cause some.
func TestNodeUpdate_NotRead_CausesNoReconcile(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateNode("n-1")
	s.CreateNode("other", func(node *corev1.Node) { node.Labels["pool"] = "others" })
	check := s.CreateNodeCheck("workers", rebooting(s))
	c := s.Start()
	s.Eventually(stage.Get(s, check)).Should(WithTransform(status, Equal([]int32{1, 1, 0})))
	c.WaitIdle()
	c.WaitNoReconciles()
	// Checks of medik8s, which other tests create, are read once a minute. That is no event.
	reconciles := func() []float64 {
		return slices.Concat(c.Series("remedy_evaluations_total", "event"), c.Series("remedy_evaluations_total", "spec"))
	}
	before := reconciles()

	changeStatus(s, func(status *corev1.NodeStatus) { status.Conditions[0].LastHeartbeatTime = metav1.Unix(2000000000, 0) })
	changeStatus(s, func(status *corev1.NodeStatus) { status.Images = []corev1.ContainerImage{{Names: []string{"image"}}} })
	s.ChangeNode("n-1", func(node *corev1.Node) { node.Annotations = map[string]string{"example.com/any": ""} })
	s.ChangeNode("n-1", func(node *corev1.Node) { node.Spec.Unschedulable = true })
	s.FailNode("other")
	live := s.Node("n-1").ResourceVersion
	s.Eventually(func(g Gomega) {
		nodes, err := c.Clusters.Get(stage.Key(s.Namespace, "prod")).Nodes(s.Ctx)
		g.Expect(err).ToNot(HaveOccurred())
		g.Expect(nodes).To(ContainElement(And(HaveField("Name", s.NodeName("n-1")), HaveField("ResourceVersion", live))))
	}).Should(Succeed(), "the manager has read the updates")
	c.WaitNoReconciles()
	s.Expect(reconciles()).To(Equal(before))
}

// Each of these changes of a selected Node causes a reconcile of its check.
func TestNodeUpdate_Read_CausesReconcile(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *stage.Stage){
		"condition added": func(s *stage.Stage) {
			changeStatus(s, func(status *corev1.NodeStatus) {
				status.Conditions = append(status.Conditions, corev1.NodeCondition{Type: "KernelDeadlock", Status: corev1.ConditionTrue})
			})
		},
		"condition status": func(s *stage.Stage) { s.SetReady("n-1", corev1.ConditionFalse, 0) },
		"no condition": func(s *stage.Stage) {
			changeStatus(s, func(status *corev1.NodeStatus) { status.Conditions = nil })
		},
		"exclude label": func(s *stage.Stage) {
			s.ChangeNode("n-1", func(node *corev1.Node) { node.Labels[remedyv1.ExcludeLabel] = "true" })
		},
		"other label": func(s *stage.Stage) {
			s.ChangeNode("n-1", func(node *corev1.Node) { node.Labels["pool"] = "others" })
		},
		"confirmation": func(s *stage.Stage) {
			s.ChangeNode("n-1", func(node *corev1.Node) { node.Annotations = map[string]string{remedyv1.ConfirmedHealthyAnnotation: ""} })
		},
		"deletion": func(s *stage.Stage) { s.Expect(s.Workload.Delete(s.Ctx, s.Node("n-1"))).To(Succeed()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t)
			s.CreateNode("n-1")
			check := s.CreateNodeCheck("workers", rebooting(s))
			c := s.Start()
			s.Eventually(stage.Get(s, check)).Should(WithTransform(status, Equal([]int32{1, 1, 0})))
			c.WaitIdle()
			before := c.WaitNoReconciles()[check.Name]
			change(s)
			s.Eventually(c.Reconciles(check.Name).Load).Should(BeNumerically(">", before))
		})
	}
}

// Only the value true excludes a Node.
func TestExclude_LabelValue_OnlyTrueExcludes(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces)
	for name, value := range map[string]string{"yes": "true", "no": "false", "empty": ""} {
		s.CreateUnhealthyNode(name, func(node *corev1.Node) { node.Labels[remedyv1.ExcludeLabel] = value })
	}
	check := s.CreateNodeCheck("workers", func(spec *remedyv1.NodeHealthCheckSpec) {
		spec.MaxUnhealthy = ptr.To(intstr.FromString("100%"))
	})
	c := s.Start()
	s.WaitRequest(remediator.FenceAgents, s.NodeName("no"))
	s.WaitRequest(remediator.FenceAgents, s.NodeName("empty"))
	decided(s, check, "yes", Equal("Blocked Excluded"))
	c.WaitIdle()
	s.Expect(s.Requests(remediator.FenceAgents)).To(HaveLen(2))
	s.Expect(status(stage.Get(s, check)())).To(Equal([]int32{3, 0, 3}), "an excluded Node counts")
	s.ChangeNode("yes", func(node *corev1.Node) { node.Labels[remedyv1.ExcludeLabel] = "false" })
	s.WaitRequest(remediator.FenceAgents, s.NodeName("yes"))
}
