// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/pkg/errors"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// need is something that an evaluation reads.
type need struct {
	verbs     []string
	resource  schema.GroupResource
	namespace string
	name      string
	// without is what the answer lacks without the permission; empty if there is no answer without it.
	without string
	// part is what is not read without the permission; the resource by default.
	part string
}

// permitted is what the user is allowed to read.
type permitted struct {
	// unread are the resources and parts that are not read.
	unread map[string]bool
	// lacking are the missing permissions, and failed other reasons for which something could not be read.
	lacking []lack
	failed  []string
	// refused are the permissions without which there is no answer.
	refused []string
}

// lack is missing permissions, and what the answer lacks without them.
type lack struct {
	permissions []string
	without     string
}

// lines returns what the user is not allowed to read, and what could not be read.
func (p *permitted) lines() []string {
	all := make([]string, 0, len(p.lacking)+len(p.failed))
	for _, l := range p.lacking {
		all = append(all, "You are not allowed to "+strings.Join(l.permissions, ", or to ")+": "+l.without)
	}
	return append(all, p.failed...)
}

// add adds a missing permission to those with the same consequence.
func (p *permitted) add(permission, without string) {
	at := slices.IndexFunc(p.lacking, func(l lack) bool { return l.without == without })
	if at < 0 {
		p.lacking = append(p.lacking, lack{[]string{permission}, without})
		return
	}
	if l := &p.lacking[at]; !slices.Contains(l.permissions, permission) {
		l.permissions = append(l.permissions, permission)
	}
}

// machinesOfSelf are the Machines and their checks, if this cluster manages itself: Nodes are evaluated without them, too.
const machinesOfSelf = "machines of this cluster"

// readable reports whether the user is allowed to read checks of a kind.
func (p *permitted) readable(check client.Object) bool {
	switch check.(type) {
	case *clusterv1.MachineHealthCheck:
		return !p.unread[inTreeKind] && !p.unread[machinesOfSelf]
	case *remedyv1.MachineHealthCheck:
		return !p.unread[machinesOfSelf]
	case *remedyv1.NodeHealthCheck:
		return !p.unread[nodeChecks.String()]
	}
	return true
}

var (
	listAndWatch = []string{"list", "watch"}
	nodeChecks   = schema.GroupResource{Group: remedyv1.GroupVersion.Group, Resource: "nodehealthchecks"}
	nodes        = schema.GroupResource{Resource: "nodes"}
)

// needsOfSelf is what shows whether this cluster manages itself.
var needsOfSelf = []need{{
	verbs: listAndWatch, resource: nodes,
	without: "the Nodes of this cluster were not read: if it manages itself, a NodeHealthCheck without clusterRef may be responsible",
}}

// needs are what the evaluation of the checks of a target reads.
func needs(t *target) []need {
	cluster := t.capi()
	all := []need{{
		verbs: listAndWatch, resource: nodeChecks, without: "NodeHealthChecks were not read: one of them may be responsible",
	}}
	if t.machine == nil {
		// Only NodeHealthChecks select it.
		all[0].without = ""
	}
	if t.cluster == workload.ManagementCluster {
		all = append(all, need{verbs: listAndWatch, resource: nodes})
	}
	if cluster.Name == "" {
		return all
	}
	without, part, ofInTree := "", "", "MachineHealthChecks of Cluster API were not read: one of them may be responsible"
	if t.cluster == workload.ManagementCluster {
		without, part = "the checks of Cluster "+cluster.String()+" were not read: one of them may be responsible", machinesOfSelf
	}
	inTree := func(resource string) schema.GroupResource {
		return schema.GroupResource{Group: clusterv1.GroupVersion.Group, Resource: resource}
	}
	all = append([]need{
		{verbs: listAndWatch, resource: inTree("machines"), namespace: cluster.Namespace, without: without, part: part},
		{verbs: listAndWatch, resource: inTree("clusters"), namespace: cluster.Namespace, without: without, part: part},
		{
			verbs: listAndWatch, resource: schema.GroupResource{Group: remedyv1.GroupVersion.Group, Resource: "machinehealthchecks"},
			namespace: cluster.Namespace, without: without, part: part,
		},
		{
			verbs: listAndWatch, resource: inTree("machinehealthchecks"), namespace: cluster.Namespace,
			without: cmp.Or(without, ofInTree),
		},
	}, all...)
	if t.machine != nil {
		all = append(all, need{
			verbs: []string{"get"}, resource: inTree("machinesets"), namespace: cluster.Namespace,
			without: "MachineSets were not read: whether deleted Machines were replaced is unknown",
		})
	}
	if t.cluster != workload.ManagementCluster {
		all = append(all, kubeconfigOf(cluster))
	}
	return all
}

func kubeconfigOf(cluster client.ObjectKey) need {
	return need{
		verbs: []string{"get"}, resource: schema.GroupResource{Resource: "secrets"}, namespace: cluster.Namespace,
		name:    cluster.Name + "-kubeconfig",
		without: "the Nodes were not read: their health is unknown in this evaluation",
	}
}

// needsOfTemplates are what the evaluation of a check reads of its templates and requests. namespace is the one that is read, or empty.
func (c *Cluster) needsOfTemplates(check *healthcheck.Check, namespace string) []need {
	var all []need
	if check.Place == requests.InWorkload {
		return nil
	}
	for _, template := range check.Templates {
		for kind, without := range map[schema.GroupVersionKind]string{
			template.TemplateKind(): "templates were not read: this evaluation assumes that they are valid",
			template.RequestKind(): "remediation requests were not read: this evaluation assumes that there are none, " +
				"and Reported has the decision of the manager",
		} {
			// The evaluation reports a kind that is not served.
			if mapping, err := c.client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version); err == nil {
				all = append(all, need{
					verbs: []string{"get", "list", "watch"}, resource: mapping.Resource.GroupResource(), namespace: namespace, without: without,
				})
			}
		}
	}
	return all
}

// permit adds which of the needs the user is not allowed to read.
func (c *Cluster) permit(ctx context.Context, p *permitted, all ...need) error {
	for i := range all {
		n := &all[i]
		lacking, err := c.missing(ctx, n)
		switch {
		case err != nil:
			return err
		case lacking == "":
		case n.without == "":
			p.refused = append(p.refused, lacking)
		default:
			p.unread[cmp.Or(n.part, n.resource.String())] = true
			p.add(lacking, n.without)
		}
	}
	return nil
}

// permissions returns what the user is allowed to read of a target.
func (c *Cluster) permissions(ctx context.Context, t *target) (*permitted, error) {
	p := &permitted{unread: map[string]bool{}}
	if err := c.permit(ctx, p, needs(t)...); err != nil {
		return nil, err
	}
	if len(p.refused) > 0 {
		return nil, errors.Errorf("failed to evaluate %s: you are not allowed to %s. Ask an administrator for these permissions",
			t, strings.Join(p.refused, ", or to "))
	}
	return p, nil
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
	if len(lacking) > 2 {
		text = strings.Join(lacking[:len(lacking)-1], ", ") + " and " + lacking[len(lacking)-1] + " " + n.resource.String()
	}
	if n.name != "" {
		text += " " + n.name
	}
	if n.namespace != "" {
		text += " in namespace " + n.namespace
	}
	return text, nil
}
