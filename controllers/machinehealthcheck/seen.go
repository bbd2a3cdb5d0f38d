// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// What checks are called, in notes, sentences and metrics. One of Cluster API may have the name and the namespace of one of ours.
const (
	ourKind  = string(metrics.MachineHealthCheck)
	coreKind = string(metrics.CoreMachineHealthCheck)
)

// kindOf is what the kind of a check is called.
func kindOf(check *remedyv1.MachineHealthCheck) string {
	if check.APIVersion == clusterv1.GroupVersion.String() {
		return coreKind
	}
	return ourKind
}

// titleOf is how people know a check.
func titleOf(check *remedyv1.MachineHealthCheck) string {
	return title(kindOf(check), client.ObjectKeyFromObject(check))
}

func title(kind string, key client.ObjectKey) string { return kind + " " + key.String() }

// seen is everything that was read for a pass: from caches, or past them for some of the targets. What is here is never changed.
type seen struct {
	check *remedyv1.MachineHealthCheck
	// observe: the manager only observes.
	observe bool
	// cluster is nil if there is none.
	cluster    *clusterv1.Cluster
	connection workload.Connection
	// machines are those that the check selects, by name, and readings their Nodes, in the same order. unselected are others of the Cluster.
	machines, unselected []*clusterv1.Machine
	readings             []workload.Reading
	// requests are those of this check, and byMachine the first of each Machine.
	requests  []*requests.Found
	byMachine map[types.UID]*requests.Found
	// kinds are those of which it may have requests.
	kinds []schema.GroupVersionKind
	// naming is how its templates are called in steps.
	naming requests.Naming
	// unknown: of a kind that the check names it was never known which requests there are. unread is why there may be some that were not seen.
	unknown bool
	unread  []string
	// pending: something is being read for the first time.
	pending bool
	// adoptable are requests that Cluster API's own controller has made for a Machine, where the check was handed to us.
	adoptable map[types.UID]*requests.Found
	// taken are names of requests that somebody else's object bears, by the name of the target.
	taken map[string]string
	// rivals are the other checks of the Cluster.
	rivals []rival
	// elsewhere are other checks that have requests for a Machine.
	elsewhere map[types.UID][]requests.Check
	templates []explain.TemplateTrouble
	// unresolved are the templates from which no request can be made.
	unresolved map[requests.Reference]bool
	owners     []remediation.Owner
	// again is when it is worth asking anew what could not be found out; zero if somebody wakes us.
	again time.Time
	// lost are Machines that were not there any more, or were others, when they were read again.
	lost []int
	// blind and unsure are why a Machine or its own request could not be read again, and why it is not known whether it has another one.
	blind, unsure map[int]string
	// left is what strays are about, in their order.
	left []leftover
	// thaws are when the pauses of targets were over, as far as this process has seen it.
	thaws map[types.UID]time.Time
	// absences are since when the Nodes of targets are gone, as far as this process has seen it. What stands on a Machine comes first.
	absences map[types.UID]time.Time
}

// identity is how a check stands on the requests that it makes.
func identity(check *remedyv1.MachineHealthCheck) requests.Check {
	return requests.Check{Kind: kindOf(check), Namespace: check.Namespace, Name: check.Name}
}

// references are the templates that a check names.
func references(check *remedyv1.MachineHealthCheck) []requests.Reference {
	var all []requests.Reference
	add := func(t *remedyv1.MachineTemplateReference) {
		if t != nil {
			all = append(all, reference(check, t))
		}
	}
	add(check.Spec.RemediationTemplate)
	for i := range check.Spec.EscalatingRemediations {
		add(check.Spec.EscalatingRemediations[i].RemediationTemplate)
	}
	return all
}

// reference is a template in the namespace of the check, wherever it may say it is.
func reference(check *remedyv1.MachineHealthCheck, t *remedyv1.MachineTemplateReference) requests.Reference {
	return requests.Reference{APIVersion: t.APIVersion, Kind: t.Kind, Namespace: check.Namespace, Name: t.Name}
}

// asTarget is a Machine as those see it who make requests.
func asTarget(m *clusterv1.Machine) requests.Target {
	return requests.OfMachine(requests.Object{Name: m.Name, UID: m.UID}, requests.Object{Name: m.Status.NodeRef.Name})
}

// owns says whether a request was made by this check for this Machine.
func (s *seen) owns(r *requests.Found, m *clusterv1.Machine) bool {
	return r.Of(identity(s.check)) && r.For(asTarget(m))
}

// owned notes which requests this check has.
func (s *seen) owned(all []*requests.Found) {
	s.requests, s.byMachine = all, make(map[types.UID]*requests.Found, len(all))
	for _, r := range all {
		for _, machine := range r.Machines {
			if s.byMachine[machine] == nil {
				s.byMachine[machine] = r
			}
		}
	}
}

// requestFor is the request of this check for a Machine; nil if there is none.
func (s *seen) requestFor(m *clusterv1.Machine) *requests.Found { return s.byMachine[m.UID] }

// author is the check as it stands on Machines it has marked, which are in its namespace: kind/name.
func author(check *remedyv1.MachineHealthCheck) string { return kindOf(check) + "/" + check.Name }

// kindsOf are the kinds of requests that a check makes, and of those that it is known to have had.
func kindsOf(check *remedyv1.MachineHealthCheck) []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	add := func(gvk schema.GroupVersionKind) {
		if !slices.Contains(kinds, gvk) {
			kinds = append(kinds, gvk)
		}
	}
	for _, template := range references(check) {
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
func (s *seen) template(step remediation.StepID) (requests.Reference, bool) {
	for _, template := range references(s.check) {
		if s.naming.Text(template) == step.Template {
			return template, true
		}
	}
	return requests.Reference{}, false
}

// nextKinds tells the kind of the request that a Machine would get next; empty if it would get none. There are few answers for many Machines.
func (s *seen) nextKinds() func(m *clusterv1.Machine) schema.GroupVersionKind {
	all, known := steps(s.check, s.naming), map[remediation.StepID]schema.GroupVersionKind{}
	return func(m *clusterv1.Machine) schema.GroupVersionKind {
		tried := notes.Ledger(m.Annotations).Tried
		next, found := known[tried]
		if !found {
			next = s.kindAfter(all, tried)
			known[tried] = next
		}
		return next
	}
}

// kindAfter is the kind of the request of the step that follows what has been tried.
func (s *seen) kindAfter(all []remediation.Step, tried remediation.StepID) schema.GroupVersionKind {
	step, found := remediation.NextStep(all, tried)
	if !found {
		step, _ = remediation.NextStep(all, remediation.StepID{})
	}
	template, found := s.template(step.ID)
	if !found {
		return schema.GroupVersionKind{}
	}
	return template.RequestKind()
}
