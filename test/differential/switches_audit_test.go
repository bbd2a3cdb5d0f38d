// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package differential_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/adoption"
)

// The writers. Remedy may have several processes, one after the other, or two at once: their names have the same prefix.
const (
	people       = "people"
	theInTree    = "in-tree"
	ourProcesses = "remedy "
	// observing ends the name of one that only observes.
	observing = ", observing"
)

// audit goes through all writes in the order in which they were done, and finds those that were not allowed.
//
// An epoch of Remedy begins with the write by which the in-tree controller acknowledges the pause of a check, while that is the pause of Remedy.
// It ends with the write that removes this pause, of any writer. Within it the in-tree controller must not act on a Machine of that
// check, and outside of it Remedy must not.
//
// Remedy acts after a live read, and there is a time between the read and the act, in which it cannot detect that its pause was removed. So
// an act of Remedy after the end of an epoch is allowed if the last live read of that check by that process was in the epoch that
// has just ended, and the in-tree controller has not acted on that Machine since: the version of the Machine, or the name of the request,
// would have prevented it.
//
// Of two instances, only the one whose name is on a check may act for it. The name of another instance ends the epoch of the earlier one,
// and begins the next.
//
// Where two checks select a Machine, the in-tree controller acts on it if it reconciles either. Remedy begins nothing on it any more then, and does
// not write to its requests.
type audit struct {
	checks map[string]*audited
	// own are the existing checks of Remedy.
	own    map[string]bool
	wrong  []string
	counts map[string]int
}

// audited is a check as it is at one moment of the history.
type audited struct {
	object *clusterv1.MachineHealthCheck
	// epoch is the number of the last one, and open whether it goes on.
	epoch int
	open  bool
	// instance is the instance of the epoch, and signed whether it began with its name, and not with the pause.
	instance string
	signed   bool
	// saw is the version of the last live read of Remedy; empty if it did not exist.
	saw map[string]string
	// epochs is which epoch went on, by the versions of the check; zero if none.
	epochs map[string]int
	// unseen: the in-tree controller has not reported on it since its creation.
	unseen bool
	// actedInTree are the Machines on which the in-tree controller has acted since the last epoch, or since the check was made.
	actedInTree map[string]bool
	// acted are the Machines on which Remedy has acted in this epoch.
	acted map[string]bool
}

func newAudit() *audit {
	return &audit{checks: map[string]*audited{}, own: map[string]bool{}, counts: map[string]int{}}
}

func (a *audit) of(check string) *audited {
	if a.checks[check] == nil {
		a.checks[check] = &audited{saw: map[string]string{}, epochs: map[string]int{}, actedInTree: map[string]bool{}, acted: map[string]bool{}}
	}
	return a.checks[check]
}

// follow takes note of one more entry.
func (a *audit) follow(at int, n *note) {
	switch {
	case n.resource == "machinehealthchecks" && n.read:
		a.of(n.name).look(n)
	case n.read:
	case n.resource == "remedy machinehealthchecks":
		a.own[n.name] = n.after != nil
	case n.resource == "machinehealthchecks":
		a.checkWritten(at, n)
	case n.resource == "machines":
		a.machineWritten(at, n)
	case n.resource == "metal3remediations":
		a.requestWritten(at, n)
	}
	if !n.read && strings.HasSuffix(n.who, observing) {
		a.observed(at, n)
	}
}

func (a *audit) complain(at int, n *note, format string, args ...any) {
	a.wrong = append(a.wrong, fmt.Sprintf("%d: %s", at, n.who)+" "+fmt.Sprintf(format, args...)+"\n"+n.difference())
}

// seenBy is the epoch of the last live read of a process of Remedy; zero if none.
func (c *audited) seenBy(n *note) int { return c.epochs[c.saw[n.who]] }

// look notes the version. Who wrote that may be noted only after who has read it: which epoch it is of is asked when it matters.
func (c *audited) look(n *note) {
	if c.saw[n.who] = ""; n.after != nil {
		c.saw[n.who] = n.after.GetResourceVersion()
	}
}

// checkWritten follows the handshake, and what either side may write to a check.
func (a *audit) checkWritten(at int, n *note) {
	c := a.of(n.name)
	before, after := asCheck(n.before), asCheck(n.after)
	if c.object = after; before == nil {
		c.unseen, c.actedInTree = true, map[string]bool{}
	}
	c.unseen = c.unseen && n.who != theInTree
	if before != nil && after != nil {
		a.judgeCheck(at, n, c, before, after)
	}
	wasOpen := c.open
	switch {
	case after == nil || after.Annotations[clusterv1.PausedAnnotation] != remedyv1.Pause:
		c.open = false
	case !c.open && acknowledged(after):
		c.begins(after)
		c.signed, c.actedInTree = false, map[string]bool{}
		a.counts["adoptions"]++
		if n.who != theInTree {
			a.complain(at, n, "begins an epoch of %s, and only the in-tree controller may", n.name)
		}
	case c.open && c.instance != instanceOf(after):
		c.begins(after)
		c.signed = true
		a.counts["signatures of another instance"]++
	}
	if wasOpen && !c.open {
		a.counts["ends by "+kindOfWriter(n.who)]++
	}
	if n.after != nil && c.open {
		c.epochs[n.after.GetResourceVersion()] = c.epoch
	}
}

func (c *audited) begins(check *clusterv1.MachineHealthCheck) {
	c.open, c.instance, c.acted = true, instanceOf(check), map[string]bool{}
	c.epoch++
}

// instanceOf returns the --watch-filter of the instance that adopted a check; empty without a filter.
func instanceOf(check *clusterv1.MachineHealthCheck) string {
	memory := adoption.ParseMemory(check.Annotations[remedyv1.AdoptionIDAnnotation])
	return strings.TrimPrefix(memory.Instance, adoption.Unfiltered)
}

// kindOfWriter leaves out which life it is.
func kindOfWriter(who string) string {
	who, _, _ = strings.Cut(who, " ")
	return who
}

func acknowledged(check *clusterv1.MachineHealthCheck) bool {
	said := meta.FindStatusCondition(check.Status.Conditions, clusterv1.PausedCondition)
	return said != nil && said.Status == metav1.ConditionTrue && strings.Contains(said.Message, clusterv1.PausedAnnotation)
}

func (a *audit) judgeCheck(at int, n *note, c *audited, before, after *clusterv1.MachineHealthCheck) {
	pauseBefore, pauseAfter := before.Annotations[clusterv1.PausedAnnotation], after.Annotations[clusterv1.PausedAnnotation]
	_, wasPaused := before.Annotations[clusterv1.PausedAnnotation]
	saidBefore := meta.FindStatusCondition(before.Status.Conditions, clusterv1.PausedCondition)
	changed := changedConditions(before.Status.Conditions, after.Status.Conditions)
	byRemedy := strings.HasPrefix(n.who, ourProcesses)
	switch {
	case byRemedy && pauseBefore != pauseAfter && wasPaused && pauseBefore != remedyv1.Pause:
		a.complain(at, n, "changes a pause of another writer on %s", n.name)
	case byRemedy && pauseAfter == remedyv1.Pause && pauseBefore != remedyv1.Pause && (saidBefore == nil || saidBefore.Status != metav1.ConditionFalse):
		a.complain(at, n, "adopts %s, which has not been reported as not paused", n.name)
	case byRemedy && slices.Contains(changed, clusterv1.PausedCondition):
		a.complain(at, n, "writes the condition Paused of %s", n.name)
	case byRemedy && !c.open && before.DeletionTimestamp != nil && acknowledged(before) && reports(before, after, changed):
		// It is cleaned up, and the in-tree controller, which has acknowledged the pause, has not read its end.
		a.counts["reported during the deletion"]++
	case byRemedy && !c.open && reports(before, after, changed):
		a.complain(at, n, "reports the Machines of %s, and does not reconcile it", n.name)
	case byRemedy && c.open && c.instance != filterOf(n.who) && reports(before, after, changed):
		a.complain(at, n, "reports the Machines of %s, and another instance reconciles it", n.name)
	case n.who == theInTree && c.open && reports(before, after, changed):
		a.complain(at, n, "reports the Machines of %s, which is adopted", n.name)
	}
}

// reports is true if a write is about the Machines of a check. The removal of the report of another writer is not.
func reports(before, after *clusterv1.MachineHealthCheck, changed []string) bool {
	about := slices.DeleteFunc(slices.Clone(changed), func(kind string) bool {
		return kind == clusterv1.PausedCondition || kind == remedyv1.AdoptedCondition || meta.FindStatusCondition(after.Status.Conditions, kind) == nil
	})
	was, is := before.Status.DeepCopy(), after.Status.DeepCopy()
	was.Conditions, is.Conditions, was.ObservedGeneration, is.ObservedGeneration, was.Deprecated, is.Deprecated = nil, nil, 0, 0, nil, nil
	return len(about) > 0 || !reflect.DeepEqual(was, is)
}
