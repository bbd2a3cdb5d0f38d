// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	deprecated "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

// controlPlanePool stands for the Machines that belong to no pool.
const controlPlanePool = ""

func ofControlPlane(s *remedyv1.MachineHealthCheckSpec) {
	s.Selector = remedyv1.Selector{MatchLabels: map[string]remedyv1.LabelValue{clusterv1.MachineControlPlaneLabel: ""}}
}

func TestControlPlane_UnhealthyMachines_AreReplacedOneByOne(t *testing.T) {
	t.Parallel()
	c := ownCluster(t, world.Shape{Namespace: uniqueName("councils"), Name: "council", ControlPlanes: 3})
	keepsItsMemory(t)
	check := aCheck(t, c, "council", ofControlPlane)
	looksAfter(t, check, 3)
	t.Run("one of three is replaced", func(t *testing.T) {
		g := NewWithT(t)
		machines, seen := poolOf(t, c, controlPlanePool), follow(t, c, controlPlanePool)
		falls(t, c, machines[0])
		isWhole(t, c, controlPlanePool, 3, machines[0])
		isClean(t, check, 3)
		g.Expect(seen.marked(t)).To(Equal([]string{machines[0].Name}))
		g.Expect(outcomes(now(t, check))).To(ContainElement(machines[0].Name + " Replaced"))
	})
	t.Run("of two, both are marked, and one waits for the other", func(t *testing.T) {
		g := NewWithT(t)
		machines, seen := poolOf(t, c, controlPlanePool), follow(t, c, controlPlanePool)
		fallTogether(t, c, seen, machines[0], machines[1])
		isWhole(t, c, controlPlanePool, 3, machines[0], machines[1])
		isClean(t, check, 3)
		g.Expect(seen.marked(t)).To(ConsistOf(machines[0].Name, machines[1].Name))
		for _, state := range seen.all(t) {
			g.Expect(inFlight(state, 3)).To(BeNumerically("<=", 2))
			g.Expect(going(state, machines)).To(BeNumerically("<=", 1), "the owner takes one at a time")
		}
	})
	t.Run("of two next to a third without an API server, none is replaced until one is healthy", func(t *testing.T) {
		g := NewWithT(t)
		machines, seen := poolOf(t, c, controlPlanePool), follow(t, c, controlPlanePool)
		// In memory, members of etcd do not fail. The owner counts complete control planes by the same rule, and in the same words.
		apiServer(t, c, machines[2], corev1.ConditionFalse)
		fallTogether(t, c, seen, machines[0], machines[1])
		shown := func() []string { return decisions(now(t, check)) }
		g.Eventually(shown, soon).Should(ConsistOf(HaveSuffix(" Blocked "+string(remedyv1.BlockedOwnerRefuses)), HaveSuffix(" Remediating ")))
		refused, other := machines[0], machines[1]
		if slices.Contains(shown(), machines[1].Name+" Blocked "+string(remedyv1.BlockedOwnerRefuses)) {
			refused, other = other, refused
		}
		said := func() string {
			return machineCondition(t.Context(), theWorld(t), refused, clusterv1.MachineOwnerRemediatedCondition)().Message
		}
		g.Expect(said()).To(ContainSubstring("can't remediate this Machine because this could result in"), "it is the owner who refuses, in its own words")
		g.Expect(counts(now(t, check))).To(Equal("3 expected, 1 healthy, 2 unhealthy, 0 suspect, 0 undetermined, 1 remediating, 1 held"))
		for _, state := range seen.all(t) {
			for _, m := range state {
				g.Expect(m.DeletionTimestamp.IsZero()).To(BeTrue(), "no Machine is deleted")
			}
		}
		apiServer(t, c, machines[2], corev1.ConditionTrue)
		turns(t, c, other, corev1.ConditionTrue)
		isWhole(t, c, controlPlanePool, 3, refused)
		isClean(t, check, 3)
	})
}

// A control plane of one Machine: its KubeadmControlPlane refuses to replace it. With the check, both conditions are removed, in both API
// versions, and they stay away while the owner reconciles.
func TestControlPlane_OwnerRefusesCheckDeleted_IsClean(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := theWorld(t)
	c := ownCluster(t, world.Shape{Namespace: uniqueName("single"), Name: "single", ControlPlanes: 1})
	check := aCheck(t, c, "single", ofControlPlane)
	looksAfter(t, check, 1)
	machine := poolOf(t, c, controlPlanePool)[0]
	falls(t, c, machine)
	refused := "False " + controlplanev1.KubeadmControlPlaneMachineCannotBeRemediatedReason
	g.Eventually(tells(t, machine, clusterv1.MachineOwnerRemediatedCondition), soon).Should(Equal(refused))
	expectToGo(t, w, check)
	// The owner reconciles after each change of the annotation Paused.
	owner := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name}}
	pause(t, w, owner, true)
	pause(t, w, owner, false)
	got := &clusterv1.Machine{}
	g.Expect(w.Client.Get(t.Context(), client.ObjectKeyFromObject(&machine), got)).To(Succeed())
	for _, kind := range []string{clusterv1.MachineOwnerRemediatedCondition, clusterv1.MachineHealthCheckSucceededCondition} {
		g.Expect(conditions.Has(got, kind)).To(BeFalse(), kind)
	}
	g.Expect(deprecated.Has(got, clusterv1.MachineOwnerRemediatedV1Beta1Condition)).To(BeFalse())
	g.Expect(deprecated.Has(got, clusterv1.MachineHealthCheckSucceededV1Beta1Condition)).To(BeFalse())
	g.Expect(got.Annotations).ToNot(HaveKey(remedyv1.MarkedByAnnotation))
}

// Each replacement becomes unhealthy within minHealthyPeriod, so it counts as a retry. The owner waits for retryPeriod before the retry, and
// stops after maxRetry. Remedy quotes its reason, and does not overwrite it. After minHealthyPeriod, the same failure is no retry any more.
func TestControlPlane_RetryLimits_OwnerStopsRemediation(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := theWorld(t)
	const retryPeriod = 40 * time.Second
	c := ownCluster(t, world.Shape{Namespace: uniqueName("retries"), Name: "retries", ControlPlanes: 3})
	keepsItsMemory(t)
	owner := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name}}
	patchWith(t, w, owner, fmt.Sprintf(`{"spec":{"remediation":{"maxRetry":1,"retryPeriodSeconds":%d,"minHealthyPeriodSeconds":3600}}}`, int(retryPeriod.Seconds())))
	keepReconciling(t, w, owner)
	check := aCheck(t, c, "retries", ofControlPlane)
	looksAfter(t, check, 3)
	seen, unhealthy := follow(t, c, controlPlanePool), poolOf(t, c, controlPlanePool)[0]
	deleted := make([]time.Time, 0, 2)
	for range 2 {
		known := names(t, c)
		falls(t, c, unhealthy)
		isWhole(t, c, controlPlanePool, 3, unhealthy)
		deleted = append(deleted, deletedAt(t, seen, unhealthy.Name))
		for _, m := range poolOf(t, c, controlPlanePool) {
			if !known[m.Name] {
				unhealthy = m
			}
		}
	}
	// The owner counts from the start of the reconcile that deletes the Machine. Without the period, it would retry after ten seconds.
	const reconcileTime = 20 * time.Second
	g.Expect(deleted[1]).To(BeTemporally(">=", deleted[0].Add(retryPeriod-reconcileTime)))

	falls(t, c, unhealthy)
	const reported = "KubeadmControlPlane can't remediate this machine because the operation already failed 1 times (MaxRetry)"
	g.Eventually(func() []remedyv1.UnhealthyTarget { return now(t, check).Status.UnhealthyTargets }, soon).Should(ConsistOf(And(
		HaveField("Name", unhealthy.Name), HaveField("BlockedReason", remedyv1.BlockedOwnerRefuses), HaveField("Message", ContainSubstring(reported)))))
	g.Expect(counts(now(t, check))).To(Equal("3 expected, 2 healthy, 1 unhealthy, 0 suspect, 0 undetermined, 0 remediating, 1 held"))
	g.Consistently(func() []clusterv1.Machine { return poolOf(t, c, controlPlanePool) }, unhealthyTimeout).
		Should(ContainElement(And(HaveField("Name", unhealthy.Name), HaveField("DeletionTimestamp", BeNil()))))
	g.Expect(seen.marked(t)).To(HaveLen(3))

	// keepReconciling reads owner.
	patchWith(t, w, owner.DeepCopy(), `{"spec":{"remediation":{"minHealthyPeriodSeconds":1}}}`)
	isWhole(t, c, controlPlanePool, 3, unhealthy)
	replaced := And(ContainSubstring(unhealthy.Name), ContainSubstring(`"retryCount":0`))
	g.Expect(poolOf(t, c, controlPlanePool)).To(ContainElement(HaveField("Annotations",
		HaveKeyWithValue(controlplanev1.RemediationForAnnotation, replaced))), "the owner counts from zero")
	answered := map[string]bool{}
	for _, state := range seen.all(t) {
		for name, m := range state {
			reason := conditions.GetReason(m, clusterv1.MachineOwnerRemediatedCondition)
			waits := reason == clusterv1.MachineOwnerRemediatedWaitingForRemediationReason
			g.Expect(waits && answered[name]).To(BeFalse(), "the reason of the owner of %s was overwritten", name)
			answered[name] = answered[name] || reason != "" && !waits
		}
	}
}

// keepReconciling makes an owner reconcile every two seconds until the test ends. A KubeadmControlPlane that waits for retryPeriod reconciles
// when an object changes, and otherwise every ten minutes.
func keepReconciling(t *testing.T, w *world.World, owner client.Object) {
	t.Helper()
	ctx := t.Context()
	go func() {
		for ctx.Err() == nil {
			patch := `{"metadata":{"annotations":{"test.example/reconcile":"` + time.Now().String() + `"}}}`
			_ = w.Client.Patch(ctx, owner.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(patch)))
			select {
			case <-ctx.Done():
			case <-time.After(2 * time.Second):
			}
		}
	}()
}

// deletedAt is when the deletion of a Machine began.
func deletedAt(t *testing.T, seen *history, machine string) time.Time {
	t.Helper()
	var at time.Time
	for _, state := range seen.all(t) {
		if m := state[machine]; m != nil && !m.DeletionTimestamp.IsZero() {
			at = m.DeletionTimestamp.Time
		}
	}
	NewWithT(t).Expect(at.IsZero()).To(BeFalse(), "%s was not deleted", machine)
	return at
}

// fallTogether lets two control-plane Machines become unhealthy while their KubeadmControlPlane is paused. Otherwise it could decide about
// the first one before the second one is unhealthy, and about the second one after it.
func fallTogether(t *testing.T, c *world.Cluster, seen *history, one, other clusterv1.Machine) {
	t.Helper()
	owner := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name}}
	pause(t, theWorld(t), owner, true)
	falls(t, c, one, other)
	NewWithT(t).Eventually(func() []string { return seen.marked(t) }, soon).Should(ConsistOf(one.Name, other.Name), "the owner has to see them all")
	pause(t, theWorld(t), owner, false)
}

// apiServer lets the API server on a Machine be ready or not, according to its Pod.
func apiServer(t *testing.T, c *world.Cluster, machine clusterv1.Machine, ready corev1.ConditionStatus) {
	t.Helper()
	g := NewWithT(t)
	inside, err := c.Client(t.Context())
	g.Expect(err).ToNot(HaveOccurred())
	pod := &corev1.Pod{}
	key := client.ObjectKey{Namespace: "kube-system", Name: "kube-apiserver-" + machine.Status.NodeRef.Name}
	g.Eventually(func() error { return inside.Get(t.Context(), key, pod) }, soon).Should(Succeed(), "a Machine has its Node before its Pods")
	before := client.MergeFrom(pod.DeepCopy())
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodReady {
			pod.Status.Conditions[i].Status = ready
		}
	}
	g.Expect(inside.Patch(t.Context(), pod, before)).To(Succeed())
}

// decisions are what a check does about whom, by name.
func decisions(check *remedyv1.MachineHealthCheck) []string {
	all := make([]string, 0, len(check.Status.UnhealthyTargets))
	for _, target := range check.Status.UnhealthyTargets {
		all = append(all, target.Name+" "+string(target.Decision)+" "+string(target.BlockedReason))
	}
	return all
}

// The only Machine of a control plane: its owner refuses, reports that, and does not change it, whatever Remedy does.
func TestControlPlane_OwnerRefuses_StatusShowsReason(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c, _ := clusterWithPool(t, controlPlanePool)
	check := aCheck(t, c, "refused", ofControlPlane)
	looksAfter(t, check, 1)
	only, seen := poolOf(t, c, controlPlanePool)[0], follow(t, c, controlPlanePool)
	falls(t, c, only)
	refused := func() string {
		return machineCondition(t.Context(), theWorld(t), only, clusterv1.MachineOwnerRemediatedCondition)().Reason
	}
	// The manager may be killed at any moment, for another test. Until it has read the Nodes again, their health is unknown.
	held := func(g Gomega) {
		got := now(t, check)
		g.Expect(got.Status.ObservedGeneration).To(Equal(got.Generation))
		g.Expect(counts(got)).To(Equal("1 expected, 0 healthy, 1 unhealthy, 0 suspect, 0 undetermined, 0 remediating, 1 held"))
		g.Expect(got.Status.UnhealthyTargets).To(ConsistOf(And(
			HaveField("Name", only.Name), HaveField("Decision", remedyv1.Blocked), HaveField("BlockedReason", remedyv1.BlockedOwnerRefuses))))
	}
	g.Eventually(held, soon).Should(Succeed())
	g.Expect(refused()).To(Equal(clusterv1.MachineSetMachineCannotBeRemediatedReason))

	// Each of these triggers a reconcile.
	for i := range 3 {
		changed := now(t, check)
		before := client.MergeFrom(changed.DeepCopy())
		changed.Spec.NodeStartupTimeout = lasting(time.Duration(11+i) * time.Minute)
		g.Expect(theWorld(t).Client.Patch(t.Context(), changed, before)).To(Succeed())
		g.Eventually(held, soon).Should(Succeed())
		g.Expect(refused()).To(Equal(clusterv1.MachineSetMachineCannotBeRemediatedReason))
	}
	turns(t, c, only, corev1.ConditionTrue)
	isClean(t, check, 1)
	g.Eventually(refused, soon).Should(BeEmpty())
	var said []string
	for _, state := range seen.all(t) {
		m := state[only.Name]
		g.Expect(m).ToNot(BeNil(), "it is never deleted")
		if reason := conditions.GetReason(m, clusterv1.MachineOwnerRemediatedCondition); len(said) == 0 || said[len(said)-1] != reason {
			said = append(said, reason)
		}
	}
	g.Expect(said).To(Equal([]string{
		"", clusterv1.MachineOwnerRemediatedWaitingForRemediationReason, clusterv1.MachineSetMachineCannotBeRemediatedReason, "",
	}), "the owner removes it when all are healthy, and no controller does before")
}
