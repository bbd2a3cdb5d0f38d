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

// instance is one of ours, that goes by a filter, or looks after everything.
type instance struct {
	filter string
	// alive are its lives: none, one, or an old one and a new one.
	alive []*life
	// flag and observes are how it was started last.
	flag     string
	observes bool
}

// The labels by which instances know their checks. In some worlds there is no instance for the second.
const (
	oursByLabel   = "ours"
	othersByLabel = "others"
)

// String is how the story calls it.
func (i *instance) String() string { return "ours" + strings.TrimSuffix(ofFilter+i.filter, ofFilter) }

// ofFilter ends the name of a life of an instance with a filter.
const ofFilter = " of "

// filterOf is the filter of whoever of ours has written.
func filterOf(who string) string {
	_, filter, _ := strings.Cut(strings.TrimSuffix(who, observing), ofFilter)
	return filter
}

var flags = map[string]intree.AdoptionPolicy{"Ignore": {}, "OptIn": {OptIn: true}, "All": {All: true}}

// begins starts an instance.
func (w *walk) begins(us *instance, flag string, observes bool) {
	w.t.Helper()
	w.lives++
	us.flag, us.observes = flag, observes
	w.takesOver, w.watchFilter, w.observes = flags[flag], us.filter, observes
	who := strings.TrimSuffix(fmt.Sprint(ourProcesses, w.lives, ofFilter, us.filter), ofFilter)
	if observes {
		who += observing
	}
	us.alive = append(us.alive, w.start(w.of(who, server.Admin), w.now))
}

func (w *walk) anyOfUs() *instance { return w.us[w.dice.IntN(len(w.us))] }

// actsFor is which of us acts for a check with a label; nil if none does.
func (w *walk) actsFor(label string) *instance {
	for _, us := range w.us {
		if cmp.Or(us.filter, label) == label {
			return us
		}
	}
	return nil
}

func (w *walk) weStop() { w.stops(w.anyOfUs()) }

// stops ends the oldest life of an instance.
func (w *walk) stops(us *instance) {
	if len(us.alive) > 0 {
		w.say("%s stops", us)
		us.alive[0].stop()
		us.alive = us.alive[1:]
	}
}

func (w *walk) goesAway(us *instance) {
	for len(us.alive) > 0 {
		w.stops(us)
	}
}

func (w *walk) weCrash() {
	if us := w.anyOfUs(); len(us.alive) > 0 {
		w.crash(us.alive[0], us.String())
	}
}

func (w *walk) crash(one *life, who string) {
	n, fault := 1+w.dice.IntN(4), []faults.Fault{faults.CrashBefore, faults.CrashAfter, faults.LoseAnswer, faults.LoseRequest}[w.dice.IntN(4)]
	w.say("%s: %s at write %d from now", who, fault, n)
	_, err := one.FailWriteOf(func(write faults.Write) bool { return write.Resource != "events" }, n, fault)
	w.Expect(err).ToNot(HaveOccurred())
}

func (w *walk) weStart() {
	if us := w.anyOfUs(); len(us.alive) == 0 {
		flag := []string{"OptIn", "OptIn", "All", "All", "Ignore"}[w.dice.IntN(5)]
		w.say("%s starts: %s", us, flag)
		w.begins(us, flag, false)
	}
}

// anotherOfUsStarts is a new leader while the old one does not know yet; later the old one stops. Both have the same flag: where one takes
// what the other gives back, the last note of the one may come after the other has cleaned up.
func (w *walk) anotherOfUsStarts() {
	us := w.anyOfUs()
	if len(us.alive) == 2 {
		w.stops(us)
		return
	}
	w.say("another one of %s starts: %s, observes: %v", us, us.flag, us.observes)
	w.begins(us, us.flag, us.observes)
}

// weOnlyObserve: somebody has pressed the panic button. It is a restart, and what comes after it may be one as well.
func (w *walk) weOnlyObserve() { w.panics(w.anyOfUs()) }

func (w *walk) panics(us *instance) {
	w.goesAway(us)
	w.say("%s starts, and only observes: %s", us, us.flag)
	w.begins(us, us.flag, true)
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

// aLabelChangesWhileWeAreAway: as a rule of a check that has been handed to who is away, as it takes long until another one is. Where there
// are two of us, the other one goes on with it.
func (w *walk) aLabelChangesWhileWeAreAway() {
	us := w.anyOfUs()
	w.goesAway(us)
	name, value := w.any(), map[string]string{oursByLabel: othersByLabel, othersByLabel: oursByLabel}[us.filter]
	for _, each := range w.checks {
		if c := w.audit.of(each); c.open && c.instance == us.filter && w.dice.IntN(2) == 0 {
			name = each
		}
	}
	if w.labels(name, value); w.dice.IntN(2) == 0 {
		w.panics(us)
	}
}

func (w *walk) ourNewsAreHeld() {
	if us := w.anyOfUs(); len(us.alive) > 0 {
		w.held(us.alive[0], us.String())
	}
}
