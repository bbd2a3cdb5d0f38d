// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"context"
	"slices"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/annotations"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
)

// orphan is an orphaned target with the request for it. One of them can be nil.
type orphan struct {
	target  *Target
	request *requests.Request
}

// findOrphans finds requests and annotations of this check for targets that it no longer selects, or that no longer exist.
func (s *snapshot) findOrphans() []remediation.Orphan {
	s.orphans = nil
	if s.nodesUnread != nil || s.requestsUnread != nil {
		return nil
	}
	requested := map[types.UID]int{}
	var all []remediation.Orphan
	for _, r := range s.orphanedRequests() {
		for _, uid := range r.Subjects() {
			requested[uid] = len(all)
		}
		all = append(
			all,
			remediation.Orphan{
				Name:         r.Name,
				ControlPlane: r.ControlPlane,
				Gone:         true,
				Request:      r.Facts(s.check.Naming),
				Lease:        s.nodeLease(r.Node.Name, true),
			},
		)
		s.orphans = append(s.orphans, orphan{request: r})
	}
	for _, t := range s.others {
		left := s.recordsOn(t)
		left.Lease = s.nodeLease(t.NodeTarget.Name, false)
		at, found := 0, false
		for _, identity := range t.Subject.Identities() {
			if n, known := requested[identity]; known {
				at, found = n, true
			}
		}
		switch {
		case found:
			left.Request, left.Lease = all[at].Request, all[at].Lease
			left.Gone = s.orphans[at].request.OfEarlierNode(t.Subject)
			// The label can be removed during the remediation.
			left.ControlPlane = left.ControlPlane || all[at].ControlPlane
			all[at], s.orphans[at].target = left, t
		case left.Recorded() || left.Lease.HeldByThis:
			all, s.orphans = append(all, left), append(s.orphans, orphan{target: t})
		}
	}
	return all
}

// stillOrphaned returns an error if a live read shows that the target is paused, or that the check selects it again. An event of either
// follows.
func (p *scope) stillOrphaned(ctx context.Context, left *orphan) error {
	if p.check.ofNodes() && p.snapshot.clusterState() == remediation.ClusterIsMissing {
		// Its Nodes cannot be read.
		return nil
	}
	var name string
	if left.target != nil {
		name = left.target.name()
	} else {
		name = left.request.Name
	}
	t, selected, err := p.r.Source.Get(ctx, p.r.Live, p.snapshot.check, name)
	switch {
	case err != nil:
		return errors.Wrap(err, "failed to read the target live")
	case t == nil, !left.isFor(t):
		return nil
	case annotations.HasPaused(t.Object), selected:
		return errNotOrphaned
	}
	return nil
}

// isFor reports whether it concerns this target, and not an earlier one of the same name.
func (o *orphan) isFor(t *Target) bool {
	return o.target != nil && o.target.uid() == t.uid() || o.request != nil && o.request.IsFor(t.Subject)
}

// title returns the target for messages, or the request of one that no longer exists.
func (o *orphan) title() string {
	if o.target == nil {
		return o.request.String()
	}
	return o.target.title()
}

// errNotOrphaned is returned by writes for a target that is not orphaned now.
var errNotOrphaned = errors.New("the target is paused, or the check selects it again")

// orphanedRequests returns the requests of this check for targets that it does not select.
func (s *snapshot) orphanedRequests() []*requests.Request {
	if len(s.requests) == 0 {
		return nil
	}
	selected := make(map[types.UID]bool, len(s.targets))
	for _, t := range s.targets {
		for _, identity := range t.Subject.Identities() {
			selected[identity] = true
		}
	}
	var orphans []*requests.Request
	for _, r := range s.requests {
		if !slices.ContainsFunc(r.Subjects(), func(uid types.UID) bool { return selected[uid] }) {
			orphans = append(orphans, r)
		}
	}
	return orphans
}

// recordsOn returns what is annotated on a target that the check does not select. Any check that selects the target uses the history of its
// remediations, so it is removed only if none does.
func (s *snapshot) recordsOn(t *Target) remediation.Orphan {
	noted := t.Object.GetAnnotations()
	left := remediation.Orphan{
		Name: t.name(), ControlPlane: t.ControlPlane, Paused: annotations.HasPaused(t.Object),
		Marked: s.check.Signed(t.Object),
	}
	if s.check.ofNodes() && !slices.Contains(s.check.InFlight, t.name()) {
		// Nodes are not signed: a manager in another cluster may have written it.
		return left
	}
	for i := range s.claims {
		if c := &s.claims[i]; c.Rank == s.check.Claim.Rank && c.Selects(t) {
			return left
		}
	}
	left.History, left.NodeGoneSince = notes.History(noted), notes.NodeGoneSince(noted)
	return left
}
