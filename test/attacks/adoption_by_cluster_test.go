// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package attacks_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// A tenant may write in-tree checks, but not create requests. An administrator has annotated the Cluster, so that the manager adopts the
// checks of its topology. The manager must not create requests for the check of the tenant.
func TestAdoptionByCluster_CheckOfTenant_IsNotAdopted(t *testing.T) {
	g := installed(t)
	ctx := t.Context()
	cluster := object(g, someCluster)
	cluster.SetAnnotations(map[string]string{remedyv1.AdoptAnnotation: "true"})
	g.Expect(plane.API.Create(ctx, cluster)).To(Succeed())
	attacker := tenant(t, teamA, rule("create,get,patch,update", "cluster.x-k8s.io", "machinehealthchecks"))
	written := object(g, inTreeCheck)
	g.Expect(attacker.Create(ctx, written)).To(Succeed(), "the in-tree controller reconciles it")
	forged := object(g, inTreeCheck)
	forged.SetName("forged")
	forged.SetLabels(map[string]string{"topology.cluster.x-k8s.io/owned": ""})
	refused(t, "check with the label of a topology", attacker.Create(ctx, forged.DeepCopy()))
	refused(t, "label of a topology", patch(ctx, attacker, written, "{metadata: {labels: {topology.cluster.x-k8s.io/owned: ''}}}"))
	adopted := "{metadata: {annotations: {" + remedyv1.AdoptAnnotation + ": 'true'}}}"
	refused(t, "adoption of the check", patch(ctx, attacker, written, adopted))

	generated := forged
	generated.SetName("generated")
	generated.SetFinalizers(nil)
	g.Expect(plane.API.Create(ctx, generated)).To(Succeed())
	for _, check := range []*unstructured.Unstructured{written, generated} {
		g.Expect(plane.API.Status().Patch(ctx, check, merge(notPaused))).To(Succeed())
	}
	plane.StartManager(t)
	pause := func(check client.Object) func() (string, error) {
		return func() (string, error) {
			err := plane.API.Get(ctx, client.ObjectKeyFromObject(check), check)
			return check.GetAnnotations()["cluster.x-k8s.io/paused"], err
		}
	}
	g.Eventually(pause(generated)).Should(Equal("remedy.cluster.x-k8s.io"), "the manager adopts the check of the topology")
	g.Expect(pause(written)()).To(BeEmpty(), "and not the check of the tenant")
	outcome(t, "adoption by the annotation of a Cluster: refused: the manager does not adopt the check of the tenant")
}

// notPaused is what the in-tree controller reports.
const notPaused = `{status: {conditions: [
  {type: Paused, status: "False", reason: NotPaused, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}}`
