// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// snapshot is everything that was read for a reconcile: from caches, or live for some of the targets. It is never changed once it was read.
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
	requests []*requests.Found
	byTarget map[types.UID]*requests.Found
	// kinds are those of which it may have requests.
	kinds []schema.GroupVersionKind
	// unknown: of a kind that the check names it was never known which requests there are. unread is why there may be some that were not read.
	unknown bool
	unread  []string
	// pending: something is being read for the first time.
	pending bool
	// adoptable are requests that the manager did not create, by target.
	adoptable map[types.UID]*requests.Found
	// taken are names of requests that other objects have, by the name of the target.
	taken map[string]string
	// claims are the other checks of the Cluster, and elsewhere those that have requests for a target.
	claims    []Claim
	elsewhere map[types.UID][]requests.Check
	templates []explain.TemplateTrouble
	// unresolved are the templates from which no request can be created.
	unresolved map[requests.Reference]bool
	owners     []remediation.Owner
	// again is when it is worth asking again what could not be found out; zero if an event tells.
	again time.Time
	// lost are targets that no longer existed, or were others, when they were read live.
	lost []int
	// unreadable and unsure are why a target or its own request could not be read live, and why it is not known whether it has another one.
	unreadable, unsure map[int]string
	// orphans are what the orphaned targets of the facts are about, in their order.
	orphans []orphan
	// pauseEnds are when the pauses of targets ended, and nodeGoneSince since when their Nodes no longer exist, as far as this process has
	// seen it.
	pauseEnds, nodeGoneSince map[types.UID]time.Time
}

// all goes through all targets of the Cluster.
func (s *snapshot) all(yield func(*Target) bool) {
	for _, targets := range [][]*Target{s.targets, s.others} {
		for _, t := range targets {
			if !yield(t) {
				return
			}
		}
	}
}

// owns reports whether a request was created by this check for this target.
func (s *snapshot) owns(r *requests.Found, t *Target) bool {
	return r.Of(s.check.ID) && r.For(t.Subject)
}

// subjects are the targets that a request is for: Machines, or a Node.
func subjects(r *requests.Found) []types.UID {
	if r.Node.UID == "" {
		return r.Machines
	}
	return append(slices.Clone(r.Machines), r.Node.UID)
}

// setRequests notes which requests this check has.
func (s *snapshot) setRequests(all []*requests.Found) {
	s.requests, s.byTarget = all, make(map[types.UID]*requests.Found, len(all))
	for _, r := range all {
		for _, uid := range subjects(r) {
			if s.byTarget[uid] == nil {
				s.byTarget[uid] = r
			}
		}
	}
}

// requestFor is the request of this check for a target; nil if there is none.
func (s *snapshot) requestFor(t *Target) *requests.Found { return s.byTarget[t.uid()] }

// namedKinds are the kinds of requests that a check creates, and of those that it is known to have.
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

// template is the one of a step.
func (c *Check) template(step remediation.StepID) (requests.Reference, bool) {
	for _, template := range c.Templates {
		if c.Naming.Text(template) == step.Template {
			return template, true
		}
	}
	return requests.Reference{}, false
}

// nextKinds returns the kind of the request that a target would get next; empty if it would get none. There are few answers for many
// targets.
func (s *snapshot) nextKinds() func(t *Target) schema.GroupVersionKind {
	known := map[remediation.StepID]schema.GroupVersionKind{}
	return func(t *Target) schema.GroupVersionKind {
		tried := notes.Ledger(t.Object.GetAnnotations()).Tried
		next, found := known[tried]
		if !found {
			next = s.check.kindAfter(tried)
			known[tried] = next
		}
		return next
	}
}

// kindAfter is the kind of the request of the step that follows what was tried.
func (c *Check) kindAfter(tried remediation.StepID) schema.GroupVersionKind {
	step, found := remediation.NextStep(c.Policy.Steps, tried)
	if !found {
		step, _ = remediation.NextStep(c.Policy.Steps, remediation.StepID{})
	}
	template, found := c.template(step.ID)
	if !found {
		return schema.GroupVersionKind{}
	}
	return template.RequestKind()
}

// askAgain notes that it is worth asking again then.
func (s *snapshot) askAgain(at time.Time) {
	if s.again.IsZero() || !at.IsZero() && at.Before(s.again) {
		s.again = at
	}
}

func (s *snapshot) observes() bool { return s.observe || s.check.Policy.Observe }

// paused reports whether the check or its Cluster is paused.
func (s *snapshot) paused() bool { return s.check.Paused || s.clusterPaused() }

func (s *snapshot) clusterPaused() bool {
	return s.cluster != nil && s.cluster.Spec.Paused != nil && *s.cluster.Spec.Paused
}

func finalized(check client.Object) bool {
	return controllerutil.ContainsFinalizer(check, remedyv1.CleanupFinalizer)
}
