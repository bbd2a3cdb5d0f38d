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

// rest lets everybody run, and nobody meddle: then each check is looked after by one of both, as was asked, and whoever is sick is
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
	for _, us := range w.us {
		w.goesAway(us)
	}
	if w.doomed {
		w.endInTree()
	}
	w.theyStart()
	w.somebodyUnpauses()
	cluster, running := &clusterv1.Cluster{}, false
	w.changes(cluster, clusterName, func() { cluster.Spec.Paused = &running })
	// Whatever was contested is so no more, and whoever was tried in vain is tried again.
	w.now.by.Add(int64(2 * time.Hour))
	for _, us := range w.us {
		w.begins(us, flag(), false)
		w.say("%s starts: %s", us, us.flag)
	}
	for _, name := range w.checks {
		w.Eventually(func() bool { return w.makeAnew(name) }).Should(BeTrue(), "%s has to go, so that it can be made anew", name)
	}
	for _, name := range machineNames {
		w.becomes(name, w.dice.IntN(2) == 0)
	}
	ours := w.wanted()
	w.say("of these, ours are %v", ours)
	// That is much to wait for at once, so the machine may take its time. Whoever writes in turns with somebody else is at no rest.
	before := -1
	w.Eventually(func() []string {
		writes := w.count()
		if wrong := w.restless(ours); len(wrong) > 0 {
			return wrong
		}
		if before != writes || w.count() != writes {
			before = writes
			return []string{"somebody writes, although all is as it should be"}
		}
		return nil
	}, 10*time.Minute).Should(BeEmpty(), "not all is as it should be at once")
}

// restless is what is not as it should be of all checks of Cluster API and all Machines. All are looked at each time: what ends at one of
// them may let something begin at another one.
func (w *walk) restless(ours map[string]bool) []string {
	w.t.Helper()
	var wrong []string
	for _, name := range w.checks {
		if what := w.unsettled(name, ours[name]); what != "" {
			wrong = append(wrong, name+": "+what)
		}
	}
	for _, name := range machineNames {
		if what := w.unwell(name, ours); what != "" {
			wrong = append(wrong, what)
		}
	}
	return wrong
}

// wanted are the checks of Cluster API that we have to look after.
func (w *walk) wanted() map[string]bool {
	w.t.Helper()
	cluster, ours := &clusterv1.Cluster{}, map[string]bool{}
	w.Expect(w.api.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: clusterName}, cluster)).To(Succeed())
	for _, name := range w.checks {
		check := &clusterv1.MachineHealthCheck{}
		w.Expect(w.api.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, check)).To(Succeed())
		own, all := check.Annotations[remedyv1.AdoptAnnotation], cluster.Annotations[remedyv1.AdoptAnnotation]
		_, generated := check.Labels[clusterv1.ClusterTopologyOwnedLabel]
		us := w.actsFor(check.Labels[clusterv1.WatchLabel])
		ours[name] = us != nil && own != "false" && (us.flag == "All" || us.flag == "OptIn" && (own == "true" || generated && all == "true"))
	}
	return ours
}

// unsettled is what is not as it should be of a check; empty if nothing.
func (w *walk) unsettled(name string, ours bool) string {
	w.t.Helper()
	check := &clusterv1.MachineHealthCheck{}
	if err := w.api.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, check); err != nil {
		return err.Error()
	}
	c := &theirs{environment: w.environment, check: check}
	by := ""
	if us := w.actsFor(check.Labels[clusterv1.WatchLabel]); us != nil {
		by = us.filter
	}
	paused, taken, pause, traces := c.says(clusterv1.PausedCondition)(), c.says(remedyv1.AdoptedCondition)(), c.pause(), c.traces()
	switch {
	case ours && (pause != remedyv1.Pause || !strings.HasPrefix(paused, "True") || !strings.HasPrefix(taken, "True")):
		return fmt.Sprintf("it is not ours: pause %q, Paused %q, Adopted %q", pause, paused, taken)
	case ours && instanceOf(check) != by:
		return fmt.Sprintf("it is signed by %q, and not by %q", instanceOf(check), by)
	case !ours && (pause != "" || !strings.HasPrefix(paused, "False")):
		return fmt.Sprintf("it is not theirs: pause %q, Paused %q, Adopted %q", pause, paused, taken)
	case !ours:
		if left := withoutWish(traces); len(left) > 0 {
			return fmt.Sprintf("it is theirs, and bears %v", left)
		}
	}
	return ""
}

// withoutWish is without the annotation by which people ask for us.
func withoutWish(traces []string) []string {
	var left []string
	for _, one := range traces {
		if one != remedyv1.AdoptAnnotation {
			left = append(left, one)
		}
	}
	return left
}

// unwell is what is not as it should be of a Machine, where it is known which checks of Cluster API are ours. Where one of its checks is
// theirs, the in-tree controller acts on it, and we do not.
func (w *walk) unwell(machine string, ours map[string]bool) string {
	w.t.Helper()
	m := w.machines[machine]
	health, owner := w.health(m)(), w.says(m, clusterv1.MachineOwnerRemediatedCondition)()
	all := w.requests()
	requested := slices.Contains(all, machine)
	state := fmt.Sprintf("%s: sick %v, health %q, owner %q, requests %q", machine, w.sick[machine], health, owner, all)
	theirs := slices.DeleteFunc(selecting(machine), func(check string) bool { return ours[check] })
	switch {
	case ofTemplate(machine) && len(theirs) > 0:
		// The in-tree controller says of no Machine that it is well if there was no request for it, and stops at the first one that has got one.
		if requested && !w.sick[machine] || w.sick[machine] && slices.ContainsFunc(theirs, func(check string) bool { return !anyOf(check, all) }) {
			return state
		}
	// No owner runs here that removes OwnerRemediated from a healthy Machine. Until it is removed, the annotation names the check.
	case !w.sick[machine] && (health != isWell || requested || m.Annotations[remedyv1.MarkedByAnnotation] != "" && owner == ""):
		return state
	case w.sick[machine] && (health != isSick || ofTemplate(machine) != requested || ofTemplate(machine) == strings.HasPrefix(owner, "False")):
		return state
	}
	return w.left(m, theirs)
}

// anyOf says whether there is a request for any of the Machines of a check.
func anyOf(check string, requests []string) bool {
	return slices.ContainsFunc(requests, func(machine string) bool { return slices.Contains(selecting(machine), check) })
}

// left is what is left on a Machine and its request of checks that are not ours; empty if nothing is.
func (w *walk) left(m *clusterv1.Machine, theirs []string) string {
	w.t.Helper()
	nobodys := len(theirs) == len(selecting(m.Name)) && (w.alone || len(selectingOf(ownPools, m.Name)) == 0)
	objects := []client.Object{m}
	for _, request := range w.allRequests() {
		if request.GetName() == m.Name {
			objects = append(objects, &request)
		}
	}
	for _, object := range objects {
		if found := ourNotes(object); nobodys && len(found) > 0 {
			return fmt.Sprintf("%T %s bears %v, and its checks are theirs", object, m.Name, found)
		}
		for _, check := range theirs {
			signed, asked := "InTreeMachineHealthCheck/"+check, "InTreeMachineHealthCheck/"+w.namespace+"/"+check
			if notes := object.GetAnnotations(); notes[remedyv1.MarkedByAnnotation] == signed || notes[remedyv1.CheckAnnotation] == asked {
				return fmt.Sprintf("%T %s is signed by %s, which is theirs", object, m.Name, check)
			}
		}
	}
	return ""
}

// ourNotes is everything of ours on an object.
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

// leave lets go of everything: nothing of ours is left on any object.
func (w *walk) leave() {
	w.t.Helper()
	w.say("nobody asks for us any more")
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
		c := &theirs{environment: w.environment, check: &clusterv1.MachineHealthCheck{ObjectMeta: w.meta(name)}}
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

// tell tells the story of a walk that has gone wrong.
func (w *walk) tell(t *testing.T) {
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
