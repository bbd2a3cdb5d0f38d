// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"slices"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// stageLabel is on Nodes, because all tests of a package share the clusters.
const stageLabel = "test.invalid/stage"

// Nodes is the client of the cluster of the Nodes: the workload cluster, or the management cluster if the manager watches all namespaces.
func (s *Stage) Nodes() client.Client {
	if s.AllNamespaces && !s.workloadNodes {
		return s.Admin
	}
	return s.Workload
}

// NodeLabels are those of the Nodes that the NodeHealthChecks of the stage select.
func (s *Stage) NodeLabels() map[string]string {
	return map[string]string{stageLabel: s.Namespace, "pool": "workers"}
}

// CreateOwnMachines creates Machines of the management cluster, if the stage is WithSelfHosted: its Nodes have the annotations of Cluster
// API. One Node has those of a Cluster that no longer exists.
func (s *Stage) CreateOwnMachines(names ...string) {
	s.T.Helper()
	annotations := func(cluster, machine string) map[string]string {
		return map[string]string{
			clusterv1.ClusterNamespaceAnnotation: s.Namespace, clusterv1.ClusterNameAnnotation: cluster, clusterv1.MachineAnnotation: machine,
		}
	}
	s.CreateNode("former", func(node *corev1.Node) { node.Labels, node.Annotations = nil, annotations("former", "m-0") })
	for _, name := range names {
		s.CreateMachine(name)
		left := s.Node(name)
		s.T.Cleanup(func() { s.Expect(s.Admin.Delete(s.Ctx, left)).To(Succeed()) })
		s.ChangeNode(name, func(node *corev1.Node) { node.Labels, node.Annotations = s.NodeLabels(), annotations("prod", name) })
	}
}

// CreateNode creates a Node without a Machine, which is ready. It is deleted at the end of the test.
func (s *Stage) CreateNode(name string, changes ...func(*corev1.Node)) *corev1.Node {
	s.T.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.NodeName(name), Labels: s.NodeLabels()}}
	for _, change := range changes {
		change(node)
	}
	s.Expect(s.Nodes().Create(s.Ctx, node)).To(Succeed())
	s.T.Cleanup(func() { s.Expect(client.IgnoreNotFound(s.Nodes().Delete(s.Ctx, node))).To(Succeed()) })
	s.SetReady(name, corev1.ConditionTrue, time.Hour)
	return node
}

// CreateUnhealthyNode creates a Node that has been unknown for ten minutes.
func (s *Stage) CreateUnhealthyNode(name string, changes ...func(*corev1.Node)) *corev1.Node {
	s.T.Helper()
	node := s.CreateNode(name, changes...)
	s.FailNode(name)
	return node
}

// CreateNodeCheck creates a NodeHealthCheck of all workers of the stage, in the workload cluster unless the manager watches all namespaces.
// It is deleted at the end of the test.
func (s *Stage) CreateNodeCheck(name string, changes ...func(*remedyv1.NodeHealthCheckSpec)) *remedyv1.NodeHealthCheck {
	s.T.Helper()
	c := &remedyv1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace + "-" + name}}
	if s.WatchFilter != "" {
		c.Labels = map[string]string{clusterv1.WatchLabel: s.WatchFilter}
	}
	if !s.AllNamespaces || s.workloadNodes {
		c.Spec.ClusterRef = &remedyv1.ClusterReference{Namespace: s.Namespace, Name: "prod"}
	}
	c.Spec.Selector = &remedyv1.Selector{MatchLabels: map[string]remedyv1.LabelValue{
		stageLabel: remedyv1.LabelValue(s.Namespace), "pool": "workers",
	}}
	for _, change := range changes {
		change(&c.Spec)
	}
	if c.Spec.RemediationTemplate == nil && len(c.Spec.EscalatingRemediations) == 0 {
		c.Spec.RemediationTemplate = s.CreateNodeTemplate(remediator.FenceAgents, name)
	}
	s.Create(c)
	return c
}

// CreateNodeTemplate creates a template and returns the reference of a NodeHealthCheck to it.
func (s *Stage) CreateNodeTemplate(kind remediator.Kind, name string) *remedyv1.NodeTemplateReference {
	s.T.Helper()
	s.Create(kind.NewTemplate(s.Namespace, name, map[string]any{"agent": "fence_ipmilan"}))
	return NodeTemplateReference(s, kind, name)
}

// NodeTemplateReference is the reference of a NodeHealthCheck to a template.
func NodeTemplateReference(s *Stage, kind remediator.Kind, name string) *remedyv1.NodeTemplateReference {
	return &remedyv1.NodeTemplateReference{
		Namespace:    s.Namespace,
		TemplateKind: remedyv1.TemplateKind{APIVersion: kind.GroupVersion().String(), Kind: kind.Template().Kind, Name: name},
	}
}

// NodeSteps escalates from one template to the next, ten minutes each.
func NodeSteps(templates ...*remedyv1.NodeTemplateReference) func(*remedyv1.NodeHealthCheckSpec) {
	return func(spec *remedyv1.NodeHealthCheckSpec) {
		for i, template := range templates {
			spec.EscalatingRemediations = append(spec.EscalatingRemediations, remedyv1.NodeEscalationStep{
				Order: int32(i + 1), RemediationTemplate: *template, Timeout: Duration(10 * time.Minute),
			})
		}
	}
}

// NodeChecks are the NodeHealthChecks of the stage.
func (s *Stage) NodeChecks() []remedyv1.NodeHealthCheck {
	s.T.Helper()
	all := &remedyv1.NodeHealthCheckList{}
	s.Expect(s.Admin.List(s.Ctx, all)).To(Succeed())
	var own []remedyv1.NodeHealthCheck
	for i := range all.Items {
		if strings.HasPrefix(all.Items[i].Name, s.Namespace+"-") {
			own = append(own, all.Items[i])
		}
	}
	return own
}

// reconciled are the NodeHealthChecks of the stage that its instance is responsible for.
func (s *Stage) reconciled() []remedyv1.NodeHealthCheck {
	s.T.Helper()
	return slices.DeleteFunc(s.NodeChecks(), func(c remedyv1.NodeHealthCheck) bool {
		ofNamespace := s.AllNamespaces || c.Spec.ClusterRef != nil && c.Spec.ClusterRef.Namespace == s.Namespace
		return !ofNamespace || !s.selects(&c)
	})
}

// OfNodes turns a function on MachineHealthChecks into one on NodeHealthChecks: both have the same status.
func OfNodes[T any](of func(*remedyv1.MachineHealthCheck) T) func(*remedyv1.NodeHealthCheck) T {
	return func(c *remedyv1.NodeHealthCheck) T { return of(asMachineCheck(c)) }
}

// NodeDecision is the decision of a NodeHealthCheck about a Node, and the reason why it is blocked.
func (s *Stage) NodeDecision(node string) func(*remedyv1.NodeHealthCheck) string {
	return OfNodes(Decision(s.NodeName(node)))
}

// asMachineCheck has the metadata and the common status of a NodeHealthCheck.
func asMachineCheck(c *remedyv1.NodeHealthCheck) *remedyv1.MachineHealthCheck {
	return &remedyv1.MachineHealthCheck{ObjectMeta: c.ObjectMeta, Status: remedyv1.MachineHealthCheckStatus{CheckStatus: c.Status.CheckStatus}}
}

// NodeRequest returns a function that reads the request for a Node; nil if there is none.
func (s *Stage) NodeRequest(kind remediator.Kind, node string) func() *unstructured.Unstructured {
	return s.Request(kind, s.NodeName(node))
}

// hasCurrentNodeRequests reports whether the instance has read the Nodes of NodeHealthChecks and their requests as they are.
func (c *Instance) hasCurrentNodeRequests() bool {
	s, checks := c.Stage, c.Stage.reconciled()
	if len(checks) == 0 {
		return true
	}
	cluster := Key(s.Namespace, "prod")
	if s.AllNamespaces {
		cluster = client.ObjectKey{}
	}
	live := &corev1.NodeList{}
	s.Expect(s.Nodes().List(s.Ctx, live, client.MatchingLabels{stageLabel: s.Namespace})).To(Succeed())
	known, err := c.Clusters.Get(cluster).Nodes(s.Ctx)
	if err != nil {
		// The test has broken the connection.
		return s.Proxy != nil
	}
	versions := map[string]string{}
	for _, node := range known {
		versions[node.Name] = node.ResourceVersion
	}
	for i := range live.Items {
		if versions[live.Items[i].Name] != live.Items[i].ResourceVersion {
			return false
		}
	}
	for _, kind := range remediator.Kinds() {
		if !c.KnownRequests.WasListed(kind.GroupVersionKind) {
			continue
		}
		for _, request := range s.Requests(kind) {
			seen, known := c.KnownRequests.Get(kind.GroupVersionKind, client.ObjectKeyFromObject(&request))
			if known && (seen == nil || seen.ResourceVersion != request.GetResourceVersion()) {
				return false
			}
		}
	}
	return true
}

// hasReadNodeKinds reports whether the requests of every kind that a NodeHealthCheck names were read.
func (c *Instance) hasReadNodeKinds() bool {
	for _, check := range c.Stage.reconciled() {
		if check.Spec.TemplateLocation == remedyv1.WorkloadLocation {
			continue
		}
		for _, kind := range remediator.Kinds() {
			names := check.Spec.RemediationTemplate != nil && check.Spec.RemediationTemplate.Kind == kind.Template().Kind
			for i := range check.Spec.EscalatingRemediations {
				names = names || check.Spec.EscalatingRemediations[i].RemediationTemplate.Kind == kind.Template().Kind
			}
			if names && !c.KnownRequests.WasListed(kind.GroupVersionKind) {
				return false
			}
		}
	}
	return true
}

// nodeCheckExists reports whether a NodeHealthCheck exists.
func (s *Stage) nodeCheckExists(name string) bool {
	err := s.Admin.Get(s.Ctx, client.ObjectKey{Name: name}, &remedyv1.NodeHealthCheck{})
	return !apierrors.IsNotFound(err)
}
