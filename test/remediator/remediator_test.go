// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediator_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// story is one request, from its creation to its end, as a health check sees it.
type story struct {
	*WithT
	t       *testing.T
	all     *requests.Requests
	player  *remediator.Remediator
	outcome remediator.Outcome
	worked  []string
	found   *requests.Request
	naming  requests.Naming
}

func begin(t *testing.T, kind remediator.Kind, outcome remediator.Outcome, target requests.Target) *story {
	t.Helper()
	s := &story{WithT: NewWithT(t), t: t, outcome: outcome}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "story-"}}
	s.Expect(admin.Create(t.Context(), namespace)).To(Succeed())
	s.Expect(admin.Create(t.Context(), kind.NewTemplate(namespace.Name, "soft", map[string]any{"strategy": "reboot"}))).To(Succeed())
	s.player = &remediator.Remediator{
		Kind: kind, Client: client.NewNamespacedClient(admin, namespace.Name), Nodes: admin,
		Outcome: func(*unstructured.Unstructured) remediator.Outcome { return s.outcome },
		Worked: func(_ context.Context, node string) error {
			s.worked = append(s.worked, node)
			return nil
		},
	}
	var err error
	clock := testingclock.NewFakeClock(noon)
	s.all, err = requests.New(t.Context(), requests.Options{Client: admin, Clock: clock})
	s.Expect(err).ToNot(HaveOccurred())
	soft := requests.Reference{APIVersion: kind.GroupVersion().String(), Kind: kind.Template().Kind, Namespace: namespace.Name, Name: "soft"}
	s.naming = requests.Naming{soft}
	check := requests.Check{Kind: "NodeHealthCheck", Name: "nodes"}
	s.Eventually(func() bool {
		// What could not be asked is asked again after a while.
		clock.Step(5 * time.Second)
		one := s.all.Resolve(t.Context(), check, "", soft)[0]
		return one.Usable()
	}).Should(BeTrue())
	s.found, _, err = s.all.Create(t.Context(), &requests.Draft{
		Check: check, CheckUID: "check-uid", Target: target, Template: soft, Order: 1, Attempt: 1, Started: noon, Place: requests.InOneCluster,
	})
	s.Expect(err).ToNot(HaveOccurred())
	return s
}

// acts runs the remediator, and returns the request; nil if it does not exist any more.
func (s *story) acts() *remediation.Request {
	s.t.Helper()
	for acted := true; acted; {
		var err error
		acted, err = s.player.Act(s.t.Context())
		s.Expect(err).ToNot(HaveOccurred())
	}
	now, err := s.all.GetLive(s.t.Context(), s.found.Kind, s.found.Key())
	s.Expect(err).ToNot(HaveOccurred())
	if now == nil {
		return nil
	}
	return now.Facts(s.naming)
}

// reads returns the request as it is.
func (s *story) reads() *unstructured.Unstructured {
	s.t.Helper()
	request := s.player.Kind.NewRequest(s.found.Namespace, s.found.Name)
	s.Expect(admin.Get(s.t.Context(), s.found.Key(), request)).To(Succeed())
	return request
}

// createNode creates a Node that exists until the end of the test at most.
func createNode(t *testing.T, changes ...func(*corev1.Node)) *corev1.Node {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "n-"}}
	for _, change := range changes {
		change(node)
	}
	NewWithT(t).Expect(admin.Create(t.Context(), node)).To(Succeed())
	t.Cleanup(func() {
		NewWithT(t).Expect(client.IgnoreNotFound(admin.Delete(context.Background(), node))).To(Succeed())
	})
	return node
}

// targetOf is a Node as a target.
func targetOf(node *corev1.Node) requests.Target {
	return requests.OfNode(requests.Object{Name: node.Name, UID: node.UID}, requests.Object{})
}

func TestMetal3FindsAMachineByTheOwnerAndTellsByAPhase(t *testing.T) {
	machine := requests.Object{Name: "m1", UID: "machine-uid"}
	t.Run("it succeeds", func(t *testing.T) {
		s := begin(t, remediator.Metal3, remediator.Succeeds, requests.OfMachine(machine, requests.Object{Name: "n1", UID: "node-uid"}))
		seen := s.acts()
		s.Expect(s.worked).To(Equal([]string{"n1"}))
		s.Expect(seen.Failed || seen.Succeeded).To(BeFalse(), "a phase does not report that")
		s.Expect(s.all.Delete(t.Context(), s.found)).To(Succeed())
		s.Expect(s.acts()).To(BeNil())
	})
	t.Run("it fails", func(t *testing.T) {
		s := begin(t, remediator.Metal3, remediator.Fails, requests.OfMachine(machine, requests.Object{}))
		s.Expect(s.acts().Failed).To(BeTrue())
	})
	t.Run("it hangs, and removes its finalizer", func(t *testing.T) {
		s := begin(t, remediator.Metal3, remediator.Hangs, requests.OfMachine(machine, requests.Object{}))
		s.Expect(s.acts().Failed).To(BeFalse())
		s.Expect(s.worked).To(BeEmpty())
		s.Expect(s.all.StopRemediator(t.Context(), s.found, noon, false)).To(Succeed())
		s.Expect(s.all.Delete(t.Context(), s.found)).To(Succeed())
		s.Expect(s.acts()).To(BeNil())
	})
	t.Run("a Node has a Machine, or it is not found", func(t *testing.T) {
		s := begin(t, remediator.Metal3, remediator.Succeeds, requests.OfNode(requests.Object{Name: "n2", UID: "u"}, requests.Object{}))
		s.acts()
		s.Expect(s.worked).To(BeEmpty())
		s = begin(t, remediator.Metal3, remediator.Succeeds, requests.OfNode(requests.Object{Name: "n2", UID: "u"}, machine))
		s.acts()
		s.Expect(s.worked).To(Equal([]string{"n2"}))
	})
}

func TestSilent_Request_IsNotTakenOn(t *testing.T) {
	s := begin(t, remediator.FenceAgents, remediator.Silent, targetOf(createNode(t)))
	s.acts()
	_, err := s.player.Reconcile(t.Context(), reconcile.Request{NamespacedName: s.found.Key()})
	s.Expect(err).ToNot(HaveOccurred())
	there := remediator.FenceAgents.NewRequest(s.found.Namespace, s.found.Name)
	s.Expect(admin.Get(t.Context(), s.found.Key(), there)).To(Succeed())
	s.Expect(there.GetFinalizers()).To(BeEmpty())
	s.Expect(there.Object).ToNot(HaveKey("status"))
	s.outcome = remediator.Succeeds
	_, err = s.player.Reconcile(t.Context(), reconcile.Request{NamespacedName: s.found.Key()})
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(admin.Get(t.Context(), s.found.Key(), there)).To(Succeed())
	s.Expect(there.GetFinalizers()).To(Equal([]string{remediator.FenceAgentsFinalizer}))
}
