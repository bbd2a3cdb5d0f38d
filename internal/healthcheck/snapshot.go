// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// snapshot is everything that was read for a reconcile: from caches, or live for some of the targets. After the
// read, only requeueTime changes, and facts sets overlaps and orphans.
type snapshot struct {
	source Source
	check  *Check
	// observe: the manager only observes.
	observe bool
	// adopts: requests that the manager did not create may be adopted.
	adopts bool
	// cluster is nil if it does not exist.
	cluster    *clusterv1.Cluster
	connection workload.Connection
	// targets are those that the check selects, by name, with their Nodes. others are those of the Cluster that it does not select.
	targets, others []*Target
	// requests are those of this check, and byTarget the first of each target.
	requests []*requests.Request
	byTarget map[types.UID]*requests.Request
	// kinds are those of which it may have requests.
	kinds []schema.GroupVersionKind
	// unknown: the requests of a kind that the check names were never read. unread are the reasons for which some could not be read.
	unknown bool
	unread  []string
	// pending: a first read is not complete.
	pending bool
	// adoptable are requests that the manager did not create, by target.
	adoptable map[types.UID]*requests.Request
	// nameConflicts are objects with the name of a request that the check would create, by the name of the target.
	nameConflicts map[string]string
	// claims are the other checks of the Cluster, first the ownClaims of Remedy and of Cluster API, and elsewhere their requests for each
	// target. claimsForbidden is which permission to read others is missing, if one is.
	claims          []Claim
	ownClaims       int
	claimsForbidden string
	// unreleased is a Lease that the last reconcile could not release, and why; empty if there is none to report.
	unreleased string
	elsewhere  map[types.UID][]*requests.Request
	// overlaps are the targets that other checks select, too, and that this check is responsible for, by the other check.
	overlaps  map[string][]string
	templates []explain.TemplateProblem
	// unresolved are the templates from which no request can be created.
	unresolved map[requests.Reference]bool
	owners     []remediation.Owner
	// unreadOwners are the owners that could not be read, and why.
	unreadOwners []string
	// requeueTime is when to retry what could not be read; zero if an event triggers it.
	requeueTime time.Time
	// lost are targets that no longer existed at the live read, or were replaced by others of the same name.
	lost []int
	// unreadable is why a target or its request could not be read live, and unsure why requests of another kind could not be.
	unreadable, unsure map[int]string
	// orphans are the orphaned targets of the facts, in their order.
	orphans []orphan
	// nodesUnread is why the Nodes that are the targets could not be read; nil if they were, or if the targets are Machines.
	nodesUnread error
	// nodesUnknown: they were not read before, either.
	nodesUnknown bool
	// requestsUnread is why the workload cluster with the requests could not be read; nil if it was.
	requestsUnread error
	// leases are the Leases of Nodes that are being remediated; nil if they were not read. leasesUnread is why.
	leases       *workload.NodeRemediations
	leasesUnread error
	// missing is how many targets were removed within the last minute.
	missing int
	// pauseEnds are when the pauses of targets ended, nodeGoneSince since when their Nodes no longer exist, blockedAt when their remediation
	// was last blocked after it was planned, and unhealthyAt when they became unhealthy, all from the record.
	pauseEnds, nodeGoneSince, blockedAt, unhealthyAt map[types.UID]time.Time
	// completed are the requests of targets, with what other clients have removed, and deletedRequests those that they have deleted.
	completed       map[types.UID]*remediation.Request
	deletedRequests map[types.UID]remediation.DeletedRequests
}

// all iterates over all targets of the Cluster.
func (s *snapshot) all(yield func(*Target) bool) {
	for _, targets := range [][]*Target{s.targets, s.others} {
		for _, t := range targets {
			if !yield(t) {
				return
			}
		}
	}
}

// nameOf is a request in messages.
func (s *snapshot) nameOf(r *requests.Request) string {
	if r.IsOf(s.check.ID) && !s.check.created(r) {
		return r.String() + " in another cluster"
	}
	return r.String()
}

// owns reports whether a request was created by this check for this target.
func (s *snapshot) owns(r *requests.Request, t *Target) bool {
	return s.check.created(r) && r.IsFor(t.Subject)
}

// setRequests sets the requests of this check.
func (s *snapshot) setRequests(all []*requests.Request) {
	s.requests, s.byTarget = all, make(map[types.UID]*requests.Request, len(all))
	for _, r := range all {
		for _, uid := range r.Subjects() {
			if s.byTarget[uid] == nil {
				s.byTarget[uid] = r
			}
		}
	}
}

// requestFor returns the request of this check for a target; nil without one.
func (s *snapshot) requestFor(t *Target) *requests.Request {
	if len(s.byTarget) == 0 {
		return nil
	}
	for _, identity := range t.Subject.Identities() {
		if found := s.byTarget[identity]; found != nil {
			return found
		}
	}
	return nil
}

// namedKinds returns the kinds of requests that a check creates, and of those in its status.
func namedKinds(check *Check) []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	add := func(gvk schema.GroupVersionKind) {
		if !slices.Contains(kinds, gvk) {
			kinds = append(kinds, gvk)
		}
	}
	for _, template := range check.Templates {
		add(template.RequestKind())
	}
	for i := range check.Status.UnhealthyTargets {
		if r := check.Status.UnhealthyTargets[i].Request; r != nil {
			add(schema.FromAPIVersionAndKind(r.APIVersion, r.Kind))
		}
	}
	return kinds
}

// template returns the template of a step.
func (c *Check) template(step remediation.StepID) (requests.Reference, bool) {
	for _, template := range c.Templates {
		if c.Naming.Text(template) == step.Template {
			return template, true
		}
	}
	return requests.Reference{}, false
}

// nextTemplates returns a function that returns the templates of which one is that of the next request of a target. It caches the few
// results.
func (s *snapshot) nextTemplates() func(t *Target) []requests.Reference {
	known := map[remediation.StepID][]requests.Reference{}
	return func(t *Target) []requests.Reference {
		tried := notes.History(t.Object.GetAnnotations()).Tried
		next, found := known[tried]
		if !found {
			next = s.check.templatesAfter(tried)
			known[tried] = next
		}
		return next
	}
}

// templatesAfter returns the templates of the steps that can follow the one that was tried: the cause of the target is not evaluated yet.
func (c *Check) templatesAfter(tried remediation.StepID) (templates []requests.Reference) {
	possible := remediation.PossibleSteps(c.Policy.Steps, tried)
	if len(possible) == 0 || len(possible[len(possible)-1].Conditions) > 0 {
		// The next attempt begins if there is no step for its cause.
		possible = append(possible, remediation.PossibleSteps(c.Policy.Steps, remediation.StepID{})...)
	}
	for _, step := range possible {
		if template, found := c.template(step.ID); found && !slices.Contains(templates, template) {
			templates = append(templates, template)
		}
	}
	return templates
}

// Namespaces returns those in which a check can have requests: its own, or those of its templates, now and earlier. In
// others, any user could create a request in its name.
func (c *Check) Namespaces() []string {
	if c.ID.Namespace != "" {
		return []string{c.ID.Namespace}
	}
	all := make([]string, 0, len(c.Templates))
	for _, template := range c.Templates {
		all = append(all, template.Namespace)
	}
	for _, noted := range notes.RequestKinds(c.Object.GetAnnotations()) {
		all = append(all, noted.Namespace)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// requeueAt requests a reconcile at a time.
func (s *snapshot) requeueAt(at time.Time) {
	if s.requeueTime.IsZero() || !at.IsZero() && at.Before(s.requeueTime) {
		s.requeueTime = at
	}
}

func (s *snapshot) observes() bool { return s.observe || s.check.Policy.Observe }

// paused reports whether the check or its Cluster is paused.
func (s *snapshot) paused() bool { return s.check.Paused || s.clusterPaused() }

func (s *snapshot) clusterPaused() bool {
	return s.cluster != nil && annotations.IsPaused(s.cluster, s.cluster)
}

func finalized(check client.Object) bool {
	return controllerutil.ContainsFinalizer(check, remedyv1.CleanupFinalizer)
}
