// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package differential_test

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

func (a *audit) machineWritten(at int, n *note) {
	if n.before == nil || n.after == nil || n.who == people {
		return
	}
	acts, takes := marksChanged(n.before, n.after)
	if signed := signs(n); acts || signed || takes {
		a.act(at, n, !acts && !signed)
	}
}

// signs reports whether Remedy writes the responsible check on a Machine.
func signs(n *note) bool {
	now := n.after.GetAnnotations()[remedyv1.MarkedByAnnotation]
	return now != "" && now != n.before.GetAnnotations()[remedyv1.MarkedByAnnotation]
}

func (a *audit) requestWritten(at int, n *note) {
	if n.who == people || n.before == nil && n.after == nil {
		return
	}
	was, is := notesOf(n.before), notesOf(n.after)
	if n.who != theInTree {
		a.handsOff(at, n, was, is)
	}
	if n.before != nil && n.after != nil && lessOnly(was, is) {
		return
	}
	told := n.before != nil && n.after != nil && is[remedyv1.TimedOutAnnotation] != ""
	a.act(at, n, n.after == nil || told)
}

func notesOf(o *unstructured.Unstructured) map[string]string {
	if o == nil {
		return nil
	}
	return o.GetAnnotations()
}

// lessOnly reports whether a write only removes something.
func lessOnly(before, after map[string]string) bool {
	for key, value := range after {
		if before[key] != value {
			return false
		}
	}
	return true
}

// handsOff: Remedy writes to a request of the in-tree controller only to adopt it, if its check is adopted. The request does not name its
// check, so no other check of that template may belong to the in-tree controller. For
// one that was made this moment nothing was made yet.
func (a *audit) handsOff(at int, n *note, was, is map[string]string) {
	if n.before == nil || was[remedyv1.CheckAnnotation] != "" {
		return
	}
	if is[remedyv1.CheckAnnotation] == "" {
		a.complain(at, n, "touches the request for %s, which the in-tree controller has made", n.name)
		return
	}
	a.counts["adoptions"]++
	for _, name := range selecting(n.name) {
		if c := a.of(name); c.stays() && !c.open && !c.unseen && templates[name] == was[clusterv1.TemplateClonedFromNameAnnotation] {
			a.complain(at, n, "adopts the request for %s for %s, and the in-tree controller may have made it for %s, which it still has", n.name, is[remedyv1.CheckAnnotation], name)
		}
	}
}

// stays reports whether a check exists, and is not about to be deleted.
func (c *audited) stays() bool { return c.object != nil && c.object.DeletionTimestamp == nil }

// act holds an act on a Machine, or on the request for it, against the epochs of the checks that select it.
func (a *audit) act(at int, n *note, onlyTakes bool) {
	a.counts["acts by "+kindOfWriter(n.who)]++
	checks := selecting(n.name)
	if n.who == theInTree {
		checks = slices.DeleteFunc(checks, func(name string) bool { return a.of(name).open })
		if len(checks) == 0 {
			a.complain(at, n, "acts on Machine %s of an adopted check", n.name)
		}
		if len(checks) > 0 && len(checks) < len(selecting(n.name)) {
			a.counts["acts by "+theInTree+" where both have a check"]++
		}
		for _, name := range checks {
			a.of(name).actedInTree[n.name] = true
		}
		return
	}
	if why := a.unfounded(n, checks, onlyTakes); why != "" {
		a.complain(at, n, "acts on Machine %s, and %s", n.name, why)
	}
	for _, name := range checks {
		c := a.of(name)
		if c.open && c.instance == filterOf(n.who) {
			c.acted[n.name] = true
		}
		switch {
		case onlyTakes || c.open || !c.stays():
		case c.actedInTree[n.name]:
			a.complain(at, n, "acts on Machine %s, on which the in-tree controller acts for %s", n.name, name)
		default:
			a.counts["acts that could not read another check"]++
		}
	}
}

// unfounded is why none of the checks that select a Machine allows Remedy to act on it; empty if one does.
func (a *audit) unfounded(n *note, checks []string, onlyTakes bool) string {
	var why []string
	for _, name := range selectingOf(ownPools, n.name) {
		// They bear the label of the first instance.
		if a.own[name] && filterOf(n.who) != othersByLabel {
			return ""
		}
	}
	for _, name := range checks {
		switch c := a.of(name); {
		case c.open && c.instance == filterOf(n.who):
			return ""
		case c.signed && c.seenBy(n) == c.epoch-1 && !c.acted[n.name] && !c.actedInTree[n.name]:
			a.counts["acts that could not read a responsible check"]++
			return ""
		// A check that is about to be deleted cleans up, whichever check is responsible for the Machines.
		case onlyTakes && c.object != nil && c.object.DeletionTimestamp != nil:
			a.counts["cleaned up while it goes"]++
			return ""
		case c.open:
			why = append(why, name+" is for another instance")
		case c.seenBy(n) == 0 || c.seenBy(n) != c.epoch:
			why = append(why, "has not seen that "+name+" is adopted")
		case c.actedInTree[n.name]:
			why = append(why, "the in-tree controller has acted on it since "+name+" was adopted")
		default:
			a.counts["acts that could not read the end"]++
			return ""
		}
	}
	return strings.Join(why, ", ")
}

// observed: an observing instance begins nothing, and adopts and releases nothing. It ends what an earlier one has begun, and reports the
// health of Machines where it may.
func (a *audit) observed(at int, n *note) {
	a.counts["writes while observing"]++
	was, is := notesOf(n.before), notesOf(n.after)
	switch n.resource {
	case "machinehealthchecks":
		if n.before != nil && n.after != nil && !onlyFreed(n.before, n.after) {
			a.complain(at, n, "changes %s, and only observes", n.name)
		}
	case "machines":
		if set, _ := marksChanged(n.before, n.after); set || signs(n) || !lessOnly(was, is) {
			a.complain(at, n, "changes Machine %s, and only observes", n.name)
		}
	case "metal3remediations":
		is = maps.Clone(is)
		// That stops its remediator before the deletion.
		delete(is, remedyv1.TimedOutAnnotation)
		if n.before == nil || was[remedyv1.CheckAnnotation] == "" || !lessOnly(was, is) {
			a.complain(at, n, "makes or changes the request for %s, and only observes", n.name)
		}
	}
}

// onlyFreed reports whether only the status of a check was changed, and finalizers were removed.
func onlyFreed(before, after *unstructured.Unstructured) bool {
	kept := func(o *unstructured.Unstructured) map[string]string {
		all := lines(o)
		maps.DeleteFunc(all, func(path, _ string) bool {
			return strings.HasPrefix(path, "status.") || strings.HasPrefix(path, "metadata.finalizers.") || path == "metadata.deletionTimestamp"
		})
		return all
	}
	grown := slices.ContainsFunc(after.GetFinalizers(), func(finalizer string) bool { return !slices.Contains(before.GetFinalizers(), finalizer) })
	return !grown && maps.Equal(kept(before), kept(after))
}

var marks = []string{clusterv1.MachineHealthCheckSucceededCondition, clusterv1.MachineOwnerRemediatedCondition, clusterv1.MachineExternallyRemediatedCondition}

// marksChanged reports whether conditions of a Machine were set or changed, and whether any were removed.
func marksChanged(before, after *unstructured.Unstructured) (set, taken bool) {
	was, is := machineOf(before), machineOf(after)
	for _, kind := range changedConditions(was.Status.Conditions, is.Status.Conditions) {
		if slices.Contains(marks, kind) {
			gone := meta.FindStatusCondition(is.Status.Conditions, kind) == nil
			set, taken = set || !gone, taken || gone
		}
	}
	return set, taken
}

func changedConditions(before, after []metav1.Condition) []string {
	all := map[string]bool{}
	for _, c := range slices.Concat(before, after) {
		was, is := meta.FindStatusCondition(before, c.Type), meta.FindStatusCondition(after, c.Type)
		if was == nil || is == nil || was.Status != is.Status || was.Reason != is.Reason || was.Message != is.Message {
			all[c.Type] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func asCheck(o *unstructured.Unstructured) *clusterv1.MachineHealthCheck {
	if o == nil {
		return nil
	}
	check := &clusterv1.MachineHealthCheck{}
	into(o, check)
	return check
}

func machineOf(o *unstructured.Unstructured) *clusterv1.Machine {
	m := &clusterv1.Machine{}
	into(o, m)
	return m
}

// into panics, as what the API server has answered is known to fit.
func into(o *unstructured.Unstructured, object any) {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, object); err != nil {
		panic(err)
	}
}
