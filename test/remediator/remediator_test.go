// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediator_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	deprecated "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// scene is a request for a Node and its Machine, and a remediator.
type scene struct {
	*WithT
	t       *testing.T
	player  *remediator.Remediator
	outcome remediator.Outcome
	machine *clusterv1.Machine
	node    *corev1.Node
	request *unstructured.Unstructured
	worked  int
}

func play(t *testing.T, kind remediator.Kind, owned bool) *scene {
	t.Helper()
	x := &scene{WithT: NewWithT(t), t: t}
	x.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n-1", Labels: map[string]string{"pool": "a"}, Annotations: map[string]string{remediator.MachineAnnotation: "openshift/any"},
	}}
	x.machine = &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m-1", UID: "u"}}
	x.machine.Status.NodeRef.Name = x.node.Name
	x.request = kind.NewRequest("default", x.node.Name)
	x.request.Object["status"] = map[string]any{}
	x.request.SetUID("r")
	x.request.SetAnnotations(map[string]string{remedyv1.NodeNameAnnotation: x.node.Name, remedyv1.CheckAnnotation: "any"})
	if owned {
		x.request.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Machine", Name: "m-1", UID: "u"}})
	}
	all := runtime.NewScheme()
	x.Expect(scheme.AddToScheme(all)).To(Succeed())
	x.Expect(clusterv1.AddToScheme(all)).To(Succeed())
	x.player = &remediator.Remediator{
		Kind: kind, Outcome: func(*unstructured.Unstructured) remediator.Outcome { return x.outcome }, Memory: &remediator.Memory{},
		Client: fake.NewClientBuilder().WithScheme(all).WithObjects(x.node, x.machine, x.request).
			WithStatusSubresource(x.request, x.machine).Build(),
		Worked: func(context.Context, string) error {
			x.worked++
			return nil
		},
	}
	return x
}

// act lets the remediator do all that it can with an outcome.
func (x *scene) act(outcome remediator.Outcome) {
	x.t.Helper()
	x.outcome = outcome
	for range 20 {
		_, err := x.player.Act(x.t.Context())
		x.Expect(err).ToNot(HaveOccurred())
	}
	x.Expect(client.IgnoreNotFound(x.player.Client.Get(x.t.Context(), client.ObjectKeyFromObject(x.request), x.request))).To(Succeed())
}

func (x *scene) delete(object client.Object) {
	x.t.Helper()
	x.Expect(x.player.Client.Delete(x.t.Context(), object)).To(Succeed())
}

// exists reads an object, and reports whether it exists.
func (x *scene) exists(object client.Object) bool {
	err := x.player.Client.Get(x.t.Context(), client.ObjectKeyFromObject(object), object)
	x.Expect(client.IgnoreNotFound(err)).To(Succeed())
	return err == nil
}

func (x *scene) host() *remediator.Host {
	return x.player.Memory.Host(client.ObjectKeyFromObject(x.machine))
}

// Infrastructure providers need a Machine as an owner. Remediators of medik8s look for such a Machine among those of OpenShift, and do not
// find it. What else they do is verified by package conform, and with the manager in controllers/nodehealthcheck.
func TestRemediator_OwnerMachine_IsNeededOrWrong(t *testing.T) {
	for _, test := range []struct {
		kind         remediator.Kind
		owned, works bool
	}{
		{remediator.Metal3, true, true},
		{remediator.Metal3, false, false},
		{remediator.HCloud, true, true},
		{remediator.HCloud, false, false},
		{remediator.SelfNode, true, false},
		{remediator.SelfNode, false, true},
		{remediator.MachineDeletion, true, false},
		{remediator.MachineDeletion, false, true},
	} {
		name := test.kind.Kind
		if test.owned {
			name += " with owner"
		}
		t.Run(name, func(t *testing.T) {
			x := play(t, test.kind, test.owned)
			x.act(remediator.Succeeds)
			x.Expect(x.worked == 1).To(Equal(test.works))
		})
	}
}

// Metal3 keeps a deleted request until its host powers off, and ends the power cycle then.
func TestMetal3_HostStaysOn_KeepsDeletedRequest(t *testing.T) {
	x := play(t, remediator.Metal3, true)
	x.act(remediator.Hangs)
	x.delete(x.request)
	x.act(remediator.Hangs)
	x.Expect(x.exists(x.request)).To(BeTrue())
	x.Expect(x.host().Reboots).To(HaveKey(x.request.GetUID()))
	x.act(remediator.Succeeds)
	x.Expect(x.exists(x.request)).To(BeFalse())
	x.Expect(x.host().Reboots).To(BeEmpty())
	x.Expect(x.worked).To(Equal(1))
}

// In its older mode, Metal3 deletes the Node, and restores its metadata.
func TestMetal3_NodeDeletion_RestoresTheNode(t *testing.T) {
	x := play(t, remediator.Metal3, true)
	x.player.NodeDeletion = true
	x.act(remediator.Succeeds)
	x.Expect(x.exists(x.node)).To(BeFalse())
	x.Expect(x.request.GetFinalizers()).ToNot(BeEmpty())
	x.Expect(x.player.Client.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n-1"}})).To(Succeed())
	x.act(remediator.Succeeds)
	x.Expect(x.exists(x.node)).To(BeTrue())
	x.Expect(x.node.Labels).To(HaveKey("pool"))
	x.Expect(x.request.GetFinalizers()).To(BeEmpty())
}

// Metal3 hands over in v1beta1 only, and CAPH in both generations of conditions.
func TestRemediator_LastTimeoutIsOver_HandsOver(t *testing.T) {
	for _, kind := range []remediator.Kind{remediator.Metal3, remediator.HCloud} {
		x := play(t, kind, true)
		x.act(remediator.Fails)
		x.Expect(remediator.Phase(x.request)).To(Equal("Deleting machine"))
		x.Expect(x.exists(x.machine)).To(BeTrue())
		x.Expect(deprecated.IsFalse(x.machine, clusterv1.MachineOwnerRemediatedV1Beta1Condition)).To(BeTrue())
		x.Expect(conditions.IsFalse(x.machine, clusterv1.MachineOwnerRemediatedCondition)).To(Equal(kind == remediator.HCloud))
		x.Expect(x.host().Unhealthy).To(Equal(kind == remediator.Metal3))
	}
}

// fence-agents-remediation goes on after the deletion of the Node and of the request, and fences the Node that is there by then.
func TestFenceAgents_NodeMissing_AgentGoesOn(t *testing.T) {
	x := play(t, remediator.FenceAgents, false)
	x.act(remediator.Hangs)
	x.delete(x.node)
	x.delete(x.request)
	x.act(remediator.Hangs)
	x.Expect(remediator.Reason(x.request, "Succeeded")).To(Equal("RemediationFinishedNodeNotFound"))
	x.Expect(x.player.Stuck).To(HaveKey("n-1"))
	x.Expect(x.player.Client.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n-1"}})).To(Succeed())
	x.act(remediator.Hangs)
	x.Expect(x.exists(x.request)).To(BeTrue(), "it looks again only after a change of the request")
	x.act(remediator.Succeeds)
	x.Expect(x.worked).To(Equal(1))
	x.Expect(x.exists(x.request)).To(BeFalse())
}

// Any remediator may delete its request, or drop the annotations of others.
func TestRemediator_Flaw_ChangesTheRequest(t *testing.T) {
	x := play(t, remediator.Example, false)
	x.player.Flaw = remediator.DropsAnnotations
	x.act(remediator.Succeeds)
	x.Expect(x.request.GetAnnotations()).To(And(HaveKey(remedyv1.NodeNameAnnotation), Not(HaveKey(remedyv1.CheckAnnotation))))

	x = play(t, remediator.Example, false)
	x.player.Flaw = remediator.DeletesRequest
	x.act(remediator.Succeeds)
	x.Expect(x.exists(x.request)).To(BeFalse())
	x.Expect(x.worked).To(Equal(1))
}
