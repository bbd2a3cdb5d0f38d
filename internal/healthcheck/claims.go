// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/report"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// Claims returns the claims of the other checks of the same cluster, from the cache.
func (e *Environment) Claims(ctx context.Context, check *Check, cluster *clusterv1.Cluster) ([]Claim, error) {
	all, err := e.claimsOf(ctx, check, cluster)
	if err != nil {
		return nil, err
	}
	others, certain, err := e.otherNames(ctx, check.Cluster)
	if err != nil {
		return nil, err
	}
	same := *check
	for _, same.Cluster = range others {
		if cluster = nil; same.Cluster != workload.ManagementCluster {
			if cluster, err = ClusterOf(ctx, e.Cache, same.Cluster); err != nil {
				return nil, err
			}
		}
		more, err := e.claimsOf(ctx, &same, cluster)
		if err != nil {
			return nil, err
		}
		for i := range more {
			more[i].Deleting = more[i].Deleting || !certain
		}
		all = append(all, more...)
	}
	return all, nil
}

// otherNames returns the other names of a cluster, if the management cluster manages itself: checks without a Cluster and those of its
// Cluster monitor the same Nodes. These have the annotations that Cluster API sets on the Nodes of Machines. An instance of one namespace
// may lack the permission to read these Nodes, and does not reconcile checks without a Cluster. If the Nodes cannot be read, every Cluster
// may be the management cluster. No check without a Cluster starts anything then, and reports that. The checks of Clusters only wait for
// what it has started.
func (e *Environment) otherNames(ctx context.Context, cluster client.ObjectKey) (names []client.ObjectKey, certain bool, err error) {
	reads := func(claimant Claimant) bool {
		_, is := claimant.Object().(*remedyv1.NodeHealthCheck)
		return is
	}
	checks := &remedyv1.NodeHealthCheckList{}
	local := client.MatchingFields{ByCluster: workload.ManagementCluster.String()}
	if e.Namespace != "" || e.NoClusterAPI.Load() || !slices.ContainsFunc(e.Claimants, reads) {
		return nil, true, nil
	}
	if err := e.Cache.List(ctx, checks, local, client.UnsafeDisableDeepCopy); err != nil || len(checks.Items) == 0 {
		return nil, true, errors.Wrap(err, "failed to read the checks of the management cluster")
	}
	nodes, err := e.Clusters.Get(workload.ManagementCluster).Nodes(ctx)
	all := append(ClustersOfNodes(nodes), workload.ManagementCluster)
	switch {
	case err != nil && workload.ReadErrorReasonOf(err) == workload.NotReadYet:
		return nil, false, err
	case err == nil && !slices.Contains(all, cluster):
		return nil, true, nil
	}
	return slices.DeleteFunc(all, func(other client.ObjectKey) bool { return other == cluster }), err == nil, nil
}

// ClustersOfNodes are the Clusters in the annotations of Nodes, each once.
func ClustersOfNodes(nodes []*corev1.Node) []client.ObjectKey {
	var clusters []client.ObjectKey
	for _, node := range nodes {
		if key := ClusterOfNode(node); key.Name != "" && !slices.Contains(clusters, key) {
			clusters = append(clusters, key)
		}
	}
	return clusters
}

// ClusterOfNode is the Cluster in the annotations that Cluster API sets on the Node of a Machine; empty without.
func ClusterOfNode(node *corev1.Node) client.ObjectKey {
	return client.ObjectKey{
		Namespace: node.Annotations[clusterv1.ClusterNamespaceAnnotation], Name: node.Annotations[clusterv1.ClusterNameAnnotation],
	}
}

func (e *Environment) claimsOf(ctx context.Context, check *Check, cluster *clusterv1.Cluster) ([]Claim, error) {
	var all []Claim
	for _, claimant := range e.Claimants {
		// Without Cluster API there are no checks of it. With it, a kind that cannot be read stops the reconcile: another check may be
		// responsible.
		if e.leavesOut(claimant.Object()) {
			continue
		}
		claims, err := claimant.Claims(ctx, e.Cache, check, cluster)
		if err != nil {
			return nil, err
		}
		all = append(all, claims...)
	}
	return all, nil
}

// ClaimsOf returns the claims of the other checks of a kind, of those that Oldest returns. A newer check is compared with nothing: all its
// targets belong to older checks, unless it remediates them already.
func ClaimsOf[T any, P object[T]](checks []T, check *Check, claimOf func(P) Claim) []Claim {
	oldest, newer := Oldest[T, P](checks)
	all := make([]Claim, 0, len(oldest))
	for _, other := range oldest {
		if other.GetUID() != check.Object.GetUID() {
			all = append(all, claimOf(other))
		}
	}
	if slices.ContainsFunc(newer, func(other P) bool { return other.GetUID() == check.Object.GetUID() }) {
		all = append(all, Claim{
			Claim:   remediation.Claim{Rank: remediation.ForeignCheck},
			Title:   fmt.Sprintf("One of %d older checks", explain.MaxChecks),
			Selects: func(*Target) bool { return true },
		})
	}
	return all
}

type object[T any] interface {
	*T
	client.Object
}

// Oldest returns the checks of a Cluster, of one kind, that are compared with each other, and those that are newer. Every check is compared
// with all others, so their number has a limit.
func Oldest[T any, P object[T]](checks []T) (oldest, newer []P) {
	oldest = make([]P, len(checks))
	for i := range checks {
		oldest[i] = &checks[i]
	}
	if len(oldest) <= explain.MaxChecks {
		return oldest, nil
	}
	slices.SortFunc(oldest, func(a, b P) int {
		return cmp.Or(a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time), cmp.Compare(a.GetName(), b.GetName()))
	})
	return oldest[:explain.MaxChecks], oldest[explain.MaxChecks:]
}

// created reports whether the check has created a request. A cluster-scoped check has requests in certain namespaces only.
func (c *Claim) created(r *requests.Request) bool {
	return r.CreatedBy(c.Check, c.Label) && (c.Check.Namespace != "" || slices.Contains(c.Namespaces, r.Namespace))
}

// remediates reports whether a request for a target takes effect: it is in the namespace of the Machine, where providers look for it, or
// another check of the same cluster has created it. Every user could create one in another namespace.
func (s *snapshot) remediates(r *requests.Request, t *Target) bool {
	if t.Machine != nil && r.Namespace == t.Machine.Namespace && slices.Contains(r.Machines, t.Machine.UID) {
		return true
	}
	return slices.ContainsFunc(s.claims, func(c Claim) bool { return c.created(r) })
}

// holds reports whether another check remediates a target.
func (s *snapshot) holds(c *Claim, t *Target) bool {
	annotated := t.Object
	if t.Machine != nil {
		annotated = t.Machine
	}
	return slices.ContainsFunc(s.elsewhere[t.uid()], c.created) || c.InFlight[t.NodeTarget.Name] ||
		c.MarkedBy != "" && notes.ResponsibleCheck(annotated.GetAnnotations()) == c.MarkedBy
}

// responsible returns the other check that is responsible for a target; empty if this one is. A check that remediates a target stays
// responsible until the remediation has ended.
func (s *snapshot) responsible(t *Target, facts *remediation.Target) (claim remediation.Claim, title string) {
	var claims []remediation.Claim
	titles := map[remediation.Claim]string(nil)
	for i := range s.claims {
		c := &s.claims[i]
		claim := c.Claim
		claim.Holds = s.holds(c, t)
		if claim.Holds || !c.Deleting && c.Selects(t) {
			if titles == nil {
				titles = make(map[remediation.Claim]string, len(s.claims))
			}
			claims, titles[claim] = append(claims, claim), c.Title
		}
	}
	if len(claims) == 0 {
		return remediation.Claim{}, ""
	}
	own := s.check.Claim
	own.Observes, own.Holds = s.observes(), s.requestFor(t) != nil || facts.OwnerRemediation.MarkedByThis
	claim, _ = remediation.ResponsibleClaim(append(claims, own))
	if titles[claim] == "" {
		s.reportOverlaps(t, claims, titles)
	}
	return claim, titles[claim]
}

// reportOverlaps records which other checks select a target of this check. One that observes does not matter.
func (s *snapshot) reportOverlaps(t *Target, claims []remediation.Claim, titles map[remediation.Claim]string) {
	for _, claim := range claims {
		if claim.Observes {
			continue
		}
		if s.overlaps == nil {
			s.overlaps = map[string][]string{}
		}
		s.overlaps[titles[claim]] = append(s.overlaps[titles[claim]], t.name())
	}
}

// busyElsewhere returns the targets of the control plane that other checks remediate.
func (s *snapshot) busyElsewhere() []string {
	var busy []string
	for t := range s.all {
		if !t.ControlPlane {
			continue
		}
		held := len(s.elsewhere[t.uid()]) > 0
		if t.Machine != nil {
			mark := report.OwnerRemediation(t.Machine, s.check.MarkedBy())
			held = held || mark.Requested && !mark.Refused && !mark.MarkedByThis
		}
		for i := range s.claims {
			held = held || s.claims[i].InFlight[t.NodeTarget.Name]
		}
		if held {
			busy = append(busy, t.name())
		}
	}
	return busy
}
