// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// turn is the Lease at the control plane of the workload cluster.
func (p *place) turn(holder string, renewed time.Time) (far client.Client, lease *coordinationv1.Lease) {
	p.t.Helper()
	far, err := client.New(workloads.Admin, client.Options{Scheme: known()})
	p.Expect(err).ToNot(HaveOccurred())
	lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: workload.ControlPlaneLease.Namespace, Name: workload.ControlPlaneLease.Name}}
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](600), RenewTime: ptr.To(metav1.NewMicroTime(renewed))}
	p.Expect(far.Create(p.ctx, lease)).To(Succeed())
	p.t.Cleanup(func() { p.Expect(client.IgnoreNotFound(far.Delete(context.Background(), lease))).To(Succeed()) })
	return far, lease
}

// TestTheTurnOfAnotherManagementClusterStays: somebody else may be remediating that control plane at this moment.
func TestTheTurnOfAnotherManagementClusterStays(t *testing.T) {
	p := newPlace(t)
	p.cluster("prod", p.kubeconfig())
	p.cluster("test", []byte("none"))
	p.ours("ours")
	p.core("core")
	nodes := &remedyv1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}
	nodes.Spec.ClusterRef = &remedyv1.ClusterReference{Namespace: p.namespace, Name: "prod"}
	template := &remedyv1.NodeTemplateReference{Namespace: p.namespace}
	template.APIVersion, template.Kind, template.Name = "example.com/v1", "AnyTemplate", "any"
	nodes.Spec.RemediationTemplate = template
	p.create(nodes)
	p.t.Cleanup(func() { p.Expect(p.api.Delete(context.Background(), nodes)).To(Succeed()) })
	before, after := noon.Add(-time.Minute), noon.Add(time.Second)
	for name, test := range map[string]struct {
		holder  string
		renewed time.Time
		stays   bool
	}{
		"of ours":                          {"MachineHealthCheck/" + p.namespace + "/ours", before, false},
		"of Cluster API's":                 {"CoreMachineHealthCheck/" + p.namespace + "/core", before, false},
		"of Nodes":                         {"NodeHealthCheck//" + p.namespace, before, false},
		"of a check that is not there":     {"MachineHealthCheck/" + p.namespace + "/theirs", before, true},
		"of a namespace that is not there": {"MachineHealthCheck/elsewhere/ours", before, true},
		"of another kind":                  {"CoreMachineHealthCheck/" + p.namespace + "/ours", before, true},
		"of somebody unknown":              {"somebody", before, true},
		"of ours, renewed by somebody else under the same name": {"MachineHealthCheck/" + p.namespace + "/ours", after, true},
		"one that is over":               {"MachineHealthCheck/elsewhere/theirs", noon.Add(-15*time.Minute - time.Second), false},
		"one that may be over elsewhere": {"MachineHealthCheck/elsewhere/theirs", noon.Add(-15 * time.Minute), true},
		"one that was given up":          {"", before, false},
	} {
		t.Run(name, func(t *testing.T) {
			far, lease := p.turn(test.holder, test.renewed)
			leaver, said := p.leaver(false)
			g := NewWithT(t)
			g.Expect(leaver.All(p.ctx)).To(MatchError(ContainSubstring("not everything")), "the Cluster test cannot be reached")
			err := far.Get(p.ctx, client.ObjectKeyFromObject(lease), &coordinationv1.Lease{})
			told := ContainSubstring("left: Cluster %s/prod: the Lease kube-system/remedy-control-plane is held by %q until", p.namespace, test.holder)
			if test.stays {
				g.Expect(err).ToNot(HaveOccurred(), said.String())
				g.Expect(said.String()).To(told)
			} else {
				g.Expect(err).To(MatchError(ContainSubstring("not found")), said.String())
				g.Expect(said.String()).ToNot(told)
			}
			g.Expect(client.IgnoreNotFound(far.Delete(p.ctx, lease))).To(Succeed())
		})
	}
}

// TestTheTurnAtAnotherControlPlaneIsNotOurs: a check of ours that looks after another Cluster cannot have it.
func TestTheTurnAtAnotherControlPlaneIsNotOurs(t *testing.T) {
	p := newPlace(t)
	p.cluster("another", p.kubeconfig())
	p.ours("ours")
	far, lease := p.turn("MachineHealthCheck/"+p.namespace+"/ours", noon)
	leaver, said := p.leaver(false)
	p.Expect(leaver.All(p.ctx)).To(MatchError(ContainSubstring("not everything")))
	p.Expect(said.String()).To(ContainSubstring("left: Cluster %s/another: the Lease", p.namespace))
	p.Expect(far.Get(p.ctx, client.ObjectKeyFromObject(lease), lease)).To(Succeed())
}

// TestATurnThatIsTakenAtThatMomentStays: it is deleted as it was seen, or not at all.
func TestATurnThatIsTakenAtThatMomentStays(t *testing.T) {
	p := newPlace(t)
	p.ours("ours")
	far, lease := p.turn("MachineHealthCheck/"+p.namespace+"/ours", noon)
	taken := false
	p.cluster("prod", p.through(func(r *http.Request) {
		if r.Method == http.MethodDelete && !taken {
			taken = true
			now := lease.DeepCopy()
			now.Spec.HolderIdentity = ptr.To("MachineHealthCheck/elsewhere/theirs")
			p.Expect(far.Update(p.ctx, now)).To(Succeed())
		}
	}))
	leaver, said := p.leaver(false)
	p.Expect(leaver.All(p.ctx)).To(MatchError(ContainSubstring("not everything")))
	p.Expect(taken).To(BeTrue())
	p.Expect(said.String()).To(ContainSubstring(`is held by "MachineHealthCheck/elsewhere/theirs" until`))
	p.Expect(far.Get(p.ctx, client.ObjectKeyFromObject(lease), lease)).To(Succeed())
}
