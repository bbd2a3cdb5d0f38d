// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnose_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/diagnose"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

func node(s *stage.Stage, name string) diagnose.Subject {
	return diagnose.Subject{Node: true, Namespace: s.Namespace, Name: s.NodeName(name)}
}

func nodeOf(s *stage.Stage, name, cluster string) diagnose.Subject {
	subject := node(s, name)
	subject.Cluster = cluster
	return subject
}

// asJSON is what -o json prints.
func asJSON(s *stage.Stage, value any) string {
	s.T.Helper()
	content, err := json.MarshalIndent(value, "", "  ")
	s.Expect(err).ToNot(HaveOccurred())
	return string(content) + "\n"
}

// oneInFlight limits how many Nodes are remediated at the same time.
func oneInFlight(spec *remedyv1.NodeHealthCheckSpec) {
	spec.MaxInFlight = ptr.To(intstr.FromInt32(1))
	spec.MaxUnhealthy = ptr.To(intstr.FromString("100%"))
	atOnce(spec)
}

// atOnce makes a Node unhealthy at once.
func atOnce(spec *remedyv1.NodeHealthCheckSpec) {
	spec.UnhealthyConditions = []remedyv1.LastingNodeCondition{{Type: "Ready", Status: "Unknown", Duration: stage.Duration(0)}}
}

// Tests with NodeHealthChecks of this cluster do not run in parallel: these are in no namespace.
//
// The command decides about Nodes of this cluster as the manager does. The user needs no permission for Machines.
func TestExplain_NodeOfThisCluster_DecidesAsTheManager(t *testing.T) {
	s := stage.New(t, stage.WithAllNamespaces)
	s.CreateNode("healthy")
	s.CreateUnhealthyNode("remediating")
	check := s.CreateNodeCheck("workers", oneInFlight)
	c := s.Start()
	s.Eventually(stage.Get(s, check)).Should(WithTransform(s.NodeDecision("remediating"), Equal("Remediating ")))
	s.CreateUnhealthyNode("blocked")
	s.Eventually(stage.Get(s, check)).Should(WithTransform(s.NodeDecision("blocked"), Equal("Blocked MaxInFlight")))
	c.WaitIdle()
	user := userWith(s, readRequests)
	everywhere(s, readNodeChecks, readNodes)
	for name, decision := range map[string]string{"healthy": " ", "remediating": "Remediating ", "blocked": "Blocked MaxInFlight"} {
		subject := node(s, name)
		subject.ThisCluster = true
		x, err := user.Explain(s.Ctx, subject)
		s.Expect(err).ToNot(HaveOccurred(), name)
		s.Expect(x.Check).To(Equal("NodeHealthCheck "+check.Name), name)
		s.Expect(string(x.Evaluation.Decision.Outcome)+" "+string(x.Evaluation.Decision.BlockedReason)).To(Equal(decision), name)
		s.Expect(x.Machine+x.Cluster).To(BeEmpty(), name)
		s.Expect(x.Unread).To(BeEmpty(), name)
	}
	// Without --this-cluster, the Node is found, too. The user is not allowed to read the Machines of the namespace.
	x, err := user.Explain(s.Ctx, node(s, "remediating"))
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(x.Request).To(Equal("FenceAgentsRemediation " + s.Namespace + "/" + s.NodeName("remediating")))
	compareGolden(s, "explain_node", x.String())
	compareGolden(s, "explain_node_json", asJSON(s, x))

	entries, unread, err := user.HistoryOf(s.Ctx, node(s, "blocked"))
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(unread).To(BeEmpty())
	s.Expect(entries).To(ConsistOf(And(HaveField("Check", "NodeHealthCheck "+check.Name),
		HaveField("Message", HavePrefix("UnhealthyNode: Blocked (MaxInFlight): ")))))
}

// A Node of a workload cluster needs no Machine.
func TestExplain_NodeWithoutMachine_IsEvaluated(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateNode("n-1")
	s.CreateNode("n-2")
	s.CreateUnhealthyNode("n-3")
	check := s.CreateNodeCheck("workers", func(spec *remedyv1.NodeHealthCheckSpec) {
		spec.RemediationTemplate = s.CreateNodeTemplate(remediator.Example, "reboot")
	})
	c, err := s.StartAs(faults.Start(s.Ctx), s.User())
	s.Expect(err).ToNot(HaveOccurred())
	t.Cleanup(c.Stop)
	s.Eventually(stage.Get(s, check)).Should(WithTransform(s.NodeDecision("n-3"), Equal("Remediating ")))
	user := userWith(s, readChecks, readSecrets, readRequests)
	_, err = user.Explain(s.Ctx, nodeOf(s, "n-3", "prod"))
	s.Expect(err).To(MatchError(ContainSubstring("failed to evaluate Node " + s.NodeName("n-3") +
		": you are not allowed to list and watch nodehealthchecks.remedy.cluster.x-k8s.io")))
	everywhere(s, readNodeChecks)
	s.Eventually(func(g Gomega) {
		x, err := user.Explain(s.Ctx, nodeOf(s, "n-3", "prod"))
		g.Expect(err).ToNot(HaveOccurred())
		g.Expect(x.Check).To(Equal("NodeHealthCheck " + check.Name))
		g.Expect(x.Evaluation.Decision.Outcome).To(Equal(remedyv1.Remediating))
		g.Expect(x.Cluster).To(Equal(s.Namespace + "/prod"))
		g.Expect(x.Request).To(Equal("RebootRemediation " + s.Namespace + "/" + s.NodeName("n-3")))
	}).Should(Succeed())
	_, err = user.Explain(s.Ctx, nodeOf(s, "n-9", "prod"))
	s.Expect(err).To(MatchError("Node " + s.NodeName("n-9") + " of Cluster " + s.Namespace + "/prod not found"))
	_, err = user.Explain(s.Ctx, nodeOf(s, "n-3", "other"))
	s.Expect(err).To(MatchError("Cluster " + s.Namespace + "/other not found"))
	_, err = user.Explain(s.Ctx, node(s, "n-3"))
	s.Expect(err).To(MatchError(ContainSubstring("For a Node without a Machine, select its Cluster with --cluster")))

	// The manager would correct the annotation.
	c.StopIdle()
	s.ChangeNode("n-3", func(node *corev1.Node) {
		node.Annotations = map[string]string{remedyv1.AttemptsAnnotation: "2"}
	})
	entries, unread, err := user.HistoryOf(s.Ctx, nodeOf(s, "n-3", "prod"))
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(unread).To(BeEmpty())
	s.Expect(entries).To(ContainElements(HaveField("Message", "2 remediation attempts have failed since the Node was healthy"),
		HaveField("Check", "NodeHealthCheck "+check.Name)))
}

// Without the kubeconfig, the answer is what the manager reports.
func TestExplain_NodeSecretForbidden_ShowsWhatIsReported(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateNode("n-1")
	s.CreateNode("n-2")
	s.CreateUnhealthyNode("n-3")
	check := s.CreateNodeCheck("workers", func(spec *remedyv1.NodeHealthCheckSpec) { spec.PauseRequests = []string{"upgrade"} })
	s.Start()
	s.Eventually(stage.Get(s, check)).Should(WithTransform(s.NodeDecision("n-3"), Equal("Blocked PauseRequested")))
	user := userWith(s, readChecks, readRequests)
	everywhere(s, readNodeChecks)
	x, err := user.Explain(s.Ctx, nodeOf(s, "n-3", "prod"))
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(x.Check).To(Equal("NodeHealthCheck " + check.Name))
	s.Expect(x.Evaluation).To(BeNil())
	s.Expect(x.String()).To(And(ContainSubstring("Reported:    Blocked (PauseRequested): "),
		ContainSubstring("Unread:      You are not allowed to get secrets prod-kubeconfig in namespace "+s.Namespace)))
	entries, unread, err := user.HistoryOf(s.Ctx, nodeOf(s, "n-3", "prod"))
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(unread).To(ConsistOf(ContainSubstring("the Node was not read: the failed attempts that it records are missing")))
	s.Expect(entries).To(HaveLen(1))
}

// Of a MachineHealthCheck and a NodeHealthCheck that select the same Node, the evaluation is that of the responsible one.
func TestExplain_BothKindsSelect_ShowsTheResponsible(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	for _, name := range []string{"m-1", "m-2", "m-3"} {
		s.CreateMachine(name)
		s.ChangeNode(name, func(node *corev1.Node) { node.Labels = s.NodeLabels() })
	}
	s.FailNode("m-3")
	byNodes := s.CreateNodeCheck("workers", func(spec *remedyv1.NodeHealthCheckSpec) {
		spec.RemediationTemplate = s.CreateNodeTemplate(remediator.Metal3, "metal3")
	})
	s.CreateCheck("workers")
	s.Start()
	s.Eventually(stage.Get(s, byNodes)).Should(WithTransform(s.NodeDecision("m-3"), Equal("Blocked ManagedByOtherCheck")))
	user := userWith(s, readChecks, readSecrets, readRequests)
	everywhere(s, readNodeChecks)
	for _, x := range expectResponsible(s, user, byNodes, machine(s, "m-3"), nodeOf(s, "m-3", "prod"), node(s, "m-3")) {
		s.Expect(x.Machine).To(Equal(s.Namespace + "/m-3"))
		s.Expect(x.Evaluation.Check).To(Equal(x.Check))
		s.Expect(x.Unread).To(BeEmpty())
	}
}

// expectResponsible expects that the MachineHealthCheck is responsible for each of these, and not this NodeHealthCheck.
func expectResponsible(
	s *stage.Stage, user *diagnose.Cluster, byNodes *remedyv1.NodeHealthCheck, subjects ...diagnose.Subject,
) (all []*diagnose.Explanation) {
	s.T.Helper()
	byMachine := "MachineHealthCheck " + s.Namespace + "/workers"
	for _, subject := range subjects {
		x, err := user.Explain(s.Ctx, subject)
		s.Expect(err).ToNot(HaveOccurred())
		s.Expect(x.Check).To(Equal(byMachine))
		s.Expect(x.Responsible).To(ConsistOf(
			"NodeHealthCheck " + byNodes.Name + " selects this Machine, too, and " + byMachine + " is responsible"))
		all = append(all, x)
	}
	return all
}

// A Node of this cluster and a Machine's Node may have the same name.
func TestExplain_TwoNodesOfAName_AsksForTheCluster(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateMachine("m-1")
	twin := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.NodeName("m-1")}}
	s.Create(twin)
	t.Cleanup(func() { s.Expect(s.Admin.Delete(s.Ctx, twin)).To(Succeed()) })
	user := userWith(s, readChecks, readSecrets)
	everywhere(s, readNodeChecks, readNodes)
	s.Eventually(func() error {
		_, err := user.Explain(s.Ctx, node(s, "m-1"))
		return err
	}).Should(MatchError("Cluster " + s.Namespace + "/prod and this cluster both have a Node " + s.NodeName("m-1") +
		": select the first with --cluster prod, the second with --this-cluster"))
	x, err := user.Explain(s.Ctx, nodeOf(s, "m-1", "prod"))
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(x.Machine).To(Equal(s.Namespace + "/m-1"))
	local := node(s, "m-1")
	local.ThisCluster = true
	x, err = user.Explain(s.Ctx, local)
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(x.Machine).To(BeEmpty())
	s.Expect(x.Responsible).To(HaveLen(1))
}

// In a management cluster that manages itself, a Node is also that of a Machine, and both kinds of checks are compared.
func TestExplain_SelfHosted_ComparesBothKinds(t *testing.T) {
	s := stage.New(t, stage.WithAllNamespaces, stage.WithSelfHosted)
	s.CreateOwnMachines("m-1", "m-2", "m-3")
	s.CreateCheck("workers")
	byNodes := s.CreateNodeCheck("workers")
	s.Start()
	s.Eventually(stage.Get(s, byNodes)).Should(HaveField("Status.ObservedNodes", HaveValue(BeEquivalentTo(3))))
	s.FailNode("m-3")
	s.Eventually(stage.Get(s, byNodes)).Should(WithTransform(s.NodeDecision("m-3"), Equal("Blocked ManagedByOtherCheck")))
	user := userWith(s, readChecks, readSecrets, readRequests)
	everywhere(s, readNodeChecks, readNodes)
	local := node(s, "m-3")
	local.ThisCluster = true
	expectResponsible(s, user, byNodes, machine(s, "m-3"), node(s, "m-3"), local)
}

// A NodeHealthCheck without clusterRef is compared with the check of a Machine only if this cluster manages itself, which its Nodes show.
// They are read first. A user who is not allowed to read them gets an answer, too.
func TestExplain_CheckWithoutClusterRef_ReadsOwnNodes(t *testing.T) {
	s := stage.New(t, stage.WithTenants)
	s.CreateUnhealthyMachine("m-1")
	check := s.CreateCheck("workers", stage.ByNewTemplate(s))
	s.CreateNodeCheck("local", func(spec *remedyv1.NodeHealthCheckSpec) { spec.ClusterRef = nil })
	s.Start()
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Remediating ")))
	user := userWith(s, readChecks, readSecrets, readRequests)
	everywhere(s, readNodeChecks)
	explained := func(unread OmegaMatcher) {
		x, err := user.Explain(s.Ctx, machine(s, "m-1"))
		s.Expect(err).ToNot(HaveOccurred())
		s.Expect(x.Check).To(Equal("MachineHealthCheck " + s.Namespace + "/workers"))
		s.Expect(x.Evaluation.Decision.Outcome).To(Equal(remedyv1.Remediating))
		s.Expect(x.Unread).To(unread)
	}
	explained(ConsistOf(ContainSubstring("the Nodes of this cluster were not read")))
	everywhere(s, readNodes)
	explained(BeEmpty())
}

// A user who cannot read templates and requests gets a decision without them, and the missing permissions.
func TestExplain_RequestsForbidden_AreUnread(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateUnhealthyMachine("m-1")
	check := s.CreateCheck("workers", stage.ByNewTemplate(s))
	s.Start()
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Remediating ")))
	x, err := userWith(s, readChecks, readSecrets).Explain(s.Ctx, machine(s, "m-1"))
	s.Expect(err).ToNot(HaveOccurred())
	may := "You are not allowed to get, list and watch "
	s.Expect(x.Unread).To(ContainElements(
		HavePrefix(may+"metal3remediationtemplates.infrastructure.cluster.x-k8s.io in namespace "+s.Namespace+": templates were not read"),
		HavePrefix(may+"metal3remediations.infrastructure.cluster.x-k8s.io in namespace "+s.Namespace+": remediation requests were not read"),
	))
	s.Expect(x.Evaluation.Decision.BlockedReason).To(BeEmpty())
	s.Expect(x.String()).ToNot(ContainSubstring("the manager must be allowed"))
	s.Expect(x.Reported.Decision).To(Equal(remedyv1.Remediating))
}

// A NodeHealthCheck can have its templates in another namespace than that of the Cluster.
func TestExplain_TemplateInOtherNamespace_IsRead(t *testing.T) {
	s := stage.New(t, stage.WithAllNamespaces)
	other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "fencing-"}}
	s.Create(other)
	s.Create(remediator.FenceAgents.NewTemplate(other.Name, "ipmi", map[string]any{"agent": "fence_ipmilan"}))
	s.CreateNode("n-1")
	s.CreateNode("n-2")
	s.CreateUnhealthyNode("n-3")
	second := s.CreateNodeTemplate(remediator.FenceAgents, "second")
	first := *second
	first.Name, first.Namespace = "ipmi", other.Name
	check := s.CreateNodeCheck("workers", atOnce, func(spec *remedyv1.NodeHealthCheckSpec) {
		spec.PauseRequests = []string{"upgrade"}
		stage.NodeSteps(&first, second)(spec)
	})
	s.Start()
	s.Eventually(stage.Get(s, check)).Should(WithTransform(s.NodeDecision("n-3"), Equal("Blocked PauseRequested")))
	user := userWith(s)
	everywhere(s, readNodeChecks, readNodes, readRequests)
	s.Eventually(func(g Gomega) {
		x, err := user.Explain(s.Ctx, node(s, "n-3"))
		g.Expect(err).ToNot(HaveOccurred())
		g.Expect(x.Unread).To(BeEmpty())
		g.Expect(x.Evaluation.Decision.BlockedReason).To(BeEquivalentTo("PauseRequested"))
		g.Expect(x.String()).ToNot(ContainSubstring("the manager monitors only namespace"))
	}).Should(Succeed())
}

// status lists NodeHealthChecks with the namespace of their Cluster, and all of them without a namespace. -w follows both kinds.
func TestStatuses_NodeHealthChecks_AreListed(t *testing.T) {
	s := stage.New(t)
	s.CreateNode("n-1")
	s.CreateNode("n-2")
	s.CreateUnhealthyNode("n-3")
	s.CreateMachine("m-1")
	byMachines := s.CreateCheck("machines")
	byNodes := s.CreateNodeCheck("nodes", func(spec *remedyv1.NodeHealthCheckSpec) { spec.PauseRequests = []string{"upgrade"} })
	local := s.CreateNodeCheck("local", func(spec *remedyv1.NodeHealthCheckSpec) { spec.ClusterRef = nil })
	s.Start()
	s.Eventually(stage.Get(s, byNodes)).Should(WithTransform(s.NodeDecision("n-3"), Equal("Blocked PauseRequested")))
	s.Eventually(stage.Get(s, byMachines)).Should(WithTransform(stage.Healthy, BeEquivalentTo(1)))
	user := userWith(s, readChecks)
	everywhere(s, readNodeChecks, readChecks)
	titles := func(namespace string) []string {
		all, unread, err := user.Statuses(s.Ctx, namespace)
		s.Expect(err).ToNot(HaveOccurred())
		s.Expect(unread).To(BeEmpty())
		found := make([]string, 0, len(all))
		for i := range all {
			found = append(found, all[i].Title())
		}
		return found
	}
	ofMachines, ofNodes := "MachineHealthCheck "+s.Namespace+"/machines", "NodeHealthCheck "+byNodes.Name
	s.Eventually(func() []string { return titles(s.Namespace) }).Should(Equal([]string{ofNodes, ofMachines}))
	s.Expect(titles("")).To(ContainElements(ofNodes, ofMachines, "NodeHealthCheck "+local.Name))
	all, _, err := user.Statuses(s.Ctx, s.Namespace)
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(all[0].Row(time.Now())[:9]).To(Equal([]string{
		"-", "NodeHealthCheck", byNodes.Name, s.Namespace + "/prod", "3", "2", "1", "0", "1",
	}))

	ctx, stop := context.WithCancel(s.Ctx)
	defer stop()
	var followed []string
	s.Expect(user.Watch(ctx, s.Namespace, func(why string) { t.Error(why) }, func(c *diagnose.CheckStatus) error {
		if followed = append(followed, c.Title()); len(followed) == 2 {
			stop()
		}
		return nil
	})).To(Succeed())
	s.Expect(followed).To(ConsistOf(ofMachines, ofNodes))
}
