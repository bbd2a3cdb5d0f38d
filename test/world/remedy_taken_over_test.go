// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

// written are the checks of a fleet, as people have them in git, in both versions. %s is the namespace.
const written = `
apiVersion: cluster.x-k8s.io/v1beta1
kind: MachineHealthCheck
metadata: {name: older, namespace: %[1]s, annotations: {remedy.cluster.x-k8s.io/adopt: "true"}}
spec:
  clusterName: fleet
  maxUnhealthy: 100%%
  selector: {matchLabels: {pool: older}}
  unhealthyConditions: [{type: Ready, status: Unknown, timeout: 5s}]
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata: {name: newer, namespace: %[1]s, annotations: {remedy.cluster.x-k8s.io/adopt: "true"}}
spec:
  clusterName: fleet
  selector: {matchLabels: {pool: newer}}
  checks: {unhealthyNodeConditions: [{type: Ready, status: Unknown, timeoutSeconds: 5}]}
  remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 100%%}}
`

// generatedFor lets the topology make a check for a pool, and returns its name.
func generatedFor(t *testing.T, c *world.Cluster, pool string) string {
	t.Helper()
	g := NewWithT(t)
	w := theWorld(t)
	g.Eventually(func() error {
		cluster := &clusterv1.Cluster{}
		if err := w.Client.Get(t.Context(), c.Key(), cluster); err != nil {
			return err
		}
		before := client.MergeFromWithOptions(cluster.DeepCopy(), client.MergeFromWithOptimisticLock{})
		for i := range cluster.Spec.Topology.Workers.MachineDeployments {
			if md := &cluster.Spec.Topology.Workers.MachineDeployments[i]; md.Name == pool {
				md.HealthCheck = clusterv1.MachineDeploymentTopologyHealthCheck{Enabled: ptr.To(true)}
				md.HealthCheck.Checks.UnhealthyNodeConditions = []clusterv1.UnhealthyNodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, TimeoutSeconds: ptr.To(int32(5))}}
			}
		}
		return w.Client.Patch(t.Context(), cluster, before)
	}, soon).Should(Succeed())
	var name string
	g.Eventually(func() []clusterv1.MachineHealthCheck {
		list := &clusterv1.MachineHealthCheckList{}
		g.Expect(w.Client.List(t.Context(), list, client.InNamespace(c.Namespace), client.MatchingLabels{clusterv1.ClusterTopologyOwnedLabel: ""})).To(Succeed())
		if len(list.Items) == 1 {
			name = list.Items[0].Name
		}
		return list.Items
	}, soon).Should(HaveLen(1))
	return name
}

// saysOf is a condition of a check of Cluster API, for Eventually.
func saysOf(t *testing.T, c *world.Cluster, name, kind string) func() string {
	t.Helper()
	return func() string {
		check := &clusterv1.MachineHealthCheck{}
		NewWithT(t).Expect(theWorld(t).Client.Get(t.Context(), client.ObjectKey{Namespace: c.Namespace, Name: name}, check)).To(Succeed())
		if said := meta.FindStatusCondition(check.Status.Conditions, kind); said != nil {
			return string(said.Status)
		}
		return "none"
	}
}

// healed makes a Node of each pool Unknown, waits until its Machine is replaced, and returns the responsible checks of the Machine by pool.
func healed(t *testing.T, c *world.Cluster, pools iter.Seq[string]) map[string][]string {
	t.Helper()
	sick, seen, checks := map[string]clusterv1.Machine{}, map[string]*history{}, map[string][]string{}
	for pool := range pools {
		sick[pool], seen[pool] = poolOf(t, c, pool)[0], follow(t, c, pool)
		falls(t, c, sick[pool])
	}
	for pool, machine := range sick {
		isWhole(t, c, pool, 1, machine)
		signed := map[string]bool{}
		for _, state := range seen[pool].all(t) {
			if m := state[machine.Name]; m != nil && isMarked(m) {
				signed[m.Annotations[remedyv1.MarkedByAnnotation]] = true
			}
		}
		checks[pool] = slices.Sorted(maps.Keys(signed))
	}
	return checks
}

// Remedy reconciles every adopted check, however it was created and its adoption requested. The in-tree controller does after the
// release.
func TestAdoption_Fleet_IsAdoptedAndReleased(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := theWorld(t)
	c := ownCluster(t, world.Shape{Namespace: uniqueName("fleet"), Name: "fleet", ClusterClass: true, Pools: []world.Pool{{Name: "older", Replicas: 1}, {Name: "newer", Replicas: 1}, {Name: "generated", Replicas: 1}}})
	keepsItsMemory(t)
	manifest := filepath.Join(t.TempDir(), "checks.yaml")
	g.Expect(os.WriteFile(manifest, []byte(fmt.Sprintf(written, c.Namespace)), 0o600)).To(Succeed())
	kubectl(t, w, "apply", "-f", manifest)
	generated := generatedFor(t, c, "generated")
	pools := map[string]string{"older": "older", "newer": "newer", "generated": generated}

	g.Eventually(saysOf(t, c, "older", remedyv1.AdoptedCondition), soon).Should(Equal("True"))
	g.Eventually(saysOf(t, c, "newer", remedyv1.AdoptedCondition), soon).Should(Equal("True"))
	g.Eventually(saysOf(t, c, generated, clusterv1.PausedCondition), soon).Should(Equal("False"))
	g.Expect(saysOf(t, c, generated, remedyv1.AdoptedCondition)()).To(Equal("none"), "its adoption was not requested")
	kubectl(t, w, "annotate", "cluster", c.Name, "-n", c.Namespace, remedyv1.AdoptAnnotation+"=true")
	g.Eventually(saysOf(t, c, generated, remedyv1.AdoptedCondition), soon).Should(Equal("True"))
	responsible := map[string][]string{}
	for pool, check := range pools {
		g.Expect(saysOf(t, c, check, clusterv1.PausedCondition)()).To(Equal("True"), "the in-tree controller acknowledges the pause")
		responsible[pool] = []string{"InTreeMachineHealthCheck/" + check}
	}
	g.Expect(healed(t, c, maps.Keys(pools))).To(Equal(responsible))

	// One of them, and then the rest. Their Cluster still requests the adoption of all of them, and the manager runs.
	_, err := remedy(t, w, "release", "older", "-n", c.Namespace)
	g.Expect(err).ToNot(HaveOccurred())
	g.Eventually(saysOf(t, c, "older", clusterv1.PausedCondition), soon).Should(Equal("False"))
	g.Expect(saysOf(t, c, "newer", clusterv1.PausedCondition)()).To(Equal("True"), "it was not released")
	_, err = remedy(t, w, "release", "-n", c.Namespace)
	g.Expect(err).ToNot(HaveOccurred())
	for pool, check := range pools {
		g.Eventually(saysOf(t, c, check, clusterv1.PausedCondition), soon).Should(Equal("False"))
		responsible[pool] = []string{""}
	}
	g.Expect(healed(t, c, maps.Keys(pools))).To(Equal(responsible), "the in-tree controller remediated all of them")
	for _, check := range pools {
		g.Expect(saysOf(t, c, check, remedyv1.AdoptedCondition)()).To(Equal("none"), "it is not taken again")
		left := &clusterv1.MachineHealthCheck{}
		g.Expect(w.Client.Get(t.Context(), client.ObjectKey{Namespace: c.Namespace, Name: check}, left)).To(Succeed())
		g.Expect(left.Finalizers).To(BeEmpty())
		for key, value := range left.Annotations {
			if key != corev1.LastAppliedConfigAnnotation {
				g.Expect(strings.HasPrefix(key, remedyv1.Prefix) && value != "false").To(BeFalse(), key)
			}
		}
	}
}
