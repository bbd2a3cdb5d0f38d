// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/nodehealthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

var templatesResolved = stage.OfNodes(stage.CheckCondition(remedyv1.TemplatesResolvedCondition))

// A check reports that its template does not exist, and blocks its Nodes until the template is created. That also holds for a template
// that is deleted later. Health is reported all the time.
func TestTemplate_DeletedAndRecreated_IsReported(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces)
	createNodes(s)
	check := s.CreateNodeCheck("workers", func(spec *remedyv1.NodeHealthCheckSpec) {
		spec.RemediationTemplate = stage.NodeTemplateReference(s, remediator.FenceAgents, "late")
	})
	s.Start()
	decided(s, check, "n-3", Equal("Blocked TemplateNotResolved"))
	s.Expect(templatesResolved(check)).To(Equal("False TemplateNotFound"))
	s.Expect(status(check)).To(Equal([]int32{3, 2, 1}))
	s.CreateNodeTemplate(remediator.FenceAgents, "late")
	s.WaitRequest(remediator.FenceAgents, s.NodeName("n-3"))
	s.SetReady("n-3", corev1.ConditionTrue, 0)
	s.Eventually(s.NodeRequest(remediator.FenceAgents, "n-3")).Should(BeNil())

	s.Expect(s.Admin.Delete(s.Ctx, remediator.FenceAgents.NewTemplate(s.Namespace, "late", nil))).To(Succeed())
	s.Eventually(stage.Get(s, check)).Should(WithTransform(templatesResolved, Equal("False TemplateNotFound")))
	s.FailNode("n-3")
	decided(s, check, "n-3", Equal("Blocked TemplateNotResolved"))
	s.CreateNodeTemplate(remediator.FenceAgents, "late")
	s.WaitRequest(remediator.FenceAgents, s.NodeName("n-3"))
}

// A check reports a kind of templates that is not installed, and then that the manager has no permission for it.
func TestTemplate_NotServedThenForbidden_IsReported(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces, stage.WithClock)
	kind := remediator.NewKind(s.Namespace+".example.com", "v1", "LateRemediation")
	createNodes(s)
	check := s.CreateNodeCheck("workers", func(spec *remedyv1.NodeHealthCheckSpec) {
		spec.RemediationTemplate = stage.NodeTemplateReference(s, kind, "late")
	})
	c := s.Start()
	// The permission is read again all the time.
	c.NeverIdle = true
	s.Eventually(stage.Get(s, check)).Should(WithTransform(templatesResolved, Equal("False KindNotServed")))
	decided(s, check, "n-3", Equal("Blocked TemplateNotResolved"))
	s.Expect(stage.Management.InstallCRDObjects(kind.CRDs()...)).To(Succeed())
	s.CreateNodeTemplate(kind, "late")
	s.Eventually(func() string {
		s.Advance(16 * time.Second)
		return templatesResolved(stage.Get(s, check)())
	}).Should(Equal("False Forbidden"))
	s.Expect(stage.OfNodes(stage.CheckMessage(remedyv1.TemplatesResolvedCondition))(check)).To(ContainSubstring("ClusterRole"))
	s.Expect(s.Requests(kind)).To(BeEmpty())
	s.Expect(stage.Aggregate(s.Ctx, kind.Rules()...)).To(Succeed())
	s.Eventually(func() bool {
		s.Advance(16 * time.Second)
		return s.NodeRequest(kind, "n-3")() != nil
	}).Should(BeTrue())
}

// A request of a user that has the name of a Node is not changed, and the check reports that it blocks the Node.
func TestRequest_NameTakenByUser_IsNotTouched(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces)
	unhealthy := createNodes(s)
	foreign := remediator.FenceAgents.NewRequest(s.Namespace, unhealthy.Name)
	s.Create(foreign)
	check := s.CreateNodeCheck("workers")
	c := s.Start()
	decided(s, check, "n-3", Equal("Blocked RequestNameConflict"))
	s.Expect(check.Status.UnhealthyTargets[0].Message).To(ContainSubstring(unhealthy.Name))
	c.WaitIdle()
	s.SetReady("n-3", corev1.ConditionTrue, 0)
	s.Eventually(stage.Get(s, check)).Should(WithTransform(status, Equal([]int32{3, 3, 0})))
	s.Expect(s.NodeRequest(remediator.FenceAgents, "n-3")().GetResourceVersion()).To(Equal(foreign.GetResourceVersion()))
	s.FailNode("n-3")
	s.Expect(s.Admin.Delete(s.Ctx, foreign)).To(Succeed())
	s.Eventually(requestAnnotation(s, remedyv1.CheckAnnotation)).Should(Equal("NodeHealthCheck//" + check.Name))
}

// A manager in another cluster remediates a Node of this one. A check of this cluster has the name of its check, and neither takes the
// request over nor withdraws it.
func TestRequest_SameNameInOtherCluster_IsNotTouched(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces)
	node := createNodes(s)
	check := s.CreateNodeCheck("workers")
	request := requestFromElsewhere(s, remediator.FenceAgents, check, node)
	s.Create(request)
	c := s.Start()
	decided(s, check, "n-3", Equal("Blocked RequestNameConflict"))
	s.Expect(check.Status.UnhealthyTargets[0].Message).To(ContainSubstring("NodeHealthCheck " + check.Name + " in another cluster"))
	s.Change(check, func() { check.Spec.Mode = remedyv1.ObserveMode })
	s.Eventually(stage.Get(s, check)).Should(HaveField("Status.ObservedGeneration", check.Generation))
	s.SetReady("n-3", corev1.ConditionTrue, 0)
	s.Eventually(stage.Get(s, check)).Should(WithTransform(status, Equal([]int32{3, 3, 0})))
	c.WaitIdle()
	// The finalizer does not wait for it either.
	s.Expect(s.Admin.Delete(s.Ctx, check)).To(Succeed())
	s.Eventually(func() bool {
		return apierrors.IsNotFound(s.Admin.Get(s.Ctx, client.ObjectKeyFromObject(check), check))
	}).Should(BeTrue())
	s.Expect(s.NodeRequest(remediator.FenceAgents, "n-3")().GetResourceVersion()).To(Equal(request.GetResourceVersion()))
}

// The check of that name selects other Nodes here. It is not responsible for the Node of the request.
func TestRequest_SameNameInOtherCluster_DoesNotBlockThirdCheck(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces)
	node := createNodes(s)
	pool := s.CreateNodeCheck("a-pool", func(spec *remedyv1.NodeHealthCheckSpec) {
		spec.Selector.MatchLabels["pool"] = "others"
		spec.RemediationTemplate = s.CreateNodeTemplate(remediator.Example, "a-pool")
	})
	s.Create(requestFromElsewhere(s, remediator.Example, pool, node))
	s.CreateNodeCheck("z-rack")
	c := s.Start()
	s.Eventually(s.NodeRequest(remediator.FenceAgents, "n-3")).ShouldNot(BeNil())
	c.WaitIdle()
	s.Expect(s.NodeRequest(remediator.FenceAgents, "n-3")().GetDeletionTimestamp()).To(BeNil())
}

// requestFromElsewhere is a request of a manager in another cluster, whose check has the name of this one.
func requestFromElsewhere(
	s *stage.Stage, kind remediator.Kind, check *remedyv1.NodeHealthCheck, node *corev1.Node,
) *unstructured.Unstructured {
	theirs := requests.Check{Kind: nodehealthcheck.Kind, Name: check.Name}
	request := kind.NewRequest(s.Namespace, node.Name)
	request.SetLabels(map[string]string{remedyv1.CheckLabel: theirs.Label(client.ObjectKey{Namespace: "team", Name: "prod"})})
	request.SetAnnotations(map[string]string{
		remedyv1.CheckAnnotation: theirs.String(), remedyv1.StepAnnotation: "0", remedyv1.TemplateNameAnnotation: kind.Kind,
		remedyv1.NodeNameAnnotation: node.Name, remedyv1.NodeUIDAnnotation: string(node.UID),
	})
	request.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}})
	return request
}

// report sets conditions of the request for the Node n-3, as a remediator does, and waits until the manager has read them.
func report(s *stage.Stage, c *stage.Instance, kinds ...string) {
	s.T.Helper()
	waitRead(s, c, setTrue(s, kinds...))
}

// setTrue sets conditions of the request for the Node n-3.
func setTrue(s *stage.Stage, kinds ...string) *unstructured.Unstructured {
	s.T.Helper()
	request := s.NodeRequest(remediator.FenceAgents, "n-3")()
	s.ChangeStatus(request, func() {
		all := make([]any, 0, len(kinds))
		for _, kind := range kinds {
			all = append(all, map[string]any{"type": kind, "status": "True"})
		}
		s.Expect(unstructured.SetNestedSlice(request.Object, all, "status", "conditions")).To(Succeed())
	})
	return request
}

// waitRead waits until the manager has read this version of a request, or a newer one: the check may write in answer to it.
func waitRead(s *stage.Stage, c *stage.Instance, request *unstructured.Unstructured) {
	s.T.Helper()
	s.Eventually(func() (int, error) {
		seen, _ := c.KnownRequests.Get(request.GroupVersionKind(), client.ObjectKeyFromObject(request))
		if seen == nil {
			return 0, errors.Errorf("the manager has not read the request %s", request.GetName())
		}
		return resourceversion.CompareResourceVersion(seen.ResourceVersion, request.GetResourceVersion())
	}).Should(BeNumerically(">=", 0))
}

// A remediator that deletes the Node itself announces that. Its request stays until it has succeeded. It is stopped then, because the Node
// no longer exists.
func TestRequest_NodeDeletionExpected_StaysUntilSuccess(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces)
	node, check, c := remediating(s)
	s.Remediate(remediator.FenceAgents, remediator.Hangs)
	report(s, c, "PermanentNodeDeletionExpected")
	s.Expect(s.Admin.Delete(s.Ctx, node)).To(Succeed())
	s.Eventually(stage.Get(s, check)).Should(WithTransform(status, Equal([]int32{2, 2, 0})))
	c.WaitIdle()
	s.Expect(s.NodeRequest(remediator.FenceAgents, "n-3")()).To(HaveField("GetDeletionTimestamp()", BeNil()))
	s.Expect(check.Status.InFlightRemediations).To(HaveLen(1))
	report(s, c, "PermanentNodeDeletionExpected", "Succeeded")
	s.Eventually(isDeleting(s, remediator.FenceAgents)).Should(BeTrue())
	s.Expect(requestAnnotation(s, remedyv1.TimedOutAnnotation)()).ToNot(BeEmpty())
}

// The manager reads that the Node does not exist before it reads that the remediator has announced that.
func TestRequest_NodeDeletionUnread_IsNotStopped(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces)
	node, check, c := remediating(s)
	s.Remediate(remediator.FenceAgents, remediator.Hangs)
	waitRead(s, c, s.NodeRequest(remediator.FenceAgents, "n-3")())
	resource := remediator.FenceAgents.Plural
	c.Watches().Hold(resource + "." + remediator.FenceAgents.Group)
	setTrue(s, "PermanentNodeDeletionExpected")
	s.Expect(s.Admin.Delete(s.Ctx, node)).To(Succeed())
	s.Eventually(c.AllWrites).Should(ContainElement(And(HaveField("Resource", resource), HaveField("Code", http.StatusConflict))))
	c.Watches().Release()
	s.Eventually(stage.Get(s, check)).Should(WithTransform(status, Equal([]int32{2, 2, 0})))
	c.WaitIdle()
	s.Expect(s.NodeRequest(remediator.FenceAgents, "n-3")()).To(HaveField("GetDeletionTimestamp()", BeNil()))
	s.Expect(requestAnnotation(s, remedyv1.TimedOutAnnotation)()).To(BeEmpty())
}

// A request that has existed for days still exists if its Node is unhealthy and its step has no timeout.
func TestRequest_NoTimeout_IsNotStopped(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces, stage.WithClock)
	unhealthy := createNodes(s)
	check := s.CreateNodeCheck("workers")
	c := s.Start()
	request := s.WaitRequest(remediator.FenceAgents, unhealthy.Name)
	decided(s, check, "n-3", Equal("Remediating "))
	s.Advance(72 * time.Hour)
	c.WaitIdle()
	s.Expect(s.NodeRequest(remediator.FenceAgents, "n-3")()).To(And(
		HaveField("GetUID()", request.GetUID()), HaveField("GetDeletionTimestamp()", BeNil())))
	s.Expect(requestAnnotation(s, remedyv1.TimedOutAnnotation)()).To(BeEmpty())
	s.Expect(stage.Get(s, check)().Status.InFlightRemediations).To(HaveKey(unhealthy.Name), "the status has its age")
}

// One Node of the control plane is remediated at a time, also by two checks with templates of different kinds.
func TestControlPlane_TwoChecksOfNodes_OneAtATime(t *testing.T) {
	t.Parallel()
	stage.LockControlPlane(t)
	s := stage.New(t)
	other := remediator.NewKind(s.Namespace+".example.com", "v1", "OtherRemediation")
	s.Expect(stage.Management.InstallCRDObjects(other.CRDs()...)).To(Succeed())
	s.Expect(stage.Aggregate(s.Ctx, other.Rules()...)).To(Succeed())
	s.CreateControlPlane(5)
	kinds := map[string]remediator.Kind{"cp-1": remediator.Example, "cp-2": other}
	checks := map[string]*remedyv1.NodeHealthCheck{}
	for name, kind := range kinds {
		s.ChangeNode(name, func(node *corev1.Node) {
			node.Labels = s.NodeLabels()
			node.Labels["pool"] = name
		})
		checks[name] = s.CreateNodeCheck(name, ofPool(remedyv1.LabelValue(name)), func(spec *remedyv1.NodeHealthCheckSpec) {
			spec.RemediationTemplate = s.CreateNodeTemplate(kind, name)
			spec.MaxUnhealthy = ptr.To(intstr.FromInt32(1))
		})
		s.FailNode(name)
	}
	c := s.Start()
	c.NeverIdle = true
	exist := func() (names []string) {
		for name, kind := range kinds {
			if s.NodeRequest(kind, name)() != nil {
				names = append(names, name)
			}
		}
		return names
	}
	s.Eventually(exist).Should(HaveLen(1))
	first := exist()[0]
	second := map[string]string{"cp-1": "cp-2", "cp-2": "cp-1"}[first]
	decided(s, checks[second], second, Equal("Blocked ControlPlaneBusy"))
	c.ReconcileAll()
	s.Expect(exist()).To(Equal([]string{first}))
	s.SetReady(first, corev1.ConditionTrue, 0)
	s.WaitRequest(kinds[second], s.NodeName(second))
	s.Expect(exist()).To(Equal([]string{second}))
}

// All Nodes of a large cluster count, also those that the status does not list.
func TestLimit_ManyNodes_CountsAll(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces)
	const all, most = 208, 101 // 49 % of 208
	for i := range all {
		if name := fmt.Sprintf("n-%d", i); i <= most {
			s.CreateUnhealthyNode(name)
		} else {
			s.CreateNode(name)
		}
	}
	check := s.CreateNodeCheck("workers")
	c := s.Start()
	s.Eventually(stage.Get(s, check)).Should(WithTransform(status, Equal([]int32{all, all - most - 1, most + 1})))
	s.Expect(check.Status.UnhealthyTargets).To(HaveLen(100))
	s.Expect(check.Status.UnhealthyTargets).To(HaveEach(HaveField("BlockedReason", remedyv1.BlockedReason("TooManyUnhealthy"))))
	c.WaitIdle()
	s.Expect(s.Requests(remediator.FenceAgents)).To(BeEmpty())
	s.SetReady("n-0", corev1.ConditionTrue, 0)
	s.Eventually(func() int { return len(s.Requests(remediator.FenceAgents)) }).Should(Equal(most))
}
