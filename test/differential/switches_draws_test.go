// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package differential_test

import (
	"slices"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// step is one of everything that can happen, and some time for what follows from it.
func (w *walk) step() {
	w.t.Helper()
	happens := []func(){
		w.somebodyAsks, w.somebodyAsks, w.theClusterAsks,
		w.weStop, w.weCrash, w.weStart, w.weStart, w.anotherStarts, w.anotherStarts, w.observeOnly, w.aLabelChanges, w.aLabelChangesWhileAway,
		w.theyStop, w.theyStop, w.theyStart,
		w.somebodyPauses, w.somebodyUnpauses, w.theClusterIsPaused, w.aToolUndoes, w.aToolUndoes,
		w.aCheckIsMadeAnew, w.somebodyFallsIll, w.somebodyFallsIll, w.somebodyFallsIll, w.somebodyRecovers, w.somebodyRecovers,
		w.ourNewsAreHeld, w.theirNewsAreHeld, w.theirNewsAreHeld, w.newsArrive, w.timePasses,
	}
	happens[w.dice.IntN(len(happens))]()
	w.bury()
	for name := range w.missing {
		w.createAgain(name)
	}
	w.breathe(w.dice.IntN(8))
}

// breathe waits until the controllers have written so often, or for a moment.
func (w *walk) breathe(writes int) {
	moment := time.NewTimer(400 * time.Millisecond)
	defer moment.Stop()
	for until := w.count() + writes; w.count() < until; {
		select {
		case <-w.news:
		case <-moment.C:
			return
		}
	}
}

// bury does what is left to be done for those who have crashed.
func (w *walk) bury() {
	if w.inTree != nil && w.inTree.Crashed() {
		w.say("the in-tree controller has crashed")
		w.inTree.stop()
		w.inTree, w.doomed = nil, false
	}
	for _, remedy := range w.instances {
		remedy.alive = slices.DeleteFunc(remedy.alive, func(one *life) bool {
			if one.Crashed() {
				w.say("%s has crashed", remedy)
				one.stop()
			}
			return one.Crashed()
		})
	}
}

func (w *walk) any() string { return w.checks[w.dice.IntN(len(w.checks))] }

// changes lets a person change an object without looking at what others do, as people do.
func (w *walk) changes(o client.Object, name string, change func()) {
	w.t.Helper()
	if err := w.api.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, o); err != nil {
		w.Expect(client.IgnoreNotFound(err)).To(Succeed())
		return
	}
	before := o.DeepCopyObject().(client.Object)
	if o.GetAnnotations() == nil {
		o.SetAnnotations(map[string]string{})
	}
	change()
	w.Expect(client.IgnoreNotFound(w.api.Patch(w.ctx, o, client.MergeFrom(before)))).To(Succeed())
}

func (w *walk) somebodyAsks() {
	check, name, value := &clusterv1.MachineHealthCheck{}, w.any(), []string{"true", "true", "false", ""}[w.dice.IntN(4)]
	w.say("adoption of %s: %q", name, value)
	w.changes(check, name, func() { setOrDrop(check.Annotations, remedyv1.AdoptAnnotation, value) })
}

func (w *walk) theClusterAsks() {
	cluster, value := &clusterv1.Cluster{}, []string{"true", ""}[w.dice.IntN(2)]
	w.say("adoption of the Cluster: %q", value)
	w.changes(cluster, clusterName, func() { setOrDrop(cluster.Annotations, remedyv1.AdoptAnnotation, value) })
}

func setOrDrop(annotations map[string]string, key, value string) {
	if annotations[key] = value; value == "" {
		delete(annotations, key)
	}
}

func (w *walk) theyStop() {
	switch {
	case w.inTree == nil:
	case w.dice.IntN(2) == 0:
		w.crash(w.inTree, theInTree)
		w.doomed = true
	default:
		w.endInTree()
	}
}

func (w *walk) endInTree() {
	w.say("the in-tree controller stops")
	w.inTree.stop()
	w.inTree, w.doomed = nil, false
}

func (w *walk) theyStart() {
	if w.inTree == nil {
		w.say("the in-tree controller starts")
		w.inTree = w.runs(w.of(theInTree, server.Admin))
	}
}

func (w *walk) somebodyPauses() {
	check, name := &clusterv1.MachineHealthCheck{}, w.any()
	w.say("a person pauses %s", name)
	w.changes(check, name, func() { check.Annotations[clusterv1.PausedAnnotation] = "" })
}

func (w *walk) somebodyUnpauses() {
	for _, name := range w.checks {
		check := &clusterv1.MachineHealthCheck{}
		w.changes(check, name, func() {
			if value, is := check.Annotations[clusterv1.PausedAnnotation]; is && value != remedyv1.Pause {
				w.say("a person unpauses %s", name)
				delete(check.Annotations, clusterv1.PausedAnnotation)
			}
		})
	}
}

func (w *walk) theClusterIsPaused() {
	cluster, paused := &clusterv1.Cluster{}, w.dice.IntN(2) == 0
	w.say("the Cluster is paused: %v", paused)
	w.changes(cluster, clusterName, func() { cluster.Spec.Paused = &paused })
}

// aToolUndoes removes the pause of Remedy from a check, as a GitOps tool does; or everything of Remedy.
func (w *walk) aToolUndoes() {
	check, name, everything := &clusterv1.MachineHealthCheck{}, w.any(), w.dice.IntN(2) == 0
	w.changes(check, name, func() {
		if check.Annotations[clusterv1.PausedAnnotation] != remedyv1.Pause {
			return
		}
		w.say("a tool removes the pause of Remedy from %s, and everything: %v", name, everything)
		delete(check.Annotations, clusterv1.PausedAnnotation)
		for key := range check.Annotations {
			if everything && strings.HasPrefix(key, remedyv1.Prefix) && key != remedyv1.AdoptAnnotation {
				delete(check.Annotations, key)
			}
		}
	})
}

func (w *walk) aCheckIsMadeAnew() {
	name := w.any()
	w.say("%s is deleted", name)
	check := &clusterv1.MachineHealthCheck{ObjectMeta: w.meta(name)}
	w.Expect(client.IgnoreNotFound(w.api.Delete(w.ctx, check))).To(Succeed())
	w.missing[name] = true
}

// createAgain generates a check as soon as the one of that name does not exist any more.
func (w *walk) createAgain(name string) bool {
	if w.missing[name] && w.generate(name) {
		w.say("%s is generated again", name)
		delete(w.missing, name)
	}
	return !w.missing[name]
}

func (w *walk) somebodyFallsIll() {
	w.becomes(w.anyMachine(), true)
}

func (w *walk) somebodyRecovers() {
	w.becomes(w.anyMachine(), false)
}

func (w *walk) anyMachine() string { return machineNames[w.dice.IntN(len(machineNames))] }

func (w *walk) becomes(machine string, unhealthy bool) {
	if w.unhealthy[machine] == unhealthy {
		return
	}
	w.say("%s is unhealthy: %v", machine, unhealthy)
	if w.unhealthy[machine] = unhealthy; unhealthy {
		w.falls(w.machines[machine])
	} else {
		w.turnWell(w.machines[machine])
	}
}

var watched = []string{"machinehealthchecks.cluster.x-k8s.io", "machines.cluster.x-k8s.io", "clusters.cluster.x-k8s.io", "metal3remediations.infrastructure.cluster.x-k8s.io"}

func (w *walk) theirNewsAreHeld() {
	if w.inTree != nil {
		w.held(w.inTree, theInTree)
	}
}

func (w *walk) held(one *life, who string) {
	of := watched
	if at := w.dice.IntN(6); at < len(watched) {
		of = watched[at : at+1]
	}
	if w.dice.IntN(3) == 0 {
		w.say("%s is behind with %v", who, of)
		one.Watches().Lag(1+w.dice.IntN(3), of...)
		return
	}
	w.say("%s receives nothing of %v", who, of)
	one.Watches().Hold(of...)
}

func (w *walk) newsArrive() {
	w.say("all news arrive")
	for _, remedy := range w.instances {
		for _, one := range remedy.alive {
			one.Watches().Release()
		}
	}
	if w.inTree != nil {
		w.inTree.Watches().Release()
	}
}

func (w *walk) timePasses() {
	by := time.Duration(1+w.dice.IntN(90)) * time.Minute
	w.say("%s pass for Remedy", by)
	w.now.by.Add(int64(by))
}
