// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	deprecated "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

// Where the in-tree controller does something else, it monitors a pool of its own, as Remedy does, in the same cluster.

// inTreeCheck is a check for the in-tree controller, of the pool that Shape.Workers fills.
func inTreeCheck(c *world.Cluster) *clusterv1.MachineHealthCheck {
	return &clusterv1.MachineHealthCheck{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name},
		Spec: clusterv1.MachineHealthCheckSpec{
			ClusterName: c.Name,
			Selector:    metav1.LabelSelector{MatchLabels: map[string]string{world.PoolLabel: world.WorkersPool}},
			Checks: clusterv1.MachineHealthCheckChecks{UnhealthyNodeConditions: []clusterv1.UnhealthyNodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionUnknown, TimeoutSeconds: ptr.To(int32(unhealthyTimeout.Seconds())),
			}}},
		},
	}
}

// currentHealthy reads how many Machines a check, for either controller, considers healthy.
func currentHealthy(t testing.TB, w *world.World, check client.Object) *int32 {
	t.Helper()
	NewWithT(t).Expect(w.Client.Get(t.Context(), client.ObjectKeyFromObject(check), check)).To(Succeed())
	switch check := check.(type) {
	case *clusterv1.MachineHealthCheck:
		return check.Status.CurrentHealthy
	case *remedyv1.MachineHealthCheck:
		return check.Status.CurrentHealthy
	}
	t.Fatalf("%T is no MachineHealthCheck", check)
	return nil
}

// inTree makes a check for the in-tree controller. It goes with the test.
func inTree(t *testing.T, c *world.Cluster, pool string, change func(*clusterv1.MachineHealthCheckSpec)) *clusterv1.MachineHealthCheck {
	t.Helper()
	w, check := theWorld(t), inTreeCheck(c)
	check.Name = pool
	check.Spec.Selector.MatchLabels[world.PoolLabel] = pool
	if change != nil {
		change(&check.Spec)
	}
	NewWithT(t).Expect(w.Client.Create(t.Context(), check)).To(Succeed())
	t.Cleanup(func() { expectToGo(t, w, check) })
	return check
}

// reported are the conditions of a Machine about its health, or about its remediation.
func tells(t *testing.T, machine clusterv1.Machine, kind string) func() string {
	t.Helper()
	read := machineCondition(t.Context(), theWorld(t), machine, kind)
	return func() string {
		c := read()
		return string(c.Status) + " " + c.Reason
	}
}

// nothing are the conditions of a Machine without a check.
const nothing = " "

func TestDifferences_MissingCluster_IsReported(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := theWorld(t)
	nowhere := &world.Cluster{Shape: world.Shape{Namespace: metav1.NamespaceDefault, Name: "nowhere"}}
	inTreeCheck, remedy := inTree(t, nowhere, "lost-in-tree", nil), aCheck(t, nowhere, "lost", nil)
	g.Eventually(says(t, remedy, remedyv1.ClusterReachableCondition), soon).Should(Equal("False " + remedyv1.ClusterNotFoundReason))
	g.Expect(says(t, remedy, remedyv1.ReadyCondition)()).To(HavePrefix("False"))
	g.Expect(w.Client.Get(t.Context(), client.ObjectKeyFromObject(inTreeCheck), inTreeCheck)).To(Succeed())
	g.Expect(inTreeCheck.Status.Conditions).To(BeEmpty(), "the in-tree controller reports that in its log only")
}

func TestDifferences_CheckDeleted_ConditionsAreRemoved(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := theWorld(t)
	c, pool := clusterWithPool(t, "marked")
	theirPool := "marked-in-tree"
	inTreeCheck, remedy := inTree(t, c, theirPool, nil), aCheck(t, c, pool, nil)
	looksAfter(t, remedy, 1)
	machine, theirMachine := poolOf(t, c, pool)[0], poolOf(t, c, theirPool)[0]
	// Owners that are paused do nothing about a mark for now.
	pauseSets(t, c, true, pool, theirPool)
	falls(t, c, machine, theirMachine)
	marked := "False " + clusterv1.MachineOwnerRemediatedWaitingForRemediationReason
	g.Eventually(tells(t, machine, clusterv1.MachineOwnerRemediatedCondition), soon).Should(Equal(marked))
	g.Eventually(tells(t, theirMachine, clusterv1.MachineOwnerRemediatedCondition), soon).Should(Equal(marked))
	g.Expect(now(t, remedy).Finalizers).To(ConsistOf(remedyv1.CleanupFinalizer), "it cannot go without cleaning up")

	expectToGo(t, w, remedy)
	expectToGo(t, w, inTreeCheck)
	g.Expect(tells(t, machine, clusterv1.MachineOwnerRemediatedCondition)()).To(Equal(nothing))
	g.Expect(tells(t, machine, clusterv1.MachineHealthCheckSucceededCondition)()).To(Equal(nothing))
	got := &clusterv1.Machine{}
	g.Expect(w.Client.Get(t.Context(), client.ObjectKeyFromObject(&machine), got)).To(Succeed())
	g.Expect(deprecated.Has(got, clusterv1.MachineHealthCheckSucceededV1Beta1Condition)).To(BeFalse())
	g.Expect(deprecated.Has(got, clusterv1.MachineOwnerRemediatedV1Beta1Condition)).To(BeFalse())
	g.Expect(got.Annotations).ToNot(HaveKey(remedyv1.MarkedByAnnotation))
	g.Expect(tells(t, theirMachine, clusterv1.MachineOwnerRemediatedCondition)()).To(Equal(marked), "the in-tree controller leaves its marks")

	turns(t, c, machine, corev1.ConditionTrue)
	turns(t, c, theirMachine, corev1.ConditionTrue)
	pauseSets(t, c, false, pool, theirPool)
	isWhole(t, c, theirPool, 1, theirMachine)
	g.Expect(poolOf(t, c, pool)[0].UID).To(Equal(machine.UID), "the in-tree controller replaces a healthy Machine for a deleted check, and Remedy does not")
}

// owner is one that replaces Machines.
type owner interface {
	client.Object
	conditions.Getter
}

// pause pauses an owner of Machines, or unpauses it, and waits until the owner has read that.
func pause(t *testing.T, w *world.World, who owner, paused bool) {
	t.Helper()
	g := NewWithT(t)
	value := "null"
	if paused {
		value = `""`
	}
	patchWith(t, w, who, `{"metadata":{"annotations":{"`+clusterv1.PausedAnnotation+`":`+value+`}}}`)
	g.Eventually(func() bool {
		g.Expect(w.Client.Get(t.Context(), client.ObjectKeyFromObject(who), who)).To(Succeed())
		return conditions.IsTrue(who, clusterv1.PausedCondition)
	}, soon).Should(Equal(paused))
}

// pauseSets pauses the MachineSets of pools, or lets them go on.
func pauseSets(t *testing.T, c *world.Cluster, paused bool, pools ...string) {
	t.Helper()
	g := NewWithT(t)
	w := theWorld(t)
	for _, pool := range pools {
		sets := &clusterv1.MachineSetList{}
		g.Expect(w.Client.List(t.Context(), sets, client.InNamespace(c.Namespace), client.MatchingLabels{world.PoolLabel: pool})).To(Succeed())
		g.Expect(sets.Items).To(HaveLen(1))
		pause(t, w, &sets.Items[0], paused)
	}
}

// With a template, too, every Machine reports its health, also without a template; with a template again, remediation continues.
func TestDifferences_MissingTemplate_HealthIsReported(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := theWorld(t)
	c, pool := clusterWithPool(t, "asked")
	theirPool := "asked-in-tree"
	g.Expect(w.InstallRemediations(t.Context())).To(Succeed())
	template := newTemplate(c)
	g.Expect(w.Client.Create(t.Context(), template)).To(Succeed())
	ref := referenceTo(template)
	remedy := aCheck(t, c, pool, func(s *remedyv1.MachineHealthCheckSpec) { s.RemediationTemplate = ref })
	inTreeCheck := inTree(t, c, theirPool, func(s *clusterv1.MachineHealthCheckSpec) {
		s.Remediation.TemplateRef = clusterv1.MachineHealthCheckRemediationTemplateReference{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name}
	})
	theirHealthy := func() *int32 { return currentHealthy(t, w, inTreeCheck) }
	machines, theirMachines := poolOf(t, c, pool), poolOf(t, c, theirPool)
	health, theirHealth := tells(t, machines[0], clusterv1.MachineHealthCheckSucceededCondition), tells(t, theirMachines[0], clusterv1.MachineHealthCheckSucceededCondition)
	looksAfter(t, remedy, 1)
	g.Eventually(theirHealthy, soon).Should(HaveValue(BeEquivalentTo(1)))
	g.Eventually(health, soon).Should(Equal("True " + clusterv1.MachineHealthCheckSucceededReason))
	g.Expect(theirHealth()).To(Equal(nothing), "the in-tree controller does not report a healthy Machine where a remediator works")

	g.Expect(w.Client.Delete(t.Context(), template)).To(Succeed())
	g.Eventually(says(t, remedy, remedyv1.TemplatesResolvedCondition), soon).Should(Equal("False " + remedyv1.TemplateNotFoundReason))
	falls(t, c, machines[0], theirMachines[0])
	g.Eventually(health, soon).Should(Equal("False " + clusterv1.MachineHealthCheckUnhealthyNodeReason))
	g.Eventually(func() bool {
		theirHealthy()
		return deprecated.IsFalse(inTreeCheck, clusterv1.ExternalRemediationTemplateAvailableV1Beta1Condition)
	}, soon).Should(BeTrue())
	g.Expect(theirHealth()).To(Equal(nothing), "nor that it is not, where there is no template")
	g.Eventually(func() []remedyv1.UnhealthyTarget { return now(t, remedy).Status.UnhealthyTargets }, soon).
		Should(ConsistOf(And(HaveField("Name", machines[0].Name), HaveField("BlockedReason", remedyv1.BlockedTemplateNotResolved))))

	g.Expect(w.Client.Create(t.Context(), newTemplate(c))).To(Succeed())
	request := world.NewRemediation(world.Remediation, c.Namespace, machines[0].Name)
	g.Eventually(func() error { return w.Client.Get(t.Context(), client.ObjectKeyFromObject(request), request) }, soon).Should(Succeed(), "it is made without a restart")
	g.Expect(request.GetOwnerReferences()).To(ConsistOf(HaveField("UID", machines[0].UID)))
	g.Eventually(tells(t, machines[0], clusterv1.MachineExternallyRemediatedCondition), soon).Should(HavePrefix("False WaitingForRemediation"))
	turns(t, c, machines[0], corev1.ConditionTrue)
	turns(t, c, theirMachines[0], corev1.ConditionTrue)
	isClean(t, remedy, 1)
	g.Expect(w.Client.Get(t.Context(), client.ObjectKeyFromObject(request), request)).To(MatchError(ContainSubstring("not found")))
	g.Expect(health()).To(HavePrefix("True"))
	g.Expect(tells(t, machines[0], clusterv1.MachineExternallyRemediatedCondition)()).To(Equal(nothing))
	g.Expect(poolOf(t, c, pool)).To(ConsistOf(HaveField("UID", machines[0].UID)), "no Machine was replaced")
}

func newTemplate(c *world.Cluster) *unstructured.Unstructured {
	template := world.NewRemediation(world.RemediationTemplate, c.Namespace, "puppet")
	template.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"strategy": "reboot"}}}
	return template
}
