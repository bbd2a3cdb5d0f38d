// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/clusterapi"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// read reads the snapshot of a check from caches. It must not be changed.
func (p *scope) read(ctx context.Context, cluster *clusterv1.Cluster) (*snapshot, error) {
	r, check := p.r, p.check
	s := &snapshot{source: r.Source, check: check, cluster: cluster, observe: r.Observe, adopts: r.Adoption != nil}
	if err := p.readTargets(ctx, s); err != nil {
		return nil, err
	}
	// Where there are no targets, no check is responsible for any.
	if len(s.targets)+len(s.others) > 0 {
		if err := p.readClaims(ctx, s); err != nil {
			return nil, err
		}
	}
	workloads := r.Clusters.Get(check.Cluster)
	s.connection = workloads.Connection(ctx)
	if !check.ofNodes() {
		for i, reading := range workloads.Read(ctx, s.readRequest(s.targets)) {
			s.targets[i].Reading = reading
		}
	}
	s.pending = s.connecting()
	if s.unreleased, p.record.unreleased = p.record.unreleased, ""; s.unreleased != "" {
		s.requeueAt(p.now.Add(remediation.RetryTime))
	}
	s.pauseEnds = p.record.observePauses(s.targets, p.now)
	var until time.Time
	if s.missing, until = p.record.observeTargets(len(s.targets), p.now); s.missing > 0 {
		s.requeueAt(until)
	}
	s.nodeGoneSince, s.blockedAt, s.unhealthyAt = p.record.nodeGoneSince, p.record.blockedAt, p.record.unhealthyAt
	if err := p.readRequests(ctx, s); err != nil {
		return nil, err
	}
	p.record.readRequests(s, p.now)
	p.addUnreadTargets(s)
	p.readNodeLeases(ctx, s)
	p.readOwners(ctx, s)
	if until := p.record.awaitFirstRead(s.pending, p.now); !until.IsZero() {
		s.requeueTime = until
		return s, errNotReadYet
	}
	return s, nil
}

// readClaims reads which other checks select the targets.
func (p *scope) readClaims(ctx context.Context, s *snapshot) (err error) {
	if s.claims, err = p.r.Claims(ctx, s.check, s.cluster); err != nil || p.r.Others == nil || s.nodesUnread != nil {
		return err
	}
	s.ownClaims = len(s.claims)
	p.addOtherClaims(ctx, s, p.now, false)
	return nil
}

// addOtherClaims replaces the claims of another project.
func (p *scope) addOtherClaims(ctx context.Context, s *snapshot, now time.Time, live bool) (unread string) {
	others := p.r.Others.Claims(ctx, s.check, now, live)
	s.claims = append(slices.Clip(s.claims[:s.ownClaims]), others.Claims...)
	s.requeueAt(others.Again)
	if s.claimsForbidden = ""; others.Forbidden {
		s.claimsForbidden = others.Unread + "; " + p.permission()
	}
	return others.Unread
}

// readTargets reads the targets, and the Nodes where these are the targets. If they cannot be read, the targets are those of the last read,
// each of them unreadable: Nodes that are not found in a cluster that does not respond still exist.
func (p *scope) readTargets(ctx context.Context, s *snapshot) (err error) {
	if s.check.ofNodes() && s.clusterState() == remediation.ClusterIsMissing {
		return nil
	}
	s.targets, s.others, err = p.r.Source.Targets(ctx, p.r.Cache, s.check, false)
	var unread *workload.ReadError
	switch {
	case errors.As(err, &unread):
		s.nodesUnread, s.others, s.nodesUnknown = unread, nil, len(p.record.lastNodes) == 0
		for _, t := range p.record.lastNodes {
			s.targets = append(s.targets, unreadTarget(t, unread))
		}
		return nil
	case err == nil && s.check.ofNodes():
		p.record.lastNodes = s.targets
	}
	return err
}

// addUnreadTargets adds the Nodes of requests, if Nodes cannot be read and were not read before.
func (p *scope) addUnreadTargets(s *snapshot) {
	if s.nodesUnread == nil {
		return
	}
	for _, r := range s.orphanedRequests() {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.Node.Name, UID: r.Node.UID}}
		s.targets = append(s.targets, unreadTarget(&Target{
			Object: node, ControlPlane: r.ControlPlane, NodeTarget: workload.Target{Name: node.Name},
			Subject: requests.OfNode(r.Node, requests.Object{}),
		}, s.nodesUnread))
	}
	slices.SortFunc(s.targets, func(a, b *Target) int { return cmp.Compare(a.name(), b.name()) })
}

func unreadTarget(t *Target, err error) *Target {
	unread := *t
	unread.Reading = workload.Reading{Err: err}
	return &unread
}

// readRequest returns what to read for targets.
func (s *snapshot) readRequest(targets []*Target) workload.ReadRequest {
	q := workload.ReadRequest{Initialized: s.initialized(), Targets: make([]workload.Target, len(targets)), Known: s.known}
	for i, t := range targets {
		q.Targets[i] = t.NodeTarget
	}
	return q
}

// known iterates over the Nodes of all targets of the Cluster.
func (s *snapshot) known(yield func(workload.Target) bool) {
	for t := range s.all {
		if !yield(t.NodeTarget) {
			return
		}
	}
}

// connecting reports whether the Nodes are being read for the first time.
func (s *snapshot) connecting() bool {
	if !s.initialized() {
		return false
	}
	if !s.connection.Up && s.connection.LastSeen.IsZero() && workload.ReadErrorReasonOf(s.connection.Err) == workload.NotConnected {
		return true
	}
	return workload.ReadErrorReasonOf(s.nodesUnread) == workload.NotReadYet || slices.ContainsFunc(s.targets, func(t *Target) bool {
		return t.Reading.Err != nil && workload.ReadErrorReasonOf(t.Reading.Err) == workload.NotReadYet
	})
}

// readRequests finds the requests of this check, and the templates from which it can create more.
func (p *scope) readRequests(ctx context.Context, s *snapshot) error {
	s.unresolved = map[requests.Reference]bool{}
	p.requests = p.r.Requests
	var err error
	if s.check.Place == requests.InWorkload && s.clusterState() == remediation.ClusterIsMissing {
		// clusterctl move deletes a Cluster whose requests another manager continues.
		err = errClusterMissing
	} else {
		p.requests, err = p.r.requestsOf(ctx, s.check)
	}
	if err == nil && s.check.Place == requests.InWorkload && workload.ReadErrorReasonOf(s.nodesUnread) == workload.WrongCluster {
		// Another cluster does not have them.
		err = s.nodesUnread
	}
	if err != nil {
		p.keepRequests(s, err)
		return nil
	}
	resolved := p.requests.Resolve(ctx, s.check.ID, s.check.Object.GetAnnotations()[remedyv1.RequestPluralsAnnotation], s.check.Templates...)
	for i := range resolved {
		one := &resolved[i]
		if why := p.wrongPlace(ctx, s, one.Reference); why != "" {
			one.Problem = &explain.TemplateProblem{
				Reason: remedyv1.WrongLocationReason, Template: s.check.Naming.Text(one.Reference), Detail: why,
			}
		}
		s.unresolved[one.Reference] = !one.Usable()
		if one.Problem != nil {
			s.templates = append(s.templates, *one.Problem)
		}
		s.requeueAt(one.Again)
		var unknown *requests.NotKnownError
		if errors.As(one.Err, &unknown) {
			s.pending = true
		} else if one.Err != nil {
			s.requeueAt(p.now.Add(remediation.RetryTime))
		}
	}
	if err := p.readOwn(ctx, s); err != nil {
		return err
	}
	if s.check.Place == requests.InWorkload {
		// These are not watched.
		if len(s.unread) > 0 {
			read := func(r *requests.Request) bool {
				return slices.ContainsFunc(s.requests, func(now *requests.Request) bool { return now.UID == r.UID })
			}
			s.setRequests(append(s.requests, slices.DeleteFunc(slices.Clone(p.record.lastRequests), read)...))
		}
		if p.record.lastRequests = s.requests; len(s.requests) > 0 {
			s.requeueAt(p.now.Add(cmp.Or(p.r.PollInterval, pollTime)))
		}
	}
	s.readNames(p.requests, p.r.Requests)
	return nil
}

// wrongPlace returns why requests from a template would not reach their targets; empty if they do. In a self-hosted cluster, the Nodes of
// Machines are Nodes of the management cluster, too.
func (p *scope) wrongPlace(ctx context.Context, s *snapshot, template requests.Reference) string {
	why := template.WrongPlace(s.check.Place, s.check.ofNodes(), s.check.Cluster)
	if why == "" || s.check.ofNodes() || s.cluster == nil || !template.FindsNodeOfMachine() {
		return why
	}
	if p.record.selfHosted != s.cluster.UID {
		for _, t := range s.targets {
			if t.Reading.Node == nil {
				continue
			}
			node := &corev1.Node{}
			err := p.r.Live.Get(ctx, client.ObjectKey{Name: t.Reading.Node.Name}, node)
			if err != nil || node.UID == "" || node.UID != t.Reading.Node.UID {
				return why
			}
			p.record.selfHosted = s.cluster.UID
			break
		}
	}
	if p.record.selfHosted == s.cluster.UID {
		return ""
	}
	return why
}

// errClusterMissing is why the requests in a workload cluster are not read.
var errClusterMissing = errors.New("the Cluster no longer exists")

// pollTime is the time between two reads of the requests in a workload cluster, where they are not watched. Those that were just created
// are read earlier, so that the status shows them to other checks.
const (
	pollTime       = 10 * time.Second
	firstReadDelay = time.Second
)

// keepRequests uses the requests of the last read, because the workload cluster with the requests cannot be read. If its Cluster no longer
// exists, there is nothing left to clean up.
func (p *scope) keepRequests(s *snapshot, err error) {
	s.requestsUnread = err
	s.setRequests(nil)
	if s.clusterState() == remediation.ClusterIsMissing {
		return
	}
	s.setRequests(p.record.lastRequests)
	s.unknown, s.unread = true, append(s.unread, "requests in the workload cluster: "+cause(s.requestsUnread))
	for _, template := range s.check.Templates {
		s.unresolved[template] = true
	}
	s.requeueAt(p.now.Add(remediation.RetryTime))
}

// readNames finds the objects with the names of requests that could be created, and the other checks with requests for the same targets.
func (s *snapshot) readNames(all, management *requests.Requests) {
	s.nameConflicts, s.elsewhere, s.adoptable = map[string]string{}, map[types.UID][]*requests.Request{}, map[types.UID]*requests.Request{}
	asks, next := len(s.check.Templates) > 0, s.nextTemplates()
	for _, t := range s.targets {
		if asks && s.requestFor(t) == nil {
			s.readName(t, next(t), all)
		}
		if len(s.claims) == 0 {
			continue
		}
		s.elsewhere[t.uid()] = s.requestedElsewhere(t, all, management)
	}
	for _, t := range s.others {
		if t.ControlPlane && len(s.claims) > 0 {
			s.elsewhere[t.uid()] = s.requestedElsewhere(t, all, management)
		}
	}
}

// readName finds an object with the name of a request that a target can get next.
func (s *snapshot) readName(t *Target, next []requests.Reference, all *requests.Requests) {
	if earlier := s.earlierRequest(t); earlier != nil {
		s.nameConflicts[t.name()] = earlier.String()
		return
	}
	for _, template := range next {
		key := client.ObjectKey{Namespace: template.Namespace, Name: t.name()}
		if found, known := all.Get(template.RequestKind(), key); known && found != nil && s.conflicts(found, t, next) {
			s.nameConflicts[t.name()] = s.nameOf(found)
			if s.adopts && found.Adoptable(t.Subject.Machine, s.check.Templates[0]) {
				s.adoptable[t.uid()] = found
			}
			return
		}
	}
}

// requestedElsewhere returns the requests of other checks for a target. Those for the Machine of a Node are in the management cluster.
func (s *snapshot) requestedElsewhere(t *Target, all, management *requests.Requests) []*requests.Request {
	found := all.ForTarget(t.Subject)
	if t.Subject.OfNode && t.Machine != nil {
		machine := requests.Object{Name: t.Machine.Name, UID: t.Machine.UID}
		found = append(found, management.ForTarget(requests.OfMachine(machine, requests.Object{}))...)
	}
	return slices.DeleteFunc(found, func(r *requests.Request) bool { return s.check.created(r) || !s.remediates(r, t) })
}

// readOwners reads the owners that replace deleted targets. Usually there are none. The Machines that an unreadable owner replaces count as
// being replaced until the replacement times out.
func (p *scope) readOwners(ctx context.Context, s *snapshot) {
	asked := map[string]bool{}
	for _, gone := range notes.Replacing(s.check.Object.GetAnnotations()) {
		kind, name, _ := strings.Cut(gone.Owner, "/")
		if asked[gone.Owner] || kind != "MachineSet" {
			continue
		}
		asked[gone.Owner] = true
		owner := &clusterv1.MachineSet{}
		err := p.r.Live.Get(ctx, client.ObjectKey{Namespace: s.check.Cluster.Namespace, Name: name}, owner)
		if apierrors.IsNotFound(err) {
			// An owner that no longer exists replaces nothing.
			s.owners = append(s.owners, remediation.Owner{Name: gone.Owner})
			continue
		}
		if err != nil {
			s.unreadOwners = append(s.unreadOwners, gone.Owner+": "+cause(err))
			s.requeueAt(p.now.Add(remediation.RetryTime))
			continue
		}
		desired := 1
		if owner.Spec.Replicas != nil {
			desired = int(*owner.Spec.Replicas)
		}
		s.owners = append(s.owners, remediation.Owner{Name: gone.Owner, Desired: desired, WithNode: s.joined(gone.Owner)})
	}
}

// joined counts the Machines of an owner that have a Node and are not being deleted.
func (s *snapshot) joined(owner string) int {
	n := 0
	for t := range s.all {
		m := t.Machine
		if m != nil && clusterapi.RemediatingOwner(m) == owner && m.Status.NodeRef.Name != "" && m.DeletionTimestamp.IsZero() {
			n++
		}
	}
	return n
}

// adoptRequests adopts requests that the in-tree controller has created for an adopted check. A check that is being deleted adopts none:
// the in-tree controller may be responsible for it until then, and would create a deleted request again.
func (p *scope) adoptRequests(ctx context.Context) error {
	s := p.snapshot
	if s.observes() || s.check.deleting() || len(s.adoptable) == 0 {
		return nil
	}
	var failed []error
	for _, t := range s.targets {
		request := s.adoptable[t.uid()]
		ofInTree := func(c Claim) bool { return c.InTree && c.Selects(t) }
		if request == nil || annotations.HasPaused(t.Object) || slices.ContainsFunc(s.claims, ofInTree) {
			continue
		}
		if obstacle, err := p.Obstacle(ctx); err != nil || obstacle != nil {
			return utilerrors.NewAggregate(append(failed, err))
		}
		adopts, err := p.r.Adoption.AdoptsRequest(ctx, s.check, s.cluster, t)
		if err != nil {
			return utilerrors.NewAggregate(append(failed, err))
		}
		if adopts {
			failed = append(failed, p.requests.Adopt(ctx, request, s.check.ID, s.check.Policy.Steps[0].ID.Order))
		}
	}
	return utilerrors.NewAggregate(failed)
}
