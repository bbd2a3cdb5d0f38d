// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package differential_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// rest lets all controllers run, without other writers: then one of both reconciles each check, as requested, and unhealthy Machines are
// remediated.
func (w *walk) rest() {
	w.t.Helper()
	w.restWith(func() string { return []string{"OptIn", "All", "Ignore"}[w.dice.IntN(3)] })
	w.holds()
}

func (w *walk) restWith(flag func() string) {
	w.t.Helper()
	w.say("rest")
	w.bury()
	w.newsArrive()
	for _, remedy := range w.instances {
		w.goesAway(remedy)
	}
	if w.doomed {
		w.endInTree()
	}
	w.theyStart()
	w.somebodyUnpauses()
	cluster, running := &clusterv1.Cluster{}, false
	w.changes(cluster, clusterName, func() { cluster.Spec.Paused = &running })
	// No check is contested any more, and failed remediations are tried again.
	w.now.by.Add(int64(2 * time.Hour))
	for _, remedy := range w.instances {
		w.begins(remedy, flag(), false)
		w.say("%s starts: %s", remedy, remedy.flag)
	}
	for _, name := range w.checks {
		w.Eventually(func() bool { return w.createAgain(name) }).Should(BeTrue(), "%s has to be deleted before it is created again", name)
	}
	for _, name := range machineNames {
		w.becomes(name, w.dice.IntN(2) == 0)
	}
	adopted := w.wanted()
	w.say("of these, adopted are %v", adopted)
	// That is much to wait for at once, so the machine may take its time. Two controllers that overwrite each other are not at rest.
	before := -1
	w.Eventually(func() []string {
		writes := w.count()
		if wrong := w.restless(adopted); len(wrong) > 0 {
			return wrong
		}
		if before != writes || w.count() != writes {
			before = writes
			return []string{"there are writes, although all is as it should be"}
		}
		return nil
	}, 10*time.Minute).Should(BeEmpty(), "not all is as it should be at once")
}

// restless is what is not as it should be of all checks of Cluster API and all Machines. All are looked at each time: what ends at one of
// them may let something begin at another one.
func (w *walk) restless(adopted map[string]bool) []string {
	w.t.Helper()
	var wrong []string
	for _, name := range w.checks {
		if what := w.unsettled(name, adopted[name]); what != "" {
			wrong = append(wrong, name+": "+what)
		}
	}
	for _, name := range machineNames {
		if what := w.unwell(name, adopted); what != "" {
			wrong = append(wrong, what)
		}
	}
	return wrong
}

// wanted are the in-tree checks that Remedy has to reconcile.
func (w *walk) wanted() map[string]bool {
	w.t.Helper()
	cluster, adopted := &clusterv1.Cluster{}, map[string]bool{}
	w.Expect(w.api.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: clusterName}, cluster)).To(Succeed())
	for _, name := range w.checks {
		check := &clusterv1.MachineHealthCheck{}
		w.Expect(w.api.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, check)).To(Succeed())
		own, all := check.Annotations[remedyv1.AdoptAnnotation], cluster.Annotations[remedyv1.AdoptAnnotation]
		_, generated := check.Labels[clusterv1.ClusterTopologyOwnedLabel]
		remedy := w.actsFor(check.Labels[clusterv1.WatchLabel])
		adopted[name] = remedy != nil && own != "false" && (remedy.flag == "All" || remedy.flag == "OptIn" && (own == "true" || generated && all == "true"))
	}
	return adopted
}

// unsettled is what is not as it should be of a check; empty if nothing.
func (w *walk) unsettled(name string, adopted bool) string {
	w.t.Helper()
	check := &clusterv1.MachineHealthCheck{}
	if err := w.api.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, check); err != nil {
		return err.Error()
	}
	c := &inTreeCheck{environment: w.environment, check: check}
	by := ""
	if remedy := w.actsFor(check.Labels[clusterv1.WatchLabel]); remedy != nil {
		by = remedy.filter
	}
	paused, taken, pause, traces := c.condition(clusterv1.PausedCondition)(), c.condition(remedyv1.AdoptedCondition)(), c.pause(), c.traces()
	switch {
	case adopted && (pause != remedyv1.Pause || !strings.HasPrefix(paused, "True") || !strings.HasPrefix(taken, "True")):
		return fmt.Sprintf("it is not adopted: pause %q, Paused %q, Adopted %q", pause, paused, taken)
	case adopted && instanceOf(check) != by:
		return fmt.Sprintf("it is signed by %q, and not by %q", instanceOf(check), by)
	case !adopted && (pause != "" || !strings.HasPrefix(paused, "False")):
		return fmt.Sprintf("it is not released: pause %q, Paused %q, Adopted %q", pause, paused, taken)
	case !adopted:
		if left := withoutWish(traces); len(left) > 0 {
			return fmt.Sprintf("it is released, and has %v", left)
		}
	}
	return ""
}

// withoutWish is without the annotation that requests the adoption.
func withoutWish(traces []string) []string {
	var left []string
	for _, one := range traces {
		if one != remedyv1.AdoptAnnotation {
			left = append(left, one)
		}
	}
	return left
}

// unwell is what is wrong with a Machine, for a set of adopted checks. If one of its checks is not adopted, the in-tree controller acts on
// it, and Remedy does not.
func (w *walk) unwell(machine string, adopted map[string]bool) string {
	w.t.Helper()
	m := w.machines[machine]
	health, owner := w.health(m)(), w.condition(m, clusterv1.MachineOwnerRemediatedCondition)()
	all := w.requests()
	requested := slices.Contains(all, machine)
	state := fmt.Sprintf("%s: unhealthy %v, health %q, owner %q, requests %q", machine, w.unhealthy[machine], health, owner, all)
	released := slices.DeleteFunc(selecting(machine), func(check string) bool { return adopted[check] })
	switch {
	case ofTemplate(machine) && len(released) > 0:
		// The in-tree controller reports no Machine as healthy if there was no request for it, and stops at the first one that has got one.
		if requested && !w.unhealthy[machine] || w.unhealthy[machine] && slices.ContainsFunc(released, func(check string) bool { return !anyOf(check, all) }) {
			return state
		}
	// No owner runs here that removes OwnerRemediated from a healthy Machine. Until it is removed, the annotation names the check.
	case !w.unhealthy[machine] && (health != isWell || requested || m.Annotations[remedyv1.MarkedByAnnotation] != "" && owner == ""):
		return state
	case w.unhealthy[machine] && (health != isSick || ofTemplate(machine) != requested || ofTemplate(machine) == strings.HasPrefix(owner, "False")):
		return state
	}
	return w.left(m, released)
}

// anyOf reports whether there is a request for any of the Machines of a check.
func anyOf(check string, requests []string) bool {
	return slices.ContainsFunc(requests, func(machine string) bool { return slices.Contains(selecting(machine), check) })
}

// left is what is left on a Machine and its request of checks that are not adopted; empty if nothing is.
func (w *walk) left(m *clusterv1.Machine, released []string) string {
	w.t.Helper()
	nobodys := len(released) == len(selecting(m.Name)) && (w.alone || len(selectingOf(ownPools, m.Name)) == 0)
	objects := []client.Object{m}
	for _, request := range w.allRequests() {
		if request.GetName() == m.Name {
			objects = append(objects, &request)
		}
	}
	for _, object := range objects {
		if found := ourNotes(object); nobodys && len(found) > 0 {
			return fmt.Sprintf("%T %s has %v, and its checks are not adopted", object, m.Name, found)
		}
		for _, check := range released {
			signed, asked := "InTreeMachineHealthCheck/"+check, "InTreeMachineHealthCheck/"+w.namespace+"/"+check
			if notes := object.GetAnnotations(); notes[remedyv1.MarkedByAnnotation] == signed || notes[remedyv1.CheckAnnotation] == asked {
				return fmt.Sprintf("%T %s names %s, which is not adopted", object, m.Name, check)
			}
		}
	}
	return ""
}

// ourNotes is everything of Remedy on an object.
func ourNotes(o client.Object) []string {
	var all []string
	for key, value := range o.GetAnnotations() {
		if strings.HasPrefix(key, remedyv1.Prefix) || value == remedyv1.Pause {
			all = append(all, key)
		}
	}
	for key := range o.GetLabels() {
		if strings.HasPrefix(key, remedyv1.Prefix) {
			all = append(all, key)
		}
	}
	for _, finalizer := range o.GetFinalizers() {
		if strings.HasPrefix(finalizer, remedyv1.Prefix) {
			all = append(all, finalizer)
		}
	}
	return all
}

func (a *environment) allRequests() []unstructured.Unstructured {
	a.t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(remediator.Metal3.GroupVersion().WithKind(remediator.Metal3.Kind + "List"))
	a.Expect(a.api.List(a.ctx, list, client.InNamespace(a.namespace))).To(Succeed())
	return list.Items
}

// leave releases everything: no object has a trace of Remedy then.
func (w *walk) leave() {
	w.t.Helper()
	w.say("no adoption is requested any more")
	cluster := &clusterv1.Cluster{}
	w.changes(cluster, clusterName, func() { delete(cluster.Annotations, remedyv1.AdoptAnnotation) })
	for _, name := range w.checks {
		check := &clusterv1.MachineHealthCheck{}
		w.changes(check, name, func() { delete(check.Annotations, remedyv1.AdoptAnnotation) })
	}
	for name := range ownPools {
		w.Expect(client.IgnoreNotFound(w.api.Delete(w.ctx, &remedyv1.MachineHealthCheck{ObjectMeta: w.meta(name)}))).To(Succeed())
	}
	w.alone = true
	w.restWith(func() string { return "Ignore" })
	left := &remedyv1.MachineHealthCheckList{}
	w.Eventually(func() int {
		w.Expect(w.api.List(w.ctx, left, client.InNamespace(w.namespace))).To(Succeed())
		return len(left.Items)
	}).Should(BeZero())
	for _, name := range w.checks {
		c := &inTreeCheck{environment: w.environment, check: &clusterv1.MachineHealthCheck{ObjectMeta: w.meta(name)}}
		w.Expect(c.traces()).To(BeEmpty(), name)
	}
	for _, m := range w.machines {
		w.Expect(w.api.Get(w.ctx, client.ObjectKeyFromObject(m), m)).To(Succeed())
		w.Expect(ourNotes(m)).To(BeEmpty(), m.Name)
	}
	w.Expect(w.api.Get(w.ctx, client.ObjectKeyFromObject(cluster), cluster)).To(Succeed())
	w.Expect(ourNotes(cluster)).To(BeEmpty())
	w.holds()
}

// holds lets the audit follow what has happened since.
func (w *walk) holds() {
	w.t.Helper()
	notes := w.all()
	for ; w.audited < len(notes); w.audited++ {
		w.audit.follow(w.audited, &notes[w.audited])
	}
	for _, wrong := range w.audit.wrong {
		w.t.Error(wrong)
	}
	w.audit.wrong = nil
}

// dump prints the history of a walk that has failed.
func (w *walk) dump(t *testing.T) {
	t.Helper()
	if !t.Failed() {
		return
	}
	notes, told := w.all(), 0
	for _, line := range w.story {
		var until int
		_, _ = fmt.Sscan(line, &until)
		for ; told < until; told++ {
			t.Logf("%5d    %s", told, notes[told].String())
		}
		t.Log(line)
	}
	for ; told < len(notes); told++ {
		t.Logf("%5d    %s", told, notes[told].String())
	}
}
