// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

// First the Cluster is paused, then the check, then the Machine, each before the pause before it ends. Meanwhile the Machine is unhealthy for
// longer than its timeout. When nothing is paused any more, it is replaced, once.
func TestPaused_ClusterCheckThenMachine_ReplacesAfterwards(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := theWorld(t)
	c := ownCluster(t, world.Shape{Namespace: uniqueName("paused"), Name: "paused", Workers: 1})
	keepsItsMemory(t)
	check := aCheck(t, c, world.WorkersPool, nil)
	looksAfter(t, check, 1)
	unhealthy, seen := poolOf(t, c, world.WorkersPool)[0], follow(t, c, world.WorkersPool)
	cluster := &clusterv1.Cluster{}
	g.Expect(w.Client.Get(t.Context(), c.Key(), cluster)).To(Succeed())
	pausedCondition := says(t, check, remedyv1.PausedCondition)

	patchWith(t, w, cluster, `{"spec":{"paused":true}}`)
	g.Eventually(pausedCondition, soon).Should(Equal("True " + remedyv1.PausedReason))
	falls(t, c, unhealthy)
	staysUnwritten(t, w, check, "the Cluster is paused")

	patchWith(t, w, check, `{"metadata":{"annotations":{"`+clusterv1.PausedAnnotation+`":""}}}`)
	message := func() string {
		for _, condition := range now(t, check).Status.Conditions {
			if condition.Type == remedyv1.PausedCondition {
				return condition.Message
			}
		}
		return ""
	}
	g.Eventually(message, soon).Should(And(ContainSubstring("The Cluster"), ContainSubstring("the check")), "both are paused")
	patchWith(t, w, cluster, `{"spec":{"paused":null}}`)
	g.Eventually(message, soon).Should(HavePrefix("The check "), "the check is the one that is paused")
	staysUnwritten(t, w, check, "the check is paused")

	patchWith(t, w, &unhealthy, `{"metadata":{"annotations":{"`+clusterv1.PausedAnnotation+`":""}}}`)
	patchWith(t, w, check, `{"metadata":{"annotations":{"`+clusterv1.PausedAnnotation+`":null}}}`)
	g.Eventually(pausedCondition, soon).Should(Equal("False " + remedyv1.NotPausedReason))
	// Until its annotation is removed, the Machine is no target.
	g.Eventually(func() string { return counts(now(t, check)) }, soon).Should(HavePrefix("0 expected, "))
	// A reconcile whose cache did not show that annotation yet has added the finalizer. It is removed after the status is written.
	g.Eventually(func() []string { return now(t, check).Finalizers }, soon).Should(BeEmpty())
	staysUnwritten(t, w, check, "the Machine is paused")
	g.Expect(seen.marked(t)).To(BeEmpty())

	patchWith(t, w, &unhealthy, `{"metadata":{"annotations":{"`+clusterv1.PausedAnnotation+`":null}}}`)
	isWhole(t, c, world.WorkersPool, 1, unhealthy)
	isClean(t, check, 1)
	g.Expect(seen.marked(t)).To(Equal([]string{unhealthy.Name}))
	g.Expect(outcomes(now(t, check))).To(Equal([]string{unhealthy.Name + " Replaced"}))
}

// staysUnwritten expects that Remedy writes nothing in the namespace of a check until after the timeout of its Nodes.
func staysUnwritten(t *testing.T, w *world.World, check client.Object, why string) {
	t.Helper()
	from := len(w.Writes())
	NewWithT(t).Consistently(func() []world.Write {
		var found []world.Write
		for _, write := range w.Writes()[from:] {
			if write.Matter() && strings.Contains(write.Path, "/namespaces/"+check.GetNamespace()+"/") {
				found = append(found, write)
			}
		}
		return found
	}, unhealthyTimeout+3*time.Second).Should(BeEmpty(), why)
}

// patchWith changes an object with a merge patch.
func patchWith(t *testing.T, w *world.World, object client.Object, patch string) {
	t.Helper()
	NewWithT(t).Expect(w.Client.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}
