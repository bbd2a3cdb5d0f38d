// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// leaderLease creates the Lease of the managers' leader election.
func (p *fixture) leaderLease(holder string) *coordinationv1.Lease {
	p.t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: p.meta("controller-leader-election-remedy")}
	lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](15),
		RenewTime: ptr.To(metav1.NewMicroTime(noon)),
	}
	p.create(lease)
	p.t.Cleanup(func() { p.Expect(client.IgnoreNotFound(p.api.Delete(context.Background(), lease))).To(Succeed()) })
	return lease
}

// A manager outside of a Deployment would undo the uninstall.
func TestLeaderElection_HeldLease_ChangesNothing(t *testing.T) {
	p := newFixture(t)
	core, lead := p.inTreeCheck("core"), p.leaderLease("somewhere_1")
	before := p.get(core)
	uninstaller, _ := p.uninstaller(false)
	uninstaller.Timeouts = expiringTimeouts
	p.Expect(uninstaller.All(p.ctx)).To(MatchError(
		ContainSubstring(`manager "somewhere_1" still holds Lease %s/controller-leader-election-remedy: stop it`, p.namespace)))
	p.Expect(p.get(core)).To(Equal(before))

	lead.Spec.HolderIdentity = ptr.To("")
	p.Expect(p.api.Update(p.ctx, lead)).To(Succeed())
	uninstaller, said := p.uninstaller(false)
	p.Expect(uninstaller.All(p.ctx)).To(Succeed())
	p.Expect(said.String()).To(ContainSubstring("Lease %s/%s: deleted", p.namespace, lead.Name))
	p.Expect(p.get(core).GetFinalizers()).To(Equal([]string{"example.com/other"}))
}

// A crashed leader does not release its Lease. The Lease expires if it is not renewed for its duration.
func TestLeaderElection_UnrenewedLease_Expires(t *testing.T) {
	p := newFixture(t)
	lead := p.leaderLease("lost_1")
	uninstaller, said := p.uninstaller(false)
	uninstaller.Timeouts = longTimeouts
	clock := testingclock.NewFakePassiveClock(noon)
	uninstaller.Clock = clock
	looks := make(chan struct{})
	uninstaller.Management = p.proxiedManagement(func(r *http.Request) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/"+lead.Name) {
			select {
			case looks <- struct{}{}:
			case <-r.Context().Done():
			}
		}
	})
	done := make(chan error, 1)
	go func() { done <- uninstaller.All(p.ctx) }()
	for range 3 {
		// The next read shows that the previous one did not end the wait.
		select {
		case <-looks:
		case err := <-done:
			t.Fatalf("the wait ended before the Lease expired, with: %v\n%s", err, said)
		}
	}
	clock.SetTime(noon.Add(16e9))
	for ended := false; !ended; {
		select {
		case <-looks:
		case err := <-done:
			p.Expect(err).ToNot(HaveOccurred(), said.String())
			ended = true
		}
	}
	p.Expect(said.String()).To(ContainSubstring("Lease %s/%s: deleted", p.namespace, lead.Name))
}

// controlPlaneLease creates the Lease of the control plane in the workload cluster.
func (p *fixture) controlPlaneLease(holder string, renewed time.Time) (far client.Client, lease *coordinationv1.Lease) {
	p.t.Helper()
	far = p.far()
	return far, p.lease(far, workload.ControlPlaneLease, holder, renewed)
}

// A check of another management cluster may be remediating the control plane.
func TestControlPlaneLease_OtherHolder_IsKept(t *testing.T) {
	p := newFixture(t)
	p.cluster("prod", p.kubeconfig())
	p.cluster("test", []byte("none"))
	p.ownCheck("own")
	p.inTreeCheck("core")
	nodes := p.nodeCheck("nodes", "prod")
	p.ownCheckOf("test", "elsewhere")
	before, after := noon.Add(-time.Minute), noon.Add(time.Second)
	for name, test := range map[string]struct {
		holder  string
		renewed time.Time
		stays   bool
	}{
		"a check of the same Cluster":   {"MachineHealthCheck/" + p.namespace + "/own", before, false},
		"an adopted check":              {"InTreeMachineHealthCheck/" + p.namespace + "/core", before, false},
		"a NodeHealthCheck":             {p.holder(nodes, "prod"), before, false},
		"its namesake in that cluster":  {"NodeHealthCheck//" + nodes.Name, before, true},
		"a check of another Cluster":    {"MachineHealthCheck/" + p.namespace + "/elsewhere", before, true},
		"an unknown check":              {"MachineHealthCheck/" + p.namespace + "/other", before, true},
		"an unknown namespace":          {"MachineHealthCheck/elsewhere/own", before, true},
		"another kind":                  {"InTreeMachineHealthCheck/" + p.namespace + "/own", before, true},
		"an invalid holder":             {"invalid", before, true},
		"renewed after the stop":        {"MachineHealthCheck/" + p.namespace + "/own", after, true},
		"expired":                       {"MachineHealthCheck/elsewhere/other", noon.Add(-15*time.Minute - time.Second), false},
		"expired within the clock skew": {"MachineHealthCheck/elsewhere/other", noon.Add(-15 * time.Minute), true},
		"released":                      {"", before, false},
	} {
		t.Run(name, func(t *testing.T) {
			far, lease := p.controlPlaneLease(test.holder, test.renewed)
			uninstaller, said := p.uninstaller(false)
			g := NewWithT(t)
			g.Expect(uninstaller.All(p.ctx)).To(MatchError(ContainSubstring("incomplete")), "Cluster test cannot be reached")
			told := ContainSubstring("left: Cluster %s/prod: Lease kube-system/remedy-control-plane is held by %q until", p.namespace, test.holder)
			g.Expect(p.exists(far, lease)).To(Equal(test.stays), said.String())
			g.Expect(told.Match(said.String())).To(Equal(test.stays), said.String())
			g.Expect(client.IgnoreNotFound(far.Delete(p.ctx, lease))).To(Succeed())
		})
	}
}

// The Lease is deleted only in the version that was read.
func TestControlPlaneLease_TakenDuringDelete_IsKept(t *testing.T) {
	p := newFixture(t)
	p.ownCheck("own")
	far, lease := p.controlPlaneLease("MachineHealthCheck/"+p.namespace+"/own", noon)
	taken := false
	p.cluster("prod", p.proxiedKubeconfig(func(r *http.Request) {
		if r.Method == http.MethodDelete && !taken {
			taken = true
			now := lease.DeepCopy()
			now.Spec.HolderIdentity = ptr.To("MachineHealthCheck/elsewhere/other")
			p.Expect(far.Update(p.ctx, now)).To(Succeed())
		}
	}))
	uninstaller, said := p.uninstaller(false)
	p.Expect(uninstaller.All(p.ctx)).To(MatchError(ContainSubstring("incomplete")))
	p.Expect(taken).To(BeTrue())
	p.Expect(said.String()).To(ContainSubstring(`is held by "MachineHealthCheck/elsewhere/other" until`))
	p.Expect(far.Get(p.ctx, client.ObjectKeyFromObject(lease), lease)).To(Succeed())
}
