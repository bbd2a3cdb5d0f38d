// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"cmp"
	"context"
	"fmt"
	"maps"
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
	others, err := e.otherNames(ctx, check.Cluster)
	if err != nil {
		return nil, err
	}
	same := *check
	for _, other := range others {
		same.Cluster = other.key
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
			more[i].Deleting = more[i].Deleting || !other.certain
		}
		all = append(all, more...)
	}
	return all, nil
}

// otherName is another name of a cluster; one that is not certain may be another cluster.
type otherName struct {
	key     client.ObjectKey
	certain bool
}

// otherNames returns the other names of a cluster, if the management cluster manages itself: checks without a Cluster and those of its
// Cluster monitor the same Nodes. An instance of one namespace may lack the permission to read these Nodes, and does not reconcile checks
// without a Cluster. If the Nodes cannot be read, every Cluster may be the management cluster. No check without a Cluster starts anything
// then, and reports that. The checks of Clusters only wait for what it has started.
func (e *Environment) otherNames(ctx context.Context, cluster client.ObjectKey) ([]otherName, error) {
	reads := func(claimant Claimant) bool {
		_, is := claimant.Object().(*remedyv1.NodeHealthCheck)
		return is
	}
	checks := &remedyv1.NodeHealthCheckList{}
	local := client.MatchingFields{ByCluster: workload.ManagementCluster.String()}
	if e.Namespace != "" || e.OwnNodesForbidden || e.NoClusterAPI.Load() || !slices.ContainsFunc(e.Claimants, reads) {
		return nil, nil
	}
	if err := e.Cache.List(ctx, checks, local, client.UnsafeDisableDeepCopy); err != nil || len(checks.Items) == 0 {
		return nil, errors.Wrap(err, "failed to read the checks of the management cluster")
	}
	nodes, err := e.Clusters.Get(workload.ManagementCluster).Nodes(ctx)
	switch {
	case err != nil && workload.ReadErrorReasonOf(err) == workload.NotReadYet:
		return nil, err
	case err != nil && cluster == workload.ManagementCluster:
		return nil, nil
	case err != nil:
		return []otherName{{key: workload.ManagementCluster}}, nil //nolint:nilerr // It is a name that is not certain.
	}
	own, err := e.ownClusters(ctx, nodes)
	if err != nil {
		return nil, err
	}
	unread, is := own[cluster]
	if !is && cluster != workload.ManagementCluster {
		return nil, nil
	}
	own[workload.ManagementCluster] = nil
	var names []otherName
	for _, key := range slices.SortedFunc(maps.Keys(own), func(a, b client.ObjectKey) int { return cmp.Compare(a.String(), b.String()) }) {
		if key != cluster && (unread == nil || key == workload.ManagementCluster) {
			names = append(names, otherName{key, unread == nil && own[key] == nil})
		}
	}
	return names, nil
}

// ownClusters returns those of the Clusters in the annotations of Nodes of the management cluster that are the management cluster itself,
// and with an error those whose Nodes cannot be read. A kubelet can write any Cluster on its own Node, so the UID of a Node has to be the
// same in both.
func (e *Environment) ownClusters(ctx context.Context, nodes []*corev1.Node) (map[client.ObjectKey]error, error) {
	own := map[client.ObjectKey]error{}
	for _, key := range ClustersOfNodes(nodes) {
		cluster, err := ClusterOf(ctx, e.Cache, key)
		if err != nil {
			return nil, err
		}
		// The Nodes of a management cluster usually name a Cluster that another management cluster has.
		if cluster == nil {
			continue
		}
		if same, err := e.Clusters.Get(key).Nodes(ctx); err != nil || haveNodeInCommon(nodes, same) {
			own[key] = err
		}
	}
	return own, nil
}

// MachinesOf returns the Machines of Nodes by the names of the Nodes, from the cache or live. In the management cluster there are some if
// it manages itself: then its Nodes have the annotations of Cluster API, and Machines refer to them. unread is why it is unknown whether a
// Machine is that of the Node.
func (e *Environment) MachinesOf(
	ctx context.Context, reader client.Reader, cluster client.ObjectKey, nodes []*corev1.Node, live bool,
) (all map[string]*clusterv1.Machine, unread map[string]error, err error) {
	if e.NoClusterAPI.Load() {
		return nil, nil, nil
	}
	clusters, annotated := map[client.ObjectKey]error{cluster: nil}, map[string]client.ObjectKey{}
	if cluster == workload.ManagementCluster {
		if clusters, err = e.ownClusters(ctx, nodes); err != nil {
			return nil, nil, err
		}
		for _, node := range nodes {
			annotated[node.Name] = ClusterOfNode(node)
		}
	}
	all, unread = map[string]*clusterv1.Machine{}, map[string]error{}
	for key, unreadCluster := range clusters {
		list := &clusterv1.MachineList{}
		if err := reader.List(ctx, list, MachinesInCluster(key, live)...); err != nil {
			return nil, nil, errors.Wrap(err, "failed to read the Machines")
		}
		for i := range list.Items {
			machine := &list.Items[i]
			name := machine.Status.NodeRef.Name
			if name != "" && (cluster != workload.ManagementCluster || annotated[name] == key) && hasNode(machine, all[name]) {
				all[name] = machine
				if unreadCluster != nil {
					unread[name] = workload.UnreadCluster(key, unreadCluster)
				}
			}
		}
	}
	return all, unread, nil
}

// haveNodeInCommon reports whether a Node has the same UID in both lists, which are sorted by name.
func haveNodeInCommon(nodes, others []*corev1.Node) bool {
	return slices.ContainsFunc(nodes, func(node *corev1.Node) bool {
		i, found := slices.BinarySearchFunc(others, node.Name, func(n *corev1.Node, name string) int { return cmp.Compare(n.Name, name) })
		return found && node.UID == others[i].UID
	})
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
