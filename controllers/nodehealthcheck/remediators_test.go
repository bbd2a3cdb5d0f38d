// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck_test

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// knownRemediator is a real remediator, and what the manager can expect of it.
type knownRemediator struct {
	name string
	kind remediator.Kind
	// failsAtOnce: its failure is found in the status. Otherwise the step ends by its timeout.
	failsAtOnce bool
	// reportsSuccess: it reports Succeeded=True, and is not stopped after that.
	reportsSuccess bool
	// deletesNode: success is another Node.
	deletesNode bool
	// stuckWithoutNode: it keeps its finalizer when the Node does not exist, although it was stopped.
	stuckWithoutNode bool
	// ofMachine: the request needs a Machine as an owner. The Nodes are those of a workload cluster.
	ofMachine bool
	// awaited: a Node that does not exist is awaited until the step ends, because it may delete and restore the Node.
	awaited bool
	// vanishes: it has no finalizer all the time, so the test keeps requests to see how they end.
	vanishes bool
	// releases is how it goes on with a request that hangs when its deletion ends: a host is repaired, a fence agent ends.
	releases remediator.Outcome
}

var knownRemediators = []knownRemediator{
	{
		name: "metal3", kind: remediator.Metal3, failsAtOnce: true, ofMachine: true, stuckWithoutNode: true, awaited: true, vanishes: true,
		releases: remediator.Succeeds,
	},
	{name: "Hetzner", kind: remediator.HCloud, failsAtOnce: true, ofMachine: true, vanishes: true, releases: remediator.Hangs},
	{
		name: "fence-agents-remediation", kind: remediator.FenceAgents, failsAtOnce: true, reportsSuccess: true, stuckWithoutNode: true,
		releases: remediator.Succeeds,
	},
	{name: "self-node-remediation", kind: remediator.SelfNode, reportsSuccess: true, releases: remediator.Hangs},
	{name: "customized-user-remediation", kind: remediator.CustomizedUser, vanishes: true, releases: remediator.Hangs},
	{name: "example", kind: remediator.Example, failsAtOnce: true, reportsSuccess: true, releases: remediator.Hangs},
	{
		name: "machine-deletion-remediation", kind: remediator.MachineDeletion, failsAtOnce: true, reportsSuccess: true, deletesNode: true,
		vanishes: true, releases: remediator.Hangs,
	},
	{
		name: "storage-based-remediation", kind: remediator.StorageBased, failsAtOnce: true, stuckWithoutNode: true,
		releases: remediator.Hangs,
	},
}

// driven is a check with two steps of one kind, and three healthy Nodes. Each story has a Node of its own.
type driven struct {
	*stage.Stage
	knownRemediator
	check    *remedyv1.NodeHealthCheck
	instance *stage.Instance
}

// Every known remediator is driven from the request to its end, whether it succeeds, fails, hangs, or loses the Node.
func TestRemediator_EachKind_IsDriven(t *testing.T) {
	t.Parallel()
	for _, known := range knownRemediators {
		t.Run(known.name, func(t *testing.T) {
			t.Parallel()
			d := drive(t, known)
			d.succeeds()
			d.fails()
			d.hangs()
			d.doesNotHelp()
			if d.reportsSuccess && !d.deletesNode && !d.stuckWithoutNode {
				d.losesNode("late", remediator.Succeeds)
			}
			d.losesNode("lost", remediator.Hangs)
		})
	}
}

func drive(t *testing.T, known knownRemediator) *driven {
	t.Helper()
	changes := []func(*stage.Stage){stage.WithClock}
	if !known.ofMachine {
		changes = append(changes, stage.WithAllNamespaces)
	}
	d := &driven{Stage: stage.New(t, changes...), knownRemediator: known}
	for _, name := range []string{"n-1", "n-2", "n-3"} {
		d.CreateNode(name)
	}
	d.check = d.CreateNodeCheck("workers", stage.NodeSteps(
		d.CreateNodeTemplate(known.kind, "first"), d.CreateNodeTemplate(known.kind, "second")))
	d.instance = d.Start()
	return d
}

// begins creates an unhealthy Node, and waits for its request.
func (d *driven) begins(node string) {
	d.T.Helper()
	if d.ofMachine {
		d.CreateUnhealthyMachine(node)
		ownNodes(d.Stage, node)
	} else {
		d.CreateUnhealthyNode(node, func(n *corev1.Node) {
			n.Annotations = map[string]string{remediator.MachineAnnotation: "openshift-machine-api/" + n.Name}
			n.Spec.ProviderID = "aws:///zone/" + n.Name
		})
	}
	d.WaitRequest(d.kind, d.NodeName(node))
	decided(d.Stage, d.check, node, Equal("Remediating "))
}

// request reads the request for a Node; nil if there is none.
func (d *driven) request(node string) *unstructured.Unstructured {
	return d.NodeRequest(d.kind, node)()
}

// becomes lets the remediator work until the request for a Node is as expected; nil is none.
func (d *driven) becomes(node string, outcome remediator.Outcome, expected func(*unstructured.Unstructured) bool) {
	d.T.Helper()
	d.Eventually(func() bool {
		d.Remediate(d.kind, outcome)
		return expected(d.request(node))
	}).WithTimeout(stage.OutcomeTimeout).Should(BeTrue())
}

func isGone(request *unstructured.Unstructured) bool { return request == nil }

func isSecond(request *unstructured.Unstructured) bool {
	return request != nil && request.GetAnnotations()[remedyv1.TemplateNameAnnotation] == "second"
}

// withdrawn waits until the request for a Node is being deleted, and returns it.
func (d *driven) withdrawn(node string) *unstructured.Unstructured {
	d.T.Helper()
	d.Eventually(func() *metav1.Time { return d.request(node).GetDeletionTimestamp() }).WithTimeout(stage.OutcomeTimeout).ShouldNot(BeNil())
	return d.request(node)
}

const keepsRequest = "test.invalid/keep"

// keep lets the test see a request of a remediator without a finalizer.
func (d *driven) keep(node string) {
	d.T.Helper()
	if d.vanishes {
		request := d.request(node)
		d.SetRequestFinalizers(request, append(request.GetFinalizers(), keepsRequest)...)
	}
}

// release is the opposite of keep.
func (d *driven) release(node string) {
	d.T.Helper()
	if d.vanishes {
		request := d.request(node)
		d.SetRequestFinalizers(request, slices.DeleteFunc(request.GetFinalizers(), func(f string) bool { return f == keepsRequest })...)
	}
}

// recovers ends a story: the Node is healthy, and counts as healthy when its request no longer exists.
func (d *driven) recovers(node string) {
	d.T.Helper()
	d.SetReady(node, corev1.ConditionTrue, 0)
	d.becomes(node, d.releases, isGone)
	d.Eventually(stage.Get(d.Stage, d.check)).Should(WithTransform(status, HaveExactElements(
		Not(BeZero()), Not(BeZero()), BeZero())))
}

// The request exists until the Node is healthy, and the Node does not count as healthy until the request no longer exists.
func (d *driven) succeeds() {
	d.T.Helper()
	d.begins("succeeds")
	if d.deletesNode {
		d.becomes("succeeds", remediator.Succeeds, isGone)
		d.Eventually(stage.Get(d.Stage, d.check)).Should(WithTransform(status, Equal([]int32{3, 3, 0})))
		return
	}
	d.keep("succeeds")
	d.Remediate(d.kind, remediator.Succeeds)
	d.instance.WaitIdle()
	d.Expect(d.request("succeeds").GetFinalizers()).ToNot(BeEmpty(), "the remediator has taken the request on")
	d.Expect(d.request("succeeds").GetDeletionTimestamp()).To(BeNil(), "the Node is not healthy")
	d.SetReady("succeeds", corev1.ConditionTrue, 0)
	d.Expect(d.withdrawn("succeeds").GetAnnotations()).ToNot(HaveKey(remedyv1.TimedOutAnnotation))
	d.instance.WaitIdle()
	d.Expect(status(stage.Get(d.Stage, d.check)())[:2]).To(Equal([]int32{4, 3}), "the request still exists")
	d.release("succeeds")
	d.becomes("succeeds", remediator.Succeeds, isGone)
	d.Eventually(stage.Get(d.Stage, d.check)).Should(WithTransform(status, Equal([]int32{4, 4, 0})))
}

// A failure that is reported ends the step at once. Otherwise the step ends by its timeout.
func (d *driven) fails() {
	d.T.Helper()
	d.begins("fails")
	d.Remediate(d.kind, remediator.Fails)
	if !d.failsAtOnce {
		d.instance.WaitIdle()
		d.Expect(isSecond(d.request("fails"))).To(BeFalse())
		d.Advance(10 * time.Minute)
	}
	// The second step must not fail, too, before its request is seen.
	d.becomes("fails", remediator.Hangs, isSecond)
	d.Expect(d.Node("fails").Annotations).To(HaveKeyWithValue(remedyv1.TriedAnnotation, ContainSubstring("first")))
	d.recovers("fails")
}

// A remediator that does not finish is stopped by the timed-out annotation before its request is deleted.
func (d *driven) hangs() {
	d.T.Helper()
	d.begins("hangs")
	d.keep("hangs")
	d.Remediate(d.kind, remediator.Hangs)
	d.instance.WaitIdle()
	d.Expect(d.request("hangs").GetAnnotations()).ToNot(HaveKey(remedyv1.TimedOutAnnotation))
	d.Advance(10 * time.Minute)
	d.Expect(d.withdrawn("hangs").GetAnnotations()).To(HaveKey(remedyv1.TimedOutAnnotation))
	d.release("hangs")
	d.becomes("hangs", d.releases, isSecond)
	d.recovers("hangs")
}

// A remediator that has succeeded is not stopped when the Node does not become healthy. The next step follows.
func (d *driven) doesNotHelp() {
	d.T.Helper()
	if d.deletesNode {
		return
	}
	d.begins("stays")
	d.keep("stays")
	d.Remediate(d.kind, remediator.Succeeds)
	d.instance.WaitIdle()
	d.Advance(10 * time.Minute)
	_, stopped := d.withdrawn("stays").GetAnnotations()[remedyv1.TimedOutAnnotation]
	d.Expect(stopped).To(Equal(!d.reportsSuccess))
	d.release("stays")
	d.becomes("stays", remediator.Succeeds, isSecond)
	d.recovers("stays")
}

// The request of a Node that is deleted is stopped and deleted, whether its remediator has succeeded or not. storage-based-remediation
// and fence-agents-remediation keep it, and metal3 keeps it until a Node of that name exists again. That does not block other workers, and
// the status reports the request meanwhile.
func (d *driven) losesNode(name string, outcome remediator.Outcome) {
	d.T.Helper()
	d.begins(name)
	d.keep(name)
	d.Remediate(d.kind, outcome)
	node := d.Node(name)
	if d.ofMachine {
		d.Expect(d.Workload.Delete(d.Ctx, node)).To(Succeed())
	} else {
		d.Expect(d.Admin.Delete(d.Ctx, node)).To(Succeed())
	}
	if d.awaited {
		d.instance.WaitIdle()
		d.Expect(d.request(name).GetDeletionTimestamp()).To(BeNil(), "the Node may come back")
		d.Advance(10 * time.Minute)
	}
	d.Expect(d.withdrawn(name).GetAnnotations()).To(HaveKey(remedyv1.TimedOutAnnotation))
	d.release(name)
	if d.stuckWithoutNode {
		d.staysWithoutBlocking(node)
		return
	}
	d.becomes(name, outcome, isGone)
	d.Eventually(stage.Get(d.Stage, d.check)).Should(And(
		HaveField("Status.InFlightRemediations", BeEmpty()), HaveField("Finalizers", BeEmpty())))
}

func (d *driven) staysWithoutBlocking(lost *corev1.Node) {
	d.T.Helper()
	d.Remediate(d.kind, remediator.Hangs)
	d.begins("other")
	d.SetReady("other", corev1.ConditionTrue, 0)
	others := remediator.Hangs
	if d.ofMachine {
		// The hosts power off. The Node is missing nevertheless.
		others = remediator.Succeeds
	}
	d.becomes("other", others, isGone)
	d.Expect(d.request("lost").GetDeletionTimestamp()).ToNot(BeNil())
	d.Expect(stage.Get(d.Stage, d.check)().Status.InFlightRemediations).To(HaveKey(lost.Name))
	d.Expect(d.check.Finalizers).To(ConsistOf(remedyv1.CleanupFinalizer))
	d.Advance(5 * time.Minute)
	d.Eventually(stage.Get(d.Stage, d.check)).
		Should(WithTransform(stage.OfNodes(stage.CheckCondition(remedyv1.ReadyCondition)), Equal("False PreviousStepNotReleased")))

	d.CreateUnhealthyNode("lost")
	decided(d.Stage, d.check, "lost", Or(Equal("Blocked RequestNameConflict"), Equal("Blocked PreviousStepNotReleased")))
	d.becomes("lost", d.releases, func(request *unstructured.Unstructured) bool {
		return request != nil && request.GetDeletionTimestamp() == nil && request.GetUID() != ""
	})
	decided(d.Stage, d.check, "lost", Equal("Remediating "))
	d.recovers("lost")
}
