// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnose_test

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/diagnose"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// userWith returns the management cluster as a user with these permissions in the namespace reads it.
func userWith(s *stage.Stage, rules ...rbacv1.PolicyRule) *diagnose.Cluster {
	s.T.Helper()
	user := controlplane.User{Name: s.Namespace}
	stage.Management.Grant(s.T, user, s.Namespace, rules...)
	c, err := diagnose.NewCluster(stage.Management.ConfigOf(s.T, user))
	s.Expect(err).ToNot(HaveOccurred())
	return c
}

// The permissions that an explanation needs, apart from those for templates.
var (
	readChecks = rbacv1.PolicyRule{
		APIGroups: []string{remedyv1.GroupVersion.Group, clusterv1.GroupVersion.Group},
		Resources: []string{"machinehealthchecks", "machines", "clusters", "machinesets"}, Verbs: []string{"get", "list", "watch"},
	}
	readNodeChecks = rbacv1.PolicyRule{
		APIGroups: []string{remedyv1.GroupVersion.Group}, Resources: []string{"nodehealthchecks"}, Verbs: []string{"get", "list", "watch"},
	}
	readNodes    = rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}}
	readSecrets  = rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}
	readRequests = rbacv1.PolicyRule{
		APIGroups: []string{remediator.Metal3.Group, remediator.FenceAgents.Group, remediator.Example.Group}, Resources: []string{"*"},
		Verbs: []string{"get", "list", "watch"},
	}
)

var update = flag.Bool("update", false, "write golden files")

// everywhere gives the user of userWith permissions in all namespaces, and for what is in none.
func everywhere(s *stage.Stage, rules ...rbacv1.PolicyRule) {
	s.T.Helper()
	stage.Management.Grant(s.T, controlplane.User{Name: s.Namespace}, "", rules...)
}

// compareGolden compares a text with its golden file, which has neither times nor the name of the namespace.
func compareGolden(s *stage.Stage, name, text string) {
	s.T.Helper()
	text = strings.ReplaceAll(text, s.Namespace, "team-a")
	text = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`).ReplaceAllString(text, "TIME")
	file := "testdata/" + name + ".golden.txt"
	if *update {
		s.Expect(os.WriteFile(file, []byte(text), 0o600)).To(Succeed())
		s.Expect(os.Chmod(file, 0o644)).To(Succeed())
	}
	written, err := os.ReadFile(file)
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(text).To(Equal(string(written)), "run go test ./internal/diagnose -update")
}

func machine(s *stage.Stage, name string) diagnose.Subject {
	return diagnose.Subject{Namespace: s.Namespace, Name: name}
}

// The limit blocks before the mode does, so the mode has a line of its own.
func TestExplain_LimitOfObservingCheck_NamesWhatCounts(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateMachine("healthy")
	for _, name := range []string{"m-1", "m-2"} {
		s.CreateUnhealthyMachine(name)
	}
	check := s.CreateCheck("workers", func(spec *remedyv1.MachineHealthCheckSpec) {
		spec.MaxUnhealthy, spec.Mode = ptr.To(intstr.FromInt32(1)), remedyv1.ObserveMode
		spec.UnhealthyConditions[0].Timeout = stage.Duration(0)
	})
	s.Start()
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Blocked TooManyUnhealthy")))
	x, err := userWith(s, readChecks, readSecrets).Explain(s.Ctx, machine(s, "m-1"))
	s.Expect(err).ToNot(HaveOccurred())
	answer, _, _ := strings.Cut(x.String(), "\nEvaluated")
	compareGolden(s, "explain_limit", answer)
}

// The command decides as the manager does, about targets in each state.
func TestExplain_AnyTarget_DecidesAsTheManager(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	names := []string{"blocked", "healthy", "remediating", "skipped", "suspect"}
	s.CreateMachine("healthy")
	s.CreateMachine("suspect")
	s.SetReady("suspect", corev1.ConditionFalse, 0)
	skipped := s.CreateUnhealthyMachine("skipped")
	s.Annotate(skipped, clusterv1.MachineSkipRemediationAnnotation, "yes")
	s.CreateUnhealthyMachine("remediating")
	check := s.CreateCheck("workers", stage.ByNewTemplate(s), stage.MaxInFlight(1), func(spec *remedyv1.MachineHealthCheckSpec) {
		spec.UnhealthyConditions[0].Timeout = stage.Duration(0)
	})
	c := s.Start()
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("remediating"), Equal("Remediating ")))
	s.CreateUnhealthyMachine("blocked")
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("blocked"), Equal("Blocked MaxInFlight")))
	c.WaitIdle()
	user := userWith(s, readChecks, readSecrets, readRequests)
	for _, name := range names {
		x, err := user.Explain(s.Ctx, machine(s, name))
		s.Expect(err).ToNot(HaveOccurred(), name)
		s.Expect(x.Check).To(Equal("MachineHealthCheck "+s.Namespace+"/workers"), name)
		s.Expect(x.Responsible).To(BeEmpty())
		reported := stage.Decision(name)(check)
		if reported == "" {
			reported = " "
		}
		decision := x.Evaluation.Decision
		s.Expect(string(decision.Outcome)+" "+string(decision.BlockedReason)).To(Equal(reported), name+": "+x.String())
		if x.Reported != nil {
			s.Expect(x.Reported.Message).To(ContainSubstring(x.Evaluation.Decision.Message), name)
		}
		s.Expect(x.Unread).To(ConsistOf(ContainSubstring(
			"list and watch nodehealthchecks.remedy.cluster.x-k8s.io: NodeHealthChecks were not read")))
	}
	x, err := user.Explain(s.Ctx, machine(s, "blocked"))
	s.Expect(err).ToNot(HaveOccurred())
	compareGolden(s, "explain", x.String())
	x, err = user.Explain(s.Ctx, diagnose.Subject{Node: true, Namespace: s.Namespace, Name: s.NodeName("remediating"), Cluster: "prod"})
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(x.Machine).To(Equal(s.Namespace + "/remediating"))
	s.Expect(x.Request).To(Equal("Metal3Remediation " + s.Namespace + "/remediating"))
	s.Expect(x.String()).To(And(ContainSubstring("Decision:    Remediating"), MatchRegexp(`(?m)^  guards +not evaluated$`)))
}

// A user who cannot read the Secret of the Cluster learns what the manager reports.
func TestExplain_SecretForbidden_ShowsWhatIsReported(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateUnhealthyMachine("m-1")
	check := s.CreateCheck("workers", func(spec *remedyv1.MachineHealthCheckSpec) { spec.PauseRequests = []string{"upgrade"} })
	s.Start()
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Blocked PauseRequested")))
	x, err := userWith(s, readChecks).Explain(s.Ctx, machine(s, "m-1"))
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(x.Unread).To(ContainElement("You are not allowed to get secrets prod-kubeconfig in namespace " + s.Namespace +
		": the Nodes were not read: their health is unknown in this evaluation"))
	s.Expect(x.Evaluation.Verdict.Reason).To(Equal("NodeUnreadable"))
	s.Expect(x.Reported.BlockedReason).To(BeEquivalentTo("PauseRequested"))
	s.Expect(x.String()).To(ContainSubstring("Reported:    Blocked (PauseRequested): "))
}

// Without a check that remediates the Machine, the command names the checks of the Cluster and their controllers.
func TestExplain_NoResponsibleCheck_NamesTheOthers(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateMachine("m-1")
	s.Start()
	user := userWith(s, readChecks, readSecrets)
	note := func() string {
		x, err := user.Explain(s.Ctx, machine(s, "m-1"))
		s.Expect(err).ToNot(HaveOccurred())
		s.Expect(x.Check).To(BeEmpty())
		s.Expect(x.Responsible).To(HaveLen(1))
		s.Expect(x.String()).To(ContainSubstring("Note:        " + x.Responsible[0]))
		return x.Responsible[0]
	}
	s.Expect(note()).To(Equal("No check names Cluster " + s.Namespace + "/prod, so nothing remediates this Machine. Create one"))
	s.CreateCheck("others", stage.OfPool("others"))
	s.Expect(note()).To(ContainSubstring("The checks of Cluster " + s.Namespace + "/prod are: MachineHealthCheck " + s.Namespace + "/others"))
	s.CreateInTreeCheck("in-tree")
	s.Expect(note()).To(Equal("machinehealthchecks.cluster.x-k8s.io " + s.Namespace +
		"/in-tree selects this Machine, and Cluster API's controller reconciles that check"))
}

func TestExplain_Overlap_NamesTheResponsibleCheck(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateUnhealthyMachine("m-1")
	a, b := s.CreateCheck("a"), s.CreateCheck("b")
	s.Start()
	s.Eventually(stage.Get(s, a)).Should(WithTransform(stage.Decision("m-1"), Equal("Remediating ")))
	s.Eventually(stage.Get(s, b)).Should(WithTransform(stage.Decision("m-1"), Equal("Blocked ManagedByOtherCheck")))
	x, err := userWith(s, readChecks, readSecrets).Explain(s.Ctx, machine(s, "m-1"))
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(x.Check).To(Equal("MachineHealthCheck " + s.Namespace + "/a"))
	s.Expect(x.Responsible).To(ConsistOf("MachineHealthCheck " + s.Namespace + "/b selects this Machine, too, and MachineHealthCheck " +
		s.Namespace + "/a is responsible"))
	s.Expect(x.Evaluation.Decision.Action).To(Equal("Wait"))
}

// What cannot be answered is an error with a next step.
func TestExplain_NoAnswer_IsAnError(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateMachine("m-1")
	user := userWith(s,
		rbacv1.PolicyRule{APIGroups: []string{clusterv1.GroupVersion.Group}, Resources: []string{"machines"}, Verbs: []string{"get"}})
	_, err := user.Explain(s.Ctx, machine(s, "m-1"))
	s.Expect(err).To(MatchError(And(
		ContainSubstring("failed to evaluate Machine "+s.Namespace+"/m-1: you are not allowed to list and watch machines.cluster.x-k8s.io"),
		ContainSubstring("Ask an administrator for these permissions"))))
	_, err = user.Explain(s.Ctx, machine(s, "m-2"))
	s.Expect(err).To(MatchError("Machine " + s.Namespace + "/m-2 not found"))
	_, err = user.Explain(s.Ctx, diagnose.Subject{Node: true, Namespace: s.Namespace, Name: "n"})
	s.Expect(err).To(MatchError(ContainSubstring("the Machines of namespace " + s.Namespace + ": you are not allowed to")))
}

// status lists first what needs attention; history has what the check records.
func TestStatuses_Checks_AttentionFirst(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateUnhealthyMachine("m-1")
	s.CreateInTreeCheck("in-tree")
	s.CreateCheck("a", stage.OfPool("none"))
	missing := stage.TemplateReference(remediator.Metal3, "missing")
	check := s.CreateCheck("b", stage.ByTemplate(missing))
	s.Start()
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.CheckCondition(remedyv1.ReadyCondition), Equal("False TemplateNotFound")))
	user := userWith(s, readChecks)
	s.Eventually(func(g Gomega) {
		all, unread, err := user.Statuses(s.Ctx, s.Namespace)
		g.Expect(err).ToNot(HaveOccurred())
		g.Expect(unread).To(ConsistOf(ContainSubstring("failed to read the NodeHealthChecks: you are not allowed to")))
		names := make([]string, 0, len(all))
		for i := range all {
			names = append(names, all[i].Kind+" "+all[i].Name+" "+all[i].Ready+" "+all[i].Reason)
		}
		g.Expect(names).To(Equal([]string{
			"MachineHealthCheck b False TemplateNotFound", "machinehealthchecks.cluster.x-k8s.io in-tree Unknown ",
			"MachineHealthCheck a True Ready",
		}))
		g.Expect(all[0].Message).To(ContainSubstring("TemplatesResolved is False"))
		g.Expect(slices.Index(diagnose.StatusColumns, "REASON")).To(Equal(slices.Index(all[0].Row(time.Now()), "TemplateNotFound")))
	}).Should(Succeed())
	entries, _, err := user.HistoryOf(s.Ctx, machine(s, "m-1"))
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(entries).To(ConsistOf(And(HaveField("Check", "MachineHealthCheck "+s.Namespace+"/b"),
		HaveField("Message", HavePrefix("UnhealthyNode: Blocked (ManagedByOtherCheck): ")))))
	_, _, err = user.HistoryOf(s.Ctx, machine(s, "m-9"))
	s.Expect(err).To(MatchError("Machine " + s.Namespace + "/m-9 not found"))
}
