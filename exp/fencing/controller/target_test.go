// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"strings"
	"testing"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
)

var infrastructure = clusterv1.ContractVersionedObjectReference{APIGroup: "a.b", Kind: "C", Name: "c"}

// newClusterStage is a stage whose Nodes belong to Cluster prod, and whose profile has variables.
func newClusterStage(t *testing.T) *stage {
	t.Helper()
	s := newStage(t)
	s.r.OwnNodesNamespace = "another"
	s.Expect(s.admin.Create(t.Context(), &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "prod"}, Spec: clusterv1.ClusterSpec{InfrastructureRef: infrastructure},
	})).To(Succeed())
	s.profile(func(p *fencingv1.FenceProfile) {
		p.Spec.ClusterName, p.Spec.Nodes, p.Spec.NodeSelector = "prod", nil, &remedyv1.Selector{}
		p.Spec.Methods[0].Parameters = fencingv1.Parameters{"ip": "127.0.0.1", "plug": "$(instanceID)"}
	})
	return s
}

func (s *stage) machine(name, node, providerID string) *clusterv1.Machine {
	machine := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "prod"},
		}, Spec: clusterv1.MachineSpec{
			ClusterName: "prod", ProviderID: providerID, InfrastructureRef: infrastructure,
			Bootstrap: clusterv1.Bootstrap{DataSecretName: ptr.To("x")},
		},
	}
	s.Expect(s.admin.Create(s.t.Context(), machine)).To(Succeed())
	machine.Status.NodeRef.Name = node
	s.Expect(s.admin.Status().Update(s.t.Context(), machine)).To(Succeed())
	return machine
}

func ownedByMachine(machine *clusterv1.Machine) func(*fencingv1.NodeFence) {
	return func(f *fencingv1.NodeFence) {
		f.Annotations = nil
		f.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: machine.Name, UID: machine.UID,
		}}
	}
}

func ofCluster(f *fencingv1.NodeFence) {
	f.Labels = map[string]string{clusterv1.ClusterNameLabel: "prod"}
}

func message(f *fencingv1.NodeFence, kind string) string {
	return meta.FindStatusCondition(f.Status.Conditions, kind).Message
}

func TestReconcile_NodeOfMachine_IsThatOfItsCluster(t *testing.T) {
	for name, owned := range map[string]bool{"owner of the request": true, "found by its Node": false} {
		t.Run(name, func(t *testing.T) {
			s := newClusterStage(t)
			machine := s.machine("machine-1", "", "metal://1")
			change := ofCluster
			if owned {
				change = ownedByMachine(machine)
			}
			f := s.fence("machine-1", change)
			s.reconcile(f)
			reason := map[bool]string{true: "False NodeNotFound", false: "False ProfileNotResolved"}[owned]
			s.Expect(condition(s.get(f), "Admitted")).To(Equal(reason), "the Machine has no Node")
			machine.Status.NodeRef.Name = "worker-1"
			s.Expect(s.admin.Status().Update(t.Context(), machine)).To(Succeed())
			s.run(f, final)
			found := s.get(f)
			s.Expect(condition(found, "Succeeded")).To(Equal("True Rejoined"))
			s.Expect(found.Status.Node).To(HaveValue(And(
				HaveField("ClusterName", "prod"), HaveField("ProviderID", "metal://1"), HaveField("MachineName", "machine-1"),
			)))
		})
	}
}

// A workload cluster can give a Node any name, labels and provider ID, as those of a machine of another cluster.
func TestReconcile_NodeWithoutMachine_ChoosesNoMachine(t *testing.T) {
	s := newClusterStage(t)
	node := s.getNode("worker-1")
	node.Spec.ProviderID = "aws:///zone/i-of-another-cluster"
	s.Expect(s.admin.Update(t.Context(), node)).To(Succeed())
	f := s.fence("forged", ofCluster)
	s.reconcile(f)
	s.Expect(condition(s.get(f), "Admitted")).To(Equal("False ProfileNotResolved"))
	s.Expect(message(s.get(f), "Admitted")).To(ContainSubstring("a nodeSelector needs a Machine with this Node"))
	// With a row, the name is that of the administrator, and the provider ID still is not.
	profile := &fencingv1.FenceProfile{}
	profile.Name, profile.Namespace = "rack", s.namespace
	s.Expect(s.admin.Delete(t.Context(), profile)).To(Succeed())
	s.profile(func(p *fencingv1.FenceProfile) {
		p.Spec.ClusterName = "prod"
		p.Spec.Methods[0].Parameters = fencingv1.Parameters{"plug": "$(instanceID)"}
	})
	s.reconcile(f)
	s.Expect(message(s.get(f), "Admitted")).To(ContainSubstring("$(instanceID) needs a Machine with this Node"))
	s.Expect(s.playJobs()).To(BeFalse())
}

func TestReconcile_TwoMachinesOfNode_FencesNone(t *testing.T) {
	s := newClusterStage(t)
	s.machine("machine-1", "worker-1", "metal://1")
	s.machine("machine-2", "worker-1", "metal://2")
	f := s.fence("two", ofCluster)
	s.reconcile(f)
	s.Expect(message(s.get(f), "Admitted")).To(ContainSubstring("Machines machine-1 and machine-2 both have Node worker-1"))
}

// A Node or a Machine that was replaced under its name is not fenced for the one that was unhealthy.
func TestReconcile_Replaced_FencesNothing(t *testing.T) {
	s := newStage(t)
	s.profile()
	f := s.fence("node", func(f *fencingv1.NodeFence) { f.Annotations[remedyv1.NodeUIDAnnotation] = "earlier" })
	s.reconcile(f)
	s.Expect(condition(s.get(f), "Admitted")).To(Equal("False NodeReplaced"))
	s = newClusterStage(t)
	earlier := s.machine("machine-1", "worker-1", "metal://1").DeepCopy()
	earlier.UID = "earlier"
	f = s.fence("machine", ownedByMachine(earlier))
	s.run(f, final)
	s.Expect(condition(s.get(f), "Succeeded")).To(Equal("False TargetDeleted"))
	s.Expect(s.played).To(BeEmpty())
}

// Fences that wait for a limit share what was read, and none begins with it.
func TestReconcile_ManyWait_ReadNodesOnce(t *testing.T) {
	s := newStage(t)
	s.profile(func(p *fencingv1.FenceProfile) {
		p.Spec.Nodes = append(p.Spec.Nodes, fencingv1.FenceProfileNode{Name: "worker-2"})
	})
	s.ready("worker-2", corev1.ConditionUnknown, "b")
	s.ready("worker-3", corev1.ConditionUnknown, "b")
	first := s.fence("first")
	second := s.fence("second", func(f *fencingv1.NodeFence) { f.Annotations[remedyv1.NodeNameAnnotation] = "worker-2" })
	s.reconcile(first)
	s.Expect(condition(s.get(first), "Admitted")).To(Equal("False TooManyNotReady"))
	s.ready("worker-3", corev1.ConditionTrue, "b")
	s.reconcile(second)
	s.Expect(condition(s.get(second), "Admitted")).To(Equal("False TooManyNotReady"), "as it was read for the first one")
	s.clock.Step(sharedFor)
	s.reconcile(second)
	s.Expect(condition(s.get(second), "Admitted")).To(Equal("True Admitted"))
}

// A row that is removed after the fence has begun does not leave the defaults of its methods, which are another outlet.
func TestReconcile_RowRemoved_SwitchesNothingOff(t *testing.T) {
	s := newStage(t)
	s.profile(func(p *fencingv1.FenceProfile) {
		p.Spec.Methods[0].Parameters = fencingv1.Parameters{"ip": "127.0.0.1", "plug": "1"}
	})
	f := s.fence("row-removed")
	s.reconcile(f)
	p := &fencingv1.FenceProfile{}
	s.Expect(s.admin.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "rack"}, p)).To(Succeed())
	p.Spec.Nodes = nil
	s.Expect(s.admin.Update(t.Context(), p)).To(Succeed())
	s.playJobs()
	s.reconcile(f)
	s.Expect(condition(s.get(f), "Succeeded")).To(Equal("Unknown ProfileNotResolved"))
	s.Expect(s.playJobs()).To(BeFalse())
}

// A profile that no reader can decode ends no fence that has begun with another one.
func TestReconcile_OtherProfileMalformed_GoesOn(t *testing.T) {
	s := newStage(t)
	s.profile()
	f := s.fence("begun")
	s.reconcile(f)
	other := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"methods": []any{map[string]any{"name": "a", "podTemplate": map[string]any{"spec": map[string]any{
			"containers": []any{map[string]any{"name": "a", "image": "b", "ports": "x"}},
		}}}}, "powerManagement": []any{map[string]any{"methods": []any{"a"}}},
	}}}
	other.SetGroupVersionKind(fencingv1.GroupVersion.WithKind("FenceProfile"))
	other.SetNamespace(s.namespace)
	other.SetName("other")
	s.Expect(s.admin.Create(t.Context(), other)).To(Succeed())
	second := s.fence("not-begun")
	s.reconcile(second)
	s.Expect(message(s.get(second), "Admitted")).To(ContainSubstring("correct its podTemplate"))
	s.run(f, final)
	s.Expect(condition(s.get(f), "Succeeded")).To(Equal("True Rejoined"))
}

// What cannot be read is reported, before a fence begins and while it runs.
func TestReconcile_Unreadable_IsReported(t *testing.T) {
	s := newClusterStage(t)
	machine := s.machine("machine-1", "worker-1", "metal://1")
	f := s.fence("machine-1", ownedByMachine(machine))
	nodes := s.r.Nodes
	s.r.Nodes = func(context.Context, client.ObjectKey) (client.Client, error) { return nil, errors.New("refused") }
	s.reconcile(f)
	s.Expect(condition(s.get(f), "Admitted")).To(Equal("False TargetUnreadable"))
	s.r.Nodes = nodes
	s.reconcile(f)
	s.Expect(condition(s.get(f), "Admitted")).To(Equal("True Admitted"))
	live := s.r.Live
	s.r.Live = interceptor.NewClient(live.(client.WithWatch), interceptor.Funcs{ //nolint:forcetypeassert // It is one.
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if _, is := object.(*clusterv1.Machine); is {
				return errors.New("the conversion webhook\n does not answer")
			}
			return c.Get(ctx, key, object, options...)
		},
	})
	_, err := s.r.Reconcile(t.Context(), requestFor(f))
	s.Expect(err).To(HaveOccurred())
	s.Expect(condition(s.get(f), "Succeeded")).To(Equal("Unknown TargetUnreadable"))
	s.Expect(message(s.get(f), "Succeeded")).To(ContainSubstring(
		"failed to read Machine " + s.namespace + "/machine-1: the conversion webhook  does"))
	s.r.Live = live
	s.run(f, final)
	s.Expect(condition(s.get(f), "Succeeded")).To(Equal("True Rejoined"))
}

// The text of an error can be that of a workload cluster. A condition has 32 KiB at most.
func TestLine_AnyError_IsShortAndPrintable(t *testing.T) {
	g := NewWithT(t)
	g.Expect(line(errors.New("a\x1b[2J\nb"))).To(Equal("a [2J b"))
	long := line(errors.New(strings.Repeat("\u00e9", 50_000)))
	g.Expect(len(long)).To(BeNumerically("<=", maxMessage))
	g.Expect(utf8.ValidString(long)).To(BeTrue())
}
