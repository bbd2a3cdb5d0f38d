// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package attacks_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// ofProvider are the policies that clusterctl finds by its label, with their bindings.
func ofProvider(g *WithT) (found []unstructured.Unstructured) {
	for _, kind := range []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("admissionregistration.k8s.io/v1")
		list.SetKind(kind + "List")
		provider := client.MatchingLabels{"cluster.x-k8s.io/provider": "infrastructure-remedy"}
		g.Expect(plane.API.List(context.Background(), list, provider)).To(Succeed())
		found = append(found, list.Items...)
	}
	return found
}

// A tenant that may write checks tries all the time to write one whose requests it cannot create, while clusterctl deletes what it has
// installed and creates the next version.
func TestUpgrade_TenantWritesCheck_IsDenied(t *testing.T) {
	g := installed(t)
	ctx := t.Context()
	attacker := tenant(t, teamA, writesChecks)
	attempt := func() error { return attacker.Create(ctx, object(g, metal3Check), client.DryRunAll) }
	before := ofProvider(g)
	g.Expect(len(before)).To(BeNumerically(">", 10))
	refused(t, "check before an upgrade", attempt())
	t.Cleanup(func() {
		g.Expect(testenv.Kustomization("../../config/default")(context.Background(), plane)).To(Succeed())
		g.Expect(awaitPolicies(context.Background(), plane)).To(Succeed())
	})
	for i := range before {
		g.Expect(plane.API.Delete(ctx, before[i].DeepCopy())).To(Succeed())
	}
	g.Consistently(attempt, "2s", "20ms").ShouldNot(Succeed())
	// The next version patches what exists.
	for i := range before {
		next := before[i].DeepCopy()
		g.Expect(plane.API.Get(ctx, client.ObjectKeyFromObject(next), next)).To(Succeed())
		next.SetAnnotations(map[string]string{"example.com/version": "next"})
		g.Expect(plane.API.Patch(ctx, next, client.Merge)).To(Succeed())
	}
	g.Consistently(attempt, "1s", "20ms").ShouldNot(Succeed())
	refused(t, "check during an upgrade by clusterctl", attempt())
	uids := func(all []unstructured.Unstructured) map[string]types.UID {
		byName := map[string]types.UID{}
		for i := range all {
			byName[all[i].GetKind()+" "+all[i].GetName()] = all[i].GetUID()
		}
		return byName
	}
	g.Expect(uids(ofProvider(g))).To(Equal(uids(before)), "no policy was ever absent")
}

// Many network plug-ins may patch the status of all Nodes, which can also change annotations.
func TestNetworkPlugIn_RemediateNode_IsDenied(t *testing.T) {
	g := installed(t)
	node := createUntilEnd(t, g, object(g, someNode))
	plugIn := controlplane.ServiceAccount("kube-system", "network-plug-in")
	plane.Grant(t, plugIn, "", rule("get,patch", "", "nodes/status"))
	manual := "{metadata: {annotations: {" + remedyv1.RemediateNodeAnnotation + ": ''}}}"
	refused(t, "remediation of a Node by permission to patch its status", patchStatus(t.Context(), plane.As(t, plugIn), node, manual))
}

// A chart or a kustomization changes the labels by which the policies find the manager. Then no policy limits it, and /readyz reports that.
func TestPolicies_ManagerNotFound_IsNotReady(t *testing.T) {
	g := installed(t)
	createUntilEnd(t, g, object(g, someNode))
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "remedy-system-manager"}}
	label := func(value string) {
		change := merge("{metadata: {labels: {app.kubernetes.io/name: " + value + "}}}")
		g.Expect(plane.API.Patch(context.Background(), binding, change)).To(Succeed())
	}
	t.Cleanup(func() { label("cluster-api-provider-remedy") })
	i, _ := plane.StartManager(t)
	probe := func() (string, error) {
		status, text, err := i.Probe(t.Context(), "/readyz")
		return http.StatusText(status) + "\n" + text, err
	}
	g.Eventually(probe).Should(ContainSubstring("ok   policies: not verified yet for any Machine"))
	g.Expect(i.Stop()).To(Equal(0))

	label("renamed")
	var log testenv.Log
	i, log = plane.StartManager(t)
	g.Eventually(probe).Should(And(HavePrefix("Service Unavailable\n"),
		ContainSubstring("FAIL policies: the manager is allowed to change labels of each Node; see the log")))
	g.Eventually(log.String).Should(ContainSubstring("no policy limits the manager"))
	outcome(t, "policies that do not find the manager: /readyz fails")
	label("cluster-api-provider-remedy")
	g.Eventually(probe, 15*time.Second).Should(ContainSubstring("ok   policies: "))
}
