// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// need is something that an evaluation reads.
type need struct {
	verbs     []string
	resource  schema.GroupResource
	namespace string
	name      string
	// without is what the answer lacks without the permission; empty if there is no answer without it.
	without string
}

// needs are what the evaluation of the checks of a Machine reads.
func needs(m *clusterv1.Machine) []need {
	namespace := m.Namespace
	watch := []string{"list", "watch"}
	inTree := func(resource string) schema.GroupResource {
		return schema.GroupResource{Group: clusterv1.GroupVersion.Group, Resource: resource}
	}
	ours := func(resource string) schema.GroupResource {
		return schema.GroupResource{Group: remedyv1.GroupVersion.Group, Resource: resource}
	}
	return []need{
		{verbs: watch, resource: inTree("machines"), namespace: namespace},
		{verbs: watch, resource: inTree("clusters"), namespace: namespace},
		{verbs: watch, resource: ours("machinehealthchecks"), namespace: namespace},
		{
			verbs: watch, resource: inTree("machinehealthchecks"), namespace: namespace,
			without: "MachineHealthChecks of Cluster API were not read: one of them may be responsible",
		},
		{
			verbs: watch, resource: ours("nodehealthchecks"),
			without: "NodeHealthChecks were not read: one of them may be responsible",
		},
		{
			verbs: []string{"get"}, resource: inTree("machinesets"), namespace: namespace,
			without: "MachineSets were not read: whether deleted Machines were replaced is unknown",
		},
		{
			verbs: []string{"get"}, resource: schema.GroupResource{Resource: "secrets"}, namespace: namespace,
			name:    m.Spec.ClusterName + "-kubeconfig",
			without: "the Nodes were not read: their health is unknown in this evaluation",
		},
	}
}

// missing returns the permission that the user lacks, as in "list and watch machines.cluster.x-k8s.io in namespace team-a".
func (c *Cluster) missing(ctx context.Context, n *need) (string, error) {
	var lacking []string
	for _, verb := range n.verbs {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: n.resource.Group, Resource: n.resource.Resource, Verb: verb, Namespace: n.namespace, Name: n.name,
			},
		}}
		if err := c.client.Create(ctx, review); err != nil {
			return "", readError(err, "the permissions of the user")
		}
		if !review.Status.Allowed {
			lacking = append(lacking, verb)
		}
	}
	if len(lacking) == 0 {
		return "", nil
	}
	text := strings.Join(lacking, " and ") + " " + n.resource.String()
	if n.name != "" {
		text += " " + n.name
	}
	if n.namespace != "" {
		text += " in namespace " + n.namespace
	}
	return text, nil
}
