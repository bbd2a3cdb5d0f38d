// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediator_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// behaviour is what is known of a remediator of medik8s.
type behaviour struct {
	name string
	kind remediator.Kind
	// finalizers are those of a request that it works off.
	finalizers []string
	// reportsSuccess and reportsFailure: Remedy finds that in the status. It may be reported otherwise, or not at all.
	reportsSuccess, reportsFailure bool
	// stops: it reads the timed-out annotation.
	stops bool
	// stuckWithoutNode: a request that is deleted without that annotation stays when the Node no longer exists.
	stuckWithoutNode bool
	// isolates: the Node has a taint or is cordoned.
	isolates bool
}

var behaviours = []behaviour{{
	name: "fence-agents-remediation", kind: remediator.FenceAgents, finalizers: []string{remediator.FenceAgentsFinalizer},
	reportsSuccess: true, reportsFailure: true, stops: true, stuckWithoutNode: true, isolates: true,
}, {
	name: "self-node-remediation", kind: remediator.SelfNode, finalizers: []string{remediator.SelfNodeFinalizer},
	reportsSuccess: true, stops: true, stuckWithoutNode: true, isolates: true,
}, {
	name: "machine-deletion-remediation", kind: remediator.MachineDeletion, reportsSuccess: true, reportsFailure: true, stops: true,
}, {
	name: "storage-based-remediation", kind: remediator.StorageBased, finalizers: []string{remediator.StorageBasedFinalizer},
	reportsFailure: true, stuckWithoutNode: true, isolates: true,
}}

func withMachine(node *corev1.Node) {
	node.Annotations = map[string]string{remediator.MachineAnnotation: "openshift-machine-api/" + node.Name + "m"}
	node.Spec.ProviderID = "aws:///zone/instance"
}

// Each remediator reports, stops and removes its finalizer as node-health-check finds it in the field.
func TestMedik8s_EachKind_BehavesAsTheRealOne(t *testing.T) {
	for _, b := range behaviours {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			t.Run("succeeds", b.succeeds)
			t.Run("fails", b.fails)
			t.Run("is stopped", b.isStopped)
			t.Run("Node is deleted", b.nodeIsDeleted)
		})
	}
}

func (b *behaviour) succeeds(t *testing.T) {
	node := createNode(t, withMachine)
	s := begin(t, b.kind, remediator.Succeeds, targetOf(node))
	seen := s.acts()
	s.Expect(s.worked).To(Equal([]string{node.Name}))
	s.Expect(seen.Succeeded).To(Equal(b.reportsSuccess))
	s.Expect(s.reads().GetFinalizers()).To(Equal(b.finalizers))
	isolated := func() bool {
		now := &corev1.Node{}
		err := admin.Get(t.Context(), client.ObjectKeyFromObject(node), now)
		return err == nil && (now.Spec.Unschedulable || len(now.Spec.Taints) > len(node.Spec.Taints))
	}
	s.Expect(isolated()).To(Equal(b.isolates))
	s.acts()
	s.Expect(s.worked).To(HaveLen(1), "it acts once")
	s.Expect(s.all.Delete(t.Context(), s.found)).To(Succeed())
	s.Expect(s.acts()).To(BeNil())
	s.Expect(isolated()).To(BeFalse())
}

func (b *behaviour) fails(t *testing.T) {
	s := begin(t, b.kind, remediator.Fails, targetOf(createNode(t, withMachine)))
	s.Expect(s.acts().Failed).To(Equal(b.reportsFailure))
	s.Expect(s.worked).To(BeEmpty())
}

func (b *behaviour) isStopped(t *testing.T) {
	s := begin(t, b.kind, remediator.Hangs, targetOf(createNode(t, withMachine)))
	s.Expect(s.acts().Failed).To(BeFalse())
	s.Expect(s.all.StopRemediator(t.Context(), s.found, noon, false)).To(Succeed())
	s.outcome = remediator.Succeeds
	seen := s.acts()
	s.Expect(seen.TimedOut).To(BeTrue())
	s.Expect(seen.Failed).To(Equal(b.stops))
	s.Expect(s.worked).To(HaveLen(map[bool]int{true: 0, false: 1}[b.stops]))
	s.Expect(s.all.Delete(t.Context(), s.found)).To(Succeed())
	s.Expect(s.acts()).To(BeNil())
}

func (b *behaviour) nodeIsDeleted(t *testing.T) {
	node := createNode(t, withMachine)
	s := begin(t, b.kind, remediator.Hangs, targetOf(node))
	s.acts()
	s.Expect(admin.Delete(t.Context(), node)).To(Succeed())
	s.Expect(s.all.Delete(t.Context(), s.found)).To(Succeed())
	if !b.stuckWithoutNode {
		s.Expect(s.acts()).To(BeNil())
		return
	}
	s.Expect(s.acts().DeletingSince).ToNot(BeZero())
	s.Expect(s.player.Stuck).To(HaveKeyWithValue(s.found.Name, ContainSubstring("not found")))
	s.Expect(s.all.StopRemediator(t.Context(), s.found, noon, false)).To(Succeed())
	s.Expect(s.acts() == nil).To(Equal(b.stops))
}

// A remediator reports a Node that does not exist, or retries for ever.
func TestMedik8s_NodeDoesNotExist_IsReported(t *testing.T) {
	missing := requests.OfNode(requests.Object{Name: "missing", UID: "u"}, requests.Object{})
	for kind, reason := range map[remediator.Kind]string{
		remediator.FenceAgents:     "RemediationFinishedNodeNotFound",
		remediator.SelfNode:        "RemediationSkippedNodeNotFound",
		remediator.MachineDeletion: "RemediationCannotStartNodeNotFound",
	} {
		s := begin(t, kind, remediator.Succeeds, missing)
		s.Expect(s.acts().Failed).To(BeTrue())
		s.Expect(remediator.Reason(s.reads(), "Succeeded")).To(Equal(reason))
		s.Expect(s.all.Delete(t.Context(), s.found)).To(Succeed())
		s.Expect(s.acts()).To(BeNil())
	}
	s := begin(t, remediator.StorageBased, remediator.Succeeds, missing)
	s.Expect(s.acts().Failed).To(BeFalse())
	s.Expect(s.player.Stuck).To(HaveKey("missing"))
	s.Expect(s.reads().GetFinalizers()).To(Equal([]string{remediator.StorageBasedFinalizer}))
}

// self-node-remediation and fence-agents-remediation find the Node by the annotation, and the others by the name of the request.
func TestMedik8s_NameIsNotTheNode_OnlySomeFindIt(t *testing.T) {
	node := createNode(t, withMachine)
	for kind, finds := range map[remediator.Kind]bool{
		remediator.FenceAgents: true, remediator.SelfNode: true, remediator.MachineDeletion: false, remediator.StorageBased: false,
	} {
		s := begin(t, kind, remediator.Hangs, targetOf(node))
		request := kind.NewRequest(s.found.Namespace, "other")
		request.SetAnnotations(map[string]string{remedyv1.NodeNameAnnotation: node.Name})
		s.Expect(s.all.Delete(t.Context(), s.found)).To(Succeed())
		s.Expect(admin.Create(t.Context(), request)).To(Succeed())
		s.outcome = remediator.Succeeds
		_, err := s.player.Act(t.Context())
		s.Expect(err).ToNot(HaveOccurred())
		s.acts()
		if finds {
			s.Expect(s.worked).To(Equal([]string{node.Name}))
		} else {
			s.Expect(s.worked).To(BeEmpty())
		}
	}
}

// A request that a Machine of Cluster API owns never succeeds: it is looked for among the Machines of OpenShift. A NodeHealthCheck as an
// owner has self-node-remediation not look for a Machine.
func TestMedik8s_OwnedByMachine_IsNotRemediated(t *testing.T) {
	node := createNode(t, withMachine)
	machine := requests.Object{Name: node.Name, UID: "machine-uid"}
	target := requests.OfMachine(machine, requests.Object{Name: node.Name, UID: node.UID})
	s := begin(t, remediator.SelfNode, remediator.Succeeds, target)
	s.acts()
	s.Expect(s.player.Stuck).To(HaveKeyWithValue(node.Name, ContainSubstring("machine.openshift.io")))
	s.Expect(s.reads().GetFinalizers()).To(BeEmpty())
	s.Expect(s.worked).To(BeEmpty())

	s = begin(t, remediator.MachineDeletion, remediator.Succeeds, target)
	s.acts()
	s.Expect(s.worked).To(BeEmpty())
	s.Expect(remediator.Reason(s.reads(), "Succeeded")).To(Equal("RemediationCannotStartMachineNotFound"))
}

// self-node-remediation does not start while the Node is excluded. The others do not read the label.
func TestMedik8s_ExcludedNode_OnlySelfNodeWaits(t *testing.T) {
	for _, b := range behaviours {
		node := createNode(t, withMachine, func(node *corev1.Node) { node.Labels = map[string]string{remedyv1.ExcludeLabel: "true"} })
		s := begin(t, b.kind, remediator.Succeeds, targetOf(node))
		s.acts()
		if b.kind != remediator.SelfNode {
			s.Expect(s.worked).To(HaveLen(1))
			continue
		}
		s.Expect(s.worked).To(BeEmpty())
		s.Expect(s.reads().GetFinalizers()).To(BeEmpty())
		before := client.MergeFrom(node.DeepCopy())
		node.Labels = nil
		s.Expect(admin.Patch(t.Context(), node, before)).To(Succeed())
		s.acts()
		s.Expect(s.worked).To(HaveLen(1))
	}
}

// machine-deletion-remediation reports whether the Node comes back before it deletes the Machine, and success when there is another one.
func TestMachineDeletion_NodeIsDeleted_IsReportedBefore(t *testing.T) {
	for provider, permanent := range map[string]string{"": "Unknown", "baremetalhost:///a": "False", "aws:///zone/instance": "True"} {
		node := createNode(t, withMachine, func(node *corev1.Node) { node.Spec.ProviderID = provider })
		s := begin(t, remediator.MachineDeletion, remediator.Succeeds, targetOf(node))
		exists := func() bool { return admin.Get(t.Context(), client.ObjectKeyFromObject(node), node) == nil }
		for exists() {
			s.Expect(s.worked).To(BeEmpty())
			_, err := s.player.Act(t.Context())
			s.Expect(err).ToNot(HaveOccurred())
		}
		s.Expect(remediator.Condition(s.reads(), "PermanentNodeDeletionExpected")).To(Equal(permanent))
		s.Expect(remediator.Condition(s.reads(), "Succeeded")).To(Equal("Unknown"))
		s.Expect(s.acts().Succeeded).To(BeTrue())
		s.Expect(remediator.Condition(s.reads(), "PermanentNodeDeletionExpected")).To(Equal(permanent))
	}
}
