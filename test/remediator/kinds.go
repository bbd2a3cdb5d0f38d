// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package remediator plays remediators that do what the real ones do, also where that is unkind: those of infrastructure providers find a
// Machine by the owner of the request and report a phase, and those of medik8s find a Node and report conditions. They own finalizers, hang
// where the real ones hang, and do one step at a time, when the test calls Act. By its Outcome, a test decides whether the timeouts of a
// remediator are over. It does not play what happens on a Node. Start at Remediator; traits has what differs between those of medik8s.
// Package conform verifies other remediators.
package remediator

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// Kind is a kind of requests, and with it the kind of their templates.
type Kind struct {
	schema.GroupVersionKind
	// Plural is that of the requests.
	Plural string
	// Cluster: requests are not namespaced. TemplateCluster: templates are not.
	Cluster, TemplateCluster bool
}

// The kinds of real remediators, as far as the contract goes.
var (
	Metal3          = NewKind("infrastructure.cluster.x-k8s.io", "v1beta1", "Metal3Remediation")
	FenceAgents     = NewKind("fence-agents-remediation.medik8s.io", "v1alpha1", "FenceAgentsRemediation")
	SelfNode        = NewKind("self-node-remediation.medik8s.io", "v1alpha1", "SelfNodeRemediation")
	MachineDeletion = NewKind("machine-deletion-remediation.medik8s.io", "v1alpha1", "MachineDeletionRemediation")
	StorageBased    = NewKind("storage-based-remediation.medik8s.io", "v1alpha1", "StorageBasedRemediation")
	CustomizedUser  = NewKind("customized-user-remediation.medik8s.io", "v1alpha1", "CustomizedUserRemediation")
	HCloud          = NewKind("infrastructure.cluster.x-k8s.io", "v1beta1", "HCloudRemediation")
	HetznerServer   = NewKind("infrastructure.cluster.x-k8s.io", "v1beta1", "HetznerBareMetalRemediation")
)

// Example is a remediator that keeps all points of the contract, in the cluster of the check: no real one does.
var Example = NewKind("remediation.example.com", "v1", "RebootRemediation")

// Kinds are all of them.
func Kinds() []Kind { return append(Medik8s(), Metal3, HCloud, HetznerServer, Example) }

// Medik8s are the kinds of medik8s.
func Medik8s() []Kind {
	return []Kind{FenceAgents, SelfNode, MachineDeletion, StorageBased, CustomizedUser}
}

// NewKind is a kind with the plural that such a kind usually has.
func NewKind(group, version, kind string) Kind {
	return Kind{GroupVersionKind: schema.GroupVersionKind{Group: group, Version: version, Kind: kind}, Plural: strings.ToLower(kind) + "s"}
}

// Template is the kind of the templates.
func (k Kind) Template() schema.GroupVersionKind {
	return k.GroupVersion().WithKind(k.Kind + "Template")
}

// TemplatePlural is what templates are called in roles.
func (k Kind) TemplatePlural() string { return strings.ToLower(k.Kind) + "templates" }

// CRDs are the definitions of requests and of templates.
func (k Kind) CRDs() []*apiextensionsv1.CustomResourceDefinition {
	return []*apiextensionsv1.CustomResourceDefinition{k.RequestCRD(), k.TemplateCRD()}
}

// RequestCRD defines the requests.
func (k Kind) RequestCRD() *apiextensionsv1.CustomResourceDefinition {
	return k.definition(k.Kind, k.Plural, k.Cluster)
}

// TemplateCRD defines the templates.
func (k Kind) TemplateCRD() *apiextensionsv1.CustomResourceDefinition {
	return k.definition(k.Template().Kind, k.TemplatePlural(), k.TemplateCluster)
}

func (k Kind) definition(kind, plural string, cluster bool) *apiextensionsv1.CustomResourceDefinition {
	scope := apiextensionsv1.NamespaceScoped
	if cluster {
		scope = apiextensionsv1.ClusterScoped
	}
	open := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name:   plural + "." + k.Group,
			Labels: map[string]string{"cluster.x-k8s.io/v1beta2": k.Version, "clusterctl.cluster.x-k8s.io": ""},
		},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: k.Group, Scope: scope,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Kind: kind, ListKind: kind + "List", Plural: plural, Singular: strings.ToLower(kind),
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: k.Version, Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": open, "status": open},
				}},
			}},
		},
	}
}

// Rules are the permissions for requests and templates that a health check needs.
func (k Kind) Rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{k.Group}, Resources: []string{k.Plural}, Verbs: []string{"get", "list", "watch", "create", "patch", "delete"}},
		{APIGroups: []string{k.Group}, Resources: []string{k.TemplatePlural()}, Verbs: []string{"get", "list", "watch"}},
	}
}

// ClusterRole is what the author of the remediator ships, so that health checks get these permissions.
func (k Kind) ClusterRole() *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{
			Name:   k.Plural + ".remediator",
			Labels: map[string]string{remedyv1.AggregateToManagerLabel: "true", remedyv1.AggregateToRemediationLabel: "true"},
		},
		Rules: k.Rules(),
	}
}

// NewTemplate is a template whose requests have this spec.
func (k Kind) NewTemplate(namespace, name string, spec map[string]any) *unstructured.Unstructured {
	template := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": spec}}}}
	template.SetGroupVersionKind(k.Template())
	template.SetNamespace(namespace)
	template.SetName(name)
	return template
}

// NewRequest is a request as a stranger would make it: without a word on who made it.
func (k Kind) NewRequest(namespace, name string) *unstructured.Unstructured {
	request := &unstructured.Unstructured{Object: map[string]any{}}
	request.SetGroupVersionKind(k.GroupVersionKind)
	request.SetNamespace(namespace)
	request.SetName(name)
	return request
}
