// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall_test

import (
	"context"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// nodeCheck creates a NodeHealthCheck that needs cleanup. An empty Cluster means the management cluster.
func (p *fixture) nodeCheck(name, cluster string) *remedyv1.NodeHealthCheck {
	p.t.Helper()
	c := &remedyv1.NodeHealthCheck{ObjectMeta: p.meta(name, remedyv1.StormSinceAnnotation, "2026-03-14T12:00:00Z")}
	c.Name, c.Namespace = p.namespace+"-"+name, ""
	c.Finalizers = []string{remedyv1.CleanupFinalizer}
	c.Labels = map[string]string{"example.com/other": "stays"}
	if cluster != "" {
		c.Spec.ClusterRef = &remedyv1.ClusterReference{Namespace: p.namespace, Name: cluster}
		c.Labels[requests.MoveLabel] = ""
	}
	template := &remedyv1.NodeTemplateReference{Namespace: p.namespace}
	template.APIVersion, template.Kind, template.Name = "example.com/v1", "AnyTemplate", "any"
	c.Spec.RemediationTemplate = template
	p.create(c)
	p.t.Cleanup(func() {
		free := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		p.Expect(client.IgnoreNotFound(p.api.Patch(context.Background(), c, free))).To(Succeed())
		p.Expect(client.IgnoreNotFound(p.api.Delete(context.Background(), c))).To(Succeed())
	})
	return c
}

// far returns a client of the workload cluster.
func (p *fixture) far() client.Client {
	p.t.Helper()
	return testenv.NewClient(p.t, workloads.Admin)
}

// node creates a Node, which is deleted at the end of the test.
func (p *fixture) node(api client.Client, annotations ...string) *corev1.Node {
	p.t.Helper()
	n := &corev1.Node{ObjectMeta: p.meta("", annotations...)}
	n.Namespace, n.GenerateName = "", "n-"
	p.createUntilEnd(api, n)
	return n
}

func (p *fixture) createUntilEnd(api client.Client, o client.Object) {
	p.t.Helper()
	p.Expect(api.Create(p.ctx, o)).To(Succeed())
	p.t.Cleanup(func() { p.Expect(client.IgnoreNotFound(api.Delete(context.Background(), o))).To(Succeed()) })
}

// lease creates a Lease, and its namespace.
func (p *fixture) lease(api client.Client, key client.ObjectKey, holder string, renewed time.Time) *coordinationv1.Lease {
	p.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: key.Namespace}}
	p.Expect(client.IgnoreAlreadyExists(api.Create(p.ctx, namespace))).To(Succeed())
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](600), RenewTime: ptr.To(metav1.NewMicroTime(renewed)),
	}
	p.createUntilEnd(api, lease)
	return lease
}

// holder is a check of a Cluster as the holder of Leases.
func (p *fixture) holder(check client.Object, cluster string) string {
	return "NodeHealthCheck//" + check.GetName() + " of Cluster " + p.namespace + "/" + cluster
}

func (p *fixture) exists(api client.Client, o client.Object) bool {
	p.t.Helper()
	err := api.Get(p.ctx, client.ObjectKeyFromObject(o), o.DeepCopyObject().(client.Object))
	p.Expect(client.IgnoreNotFound(err)).To(Succeed())
	return !apierrors.IsNotFound(err)
}

// medik8s holds a Lease that Remedy neither deletes nor reports.
const medik8s = "node-maintenance"

func checkOwner(name string, uid types.UID) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: remedyv1.GroupVersion.String(), Kind: "NodeHealthCheck", Name: name, UID: uid}
}

// createRequest creates a request of a NodeHealthCheck.
func (p *fixture) createRequest(api client.Client, request client.Object, check string) {
	p.t.Helper()
	p.createUntilEnd(api, request)
	p.annotate(api, request, remedyv1.CheckAnnotation, "NodeHealthCheck//"+check)
}

func TestAll_NodeHealthChecks_RemovesAll(t *testing.T) {
	p := newFixture(t)
	p.cluster("prod", p.kubeconfig())
	p.Expect(workloads.InstallCRDObjects(remediator.FenceAgents.CRDs()...)).To(Succeed())
	far, before := p.far(), noon.Add(-time.Minute)
	inside, outside := p.nodeCheck("inside", ""), p.nodeCheck("outside", "prod")
	here := p.node(p.api, remedyv1.SkipRemediationAnnotation, "", remedyv1.RemediateNodeAnnotation, "", remedyv1.AttemptsAnnotation, "1")
	there := p.node(far, remedyv1.NotBeforeAnnotation, "2026-03-14T12:00:00Z", remedyv1.TriedAnnotation, "1 any")
	ofCheck := p.owned(remediator.Metal3, here.Name, checkOwner(inside.Name, inside.UID), workload.NodeOwner(here.Name, here.UID))
	p.createRequest(p.api, ofCheck, inside.Name)
	ofUnknownCheck := p.owned(remediator.Metal3, "n-1", checkOwner("nodes", "a-check"))
	p.createRequest(p.api, ofUnknownCheck, "nodes")
	ofNode := p.owned(remediator.FenceAgents, there.Name, workload.NodeOwner(there.Name, there.UID))
	ofNode.SetNamespace("default")
	ofNode.SetLabels(map[string]string{remedyv1.CheckLabel: "check-x"})
	p.createRequest(far, ofNode, outside.Name)
	removed := map[client.Object]client.Client{
		p.lease(p.api, workload.NodeLeaseKey(here.Name), "NodeHealthCheck//"+inside.Name, before): p.api,
		p.lease(p.api, workload.ControlPlaneLease, "NodeHealthCheck//"+inside.Name, before):       p.api,
		p.lease(far, workload.NodeLeaseKey(there.Name), p.holder(outside, "prod"), before):        far,
		p.lease(far, workload.ControlPlaneLease, p.holder(outside, "prod"), before):               far,
		ofCheck: p.api, ofUnknownCheck: p.api, ofNode: far,
	}
	foreign := p.lease(p.api, workload.NodeLeaseKey(p.namespace+"-medik8s"), medik8s, before)

	dry, would := p.uninstaller(true)
	p.Expect(dry.All(p.ctx)).To(Succeed(), would.String())
	uninstaller, did := p.uninstaller(false)
	p.Expect(uninstaller.All(p.ctx)).To(Succeed(), did.String())
	p.Expect(lines(would)).To(Equal(lines(did)))
	for o, api := range removed {
		p.Expect(p.exists(api, o)).To(BeFalse(), "%T %s\n%s", o, o.GetName(), did)
	}
	p.Expect(p.exists(p.api, foreign)).To(BeTrue())
	p.Expect(traces(t, management)).To(BeEmpty())
	p.Expect(traces(t, workloads)).To(BeEmpty())
	for _, o := range []client.Object{here, inside, outside} {
		p.Expect(p.get(o).GetAnnotations()).To(Equal(map[string]string{"example.com/other": "stays"}))
	}
	p.Expect(p.get(outside).GetLabels()).To(Equal(map[string]string{"example.com/other": "stays"}))
	p.Expect(did.String()).To(And(
		ContainSubstring("Metal3Remediation %s/n-1: withdrawn", p.namespace),
		ContainSubstring("FenceAgentsRemediation default/%s in Cluster %s/prod: withdrawn", there.Name, p.namespace),
		ContainSubstring("NodeHealthCheck %s: removed %s, label %s, finalizer %s\n", outside.Name, remedyv1.StormSinceAnnotation,
			requests.MoveLabel, remedyv1.CleanupFinalizer),
		ContainSubstring("Node %s: removed %s, %s, %s\n", here.Name, remedyv1.AttemptsAnnotation, remedyv1.RemediateNodeAnnotation,
			remedyv1.SkipRemediationAnnotation),
		ContainSubstring("Lease medik8s-leases/node-%s in Cluster %s/prod: deleted\n", there.Name, p.namespace)))
	// Until then, an interrupted run has left the check for which the request and the Lease in the workload cluster are.
	position := func(text string) int { return strings.Index(did.String(), text) }
	last := position("NodeHealthCheck " + outside.Name)
	p.Expect(position("FenceAgentsRemediation default/" + there.Name)).To(And(BeNumerically(">=", 0), BeNumerically("<", last)))
	p.Expect(position("Lease medik8s-leases/node-" + there.Name)).To(And(BeNumerically(">=", 0), BeNumerically("<", last)))

	again, said := p.uninstaller(false)
	p.Expect(again.All(p.ctx)).To(Succeed())
	p.Expect(said.String()).To(Equal("nothing to remove\n"))
}

func TestNodeLease_OtherHolder_IsKept(t *testing.T) {
	p := newFixture(t)
	p.cluster("prod", p.kubeconfig())
	inside, outside, other := p.nodeCheck("inside", ""), p.nodeCheck("outside", "prod"), p.nodeCheck("other", "elsewhere")
	before, after := noon.Add(-time.Minute), noon.Add(time.Second)
	for name, test := range map[string]struct {
		holder           string
		renewed          time.Time
		stays, isUnknown bool
	}{
		"a check of the Cluster":            {p.holder(outside, "prod"), before, false, false},
		"its namesake in that cluster":      {"NodeHealthCheck//" + outside.Name, before, true, true},
		"a check of the management cluster": {"NodeHealthCheck//" + inside.Name, before, true, true},
		"a check of another Cluster":        {p.holder(other, "elsewhere"), before, true, true},
		"an unknown check":                  {"NodeHealthCheck//unknown", before, true, true},
		"renewed after the stop":            {p.holder(outside, "prod"), after, true, true},
		"expired":                           {"NodeHealthCheck//unknown", noon.Add(-time.Hour), false, false},
		"another component":                 {medik8s, before, true, false},
		"another component, expired":        {medik8s, noon.Add(-time.Hour), true, false},
		"released":                          {"", before, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			far := p.far()
			lease := p.lease(far, workload.NodeLeaseKey(p.namespace+"-n-1"), test.holder, test.renewed)
			uninstaller, said := p.uninstaller(false)
			err := uninstaller.All(p.ctx)
			told := ContainSubstring("left: Cluster %s/prod: Lease medik8s-leases/%s is held by %q until %s. "+
				"If another management cluster monitors this Node, keep the Lease. Otherwise, run the command again after that time",
				p.namespace, lease.Name, test.holder, test.renewed.Add(10*time.Minute).Format(time.RFC3339))
			if test.isUnknown {
				g.Expect(err).To(MatchError(ContainSubstring("incomplete")))
				g.Expect(said.String()).To(told)
			} else {
				g.Expect(err).ToNot(HaveOccurred(), said.String())
			}
			g.Expect(p.exists(far, lease)).To(Equal(test.stays), said.String())
			g.Expect(client.IgnoreNotFound(far.Delete(p.ctx, lease))).To(Succeed())
		})
	}
}

// The management cluster is a workload cluster of itself, so checks with and without a Cluster monitor its Nodes.
func TestNodeLease_SelfHostedCluster_IsDeleted(t *testing.T) {
	p := newFixture(t)
	kubeconfig, err := controlplane.Kubeconfig(management.Admin)
	p.Expect(err).ToNot(HaveOccurred())
	p.cluster("self", kubeconfig)
	inside, outside := p.nodeCheck("inside", ""), p.nodeCheck("outside", "self")
	before := noon.Add(-time.Minute)
	leases := []*coordinationv1.Lease{
		p.lease(p.api, workload.NodeLeaseKey(p.namespace+"-n-1"), "NodeHealthCheck//"+inside.Name, before),
		p.lease(p.api, workload.NodeLeaseKey(p.namespace+"-n-2"), p.holder(outside, "self"), before),
	}
	uninstaller, said := p.uninstaller(false)
	p.Expect(uninstaller.All(p.ctx)).To(Succeed(), said.String())
	for _, lease := range leases {
		p.Expect(p.exists(p.api, lease)).To(BeFalse(), lease.Name)
	}
}
