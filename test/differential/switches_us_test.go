// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package differential_test

import (
	"cmp"
	"fmt"
	"strings"

	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/intree"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
)

// instance is an instance of Remedy with a filter, or without one.
type instance struct {
	filter string
	// alive are its lives: none, one, or an old one and a new one.
	alive []*life
	// flag and observes are how it was started last.
	flag     string
	observes bool
}

// The labels that select the checks of an instance. In some worlds there is no instance for the second.
const (
	oursByLabel   = "remedy"
	othersByLabel = "others"
)

// String is how the story calls it.
func (i *instance) String() string { return "remedy" + strings.TrimSuffix(ofFilter+i.filter, ofFilter) }

// ofFilter ends the name of a life of an instance with a filter.
const ofFilter = " of "

// filterOf is the filter of the instance that has written.
func filterOf(who string) string {
	_, filter, _ := strings.Cut(strings.TrimSuffix(who, observing), ofFilter)
	return filter
}

var flags = map[string]intree.AdoptionPolicy{"Ignore": {}, "OptIn": {OptIn: true}, "All": {All: true}}

// begins starts an instance.
func (w *walk) begins(remedy *instance, flag string, observes bool) {
	w.t.Helper()
	w.lives++
	remedy.flag, remedy.observes = flag, observes
	w.takesOver, w.watchFilter, w.observes = flags[flag], remedy.filter, observes
	who := strings.TrimSuffix(fmt.Sprint(ourProcesses, w.lives, ofFilter, remedy.filter), ofFilter)
	if observes {
		who += observing
	}
	remedy.alive = append(remedy.alive, w.start(w.of(who, server.Admin), w.now))
}

func (w *walk) anyInstance() *instance { return w.instances[w.dice.IntN(len(w.instances))] }

// actsFor is the instance that acts for a check with a label; nil if none does.
func (w *walk) actsFor(label string) *instance {
	for _, remedy := range w.instances {
		if cmp.Or(remedy.filter, label) == label {
			return remedy
		}
	}
	return nil
}

func (w *walk) weStop() { w.stops(w.anyInstance()) }

// stops ends the oldest life of an instance.
func (w *walk) stops(remedy *instance) {
	if len(remedy.alive) > 0 {
		w.say("%s stops", remedy)
		remedy.alive[0].stop()
		remedy.alive = remedy.alive[1:]
	}
}

func (w *walk) goesAway(remedy *instance) {
	for len(remedy.alive) > 0 {
		w.stops(remedy)
	}
}

func (w *walk) weCrash() {
	if remedy := w.anyInstance(); len(remedy.alive) > 0 {
		w.crash(remedy.alive[0], remedy.String())
	}
}

func (w *walk) crash(one *life, who string) {
	n, fault := 1+w.dice.IntN(4), []faults.Fault{faults.CrashBefore, faults.CrashAfter, faults.LoseAnswer, faults.LoseRequest}[w.dice.IntN(4)]
	w.say("%s: %s at write %d from now", who, fault, n)
	_, err := one.FailWriteOf(func(write faults.Write) bool { return write.Resource != "events" }, n, fault)
	w.Expect(err).ToNot(HaveOccurred())
}

func (w *walk) weStart() {
	if remedy := w.anyInstance(); len(remedy.alive) == 0 {
		flag := []string{"OptIn", "OptIn", "All", "All", "Ignore"}[w.dice.IntN(5)]
		w.say("%s starts: %s", remedy, flag)
		w.begins(remedy, flag, false)
	}
}

// anotherStarts starts a new leader before the old one has noticed; later the old one stops. Both have the same flag: if one adopts what the
// other releases, the last annotation of the one may come after the cleanup of the other.
func (w *walk) anotherStarts() {
	remedy := w.anyInstance()
	if len(remedy.alive) == 2 {
		w.stops(remedy)
		return
	}
	w.say("another one of %s starts: %s, observes: %v", remedy, remedy.flag, remedy.observes)
	w.begins(remedy, remedy.flag, remedy.observes)
}

// observeOnly: a restart with Observe, and the next change may be a restart, too.
func (w *walk) observeOnly() { w.panics(w.anyInstance()) }

func (w *walk) panics(remedy *instance) {
	w.goesAway(remedy)
	w.say("%s starts, and only observes: %s", remedy, remedy.flag)
	w.begins(remedy, remedy.flag, true)
}

func (w *walk) aLabelChanges() {
	w.labels(w.any(), []string{oursByLabel, othersByLabel, ""}[w.dice.IntN(3)])
}

func (w *walk) labels(name, value string) {
	check := &clusterv1.MachineHealthCheck{}
	w.changes(check, name, func() {
		w.say("the label of %s: %q", name, value)
		if check.Labels == nil {
			check.Labels = map[string]string{}
		}
		setOrDrop(check.Labels, clusterv1.WatchLabel, value)
	})
}

// aLabelChangesWhileAway: usually of a check of the stopped instance, because the next adoption takes long. If there are two instances, the
// other one continues.
func (w *walk) aLabelChangesWhileAway() {
	remedy := w.anyInstance()
	w.goesAway(remedy)
	name, value := w.any(), map[string]string{oursByLabel: othersByLabel, othersByLabel: oursByLabel}[remedy.filter]
	for _, each := range w.checks {
		if c := w.audit.of(each); c.open && c.instance == remedy.filter && w.dice.IntN(2) == 0 {
			name = each
		}
	}
	if w.labels(name, value); w.dice.IntN(2) == 0 {
		w.panics(remedy)
	}
}

func (w *walk) ourNewsAreHeld() {
	if remedy := w.anyInstance(); len(remedy.alive) > 0 {
		w.held(remedy.alive[0], remedy.String())
	}
}
