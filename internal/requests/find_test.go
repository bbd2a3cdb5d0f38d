// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func namesOf(all []*Request) []string {
	names := make([]string, 0, len(all))
	for _, f := range all {
		names = append(names, f.Name)
	}
	return names
}

func TestFind_SeveralChecks_AreKeptApart(t *testing.T) {
	s := settled(t)
	checks := []Check{s.check("a"), s.check("b"), {Kind: "InTreeMachineHealthCheck", Namespace: s.namespace, Name: "a"}}
	kind := s.reference().RequestKind()
	for i, c := range checks {
		s.usable(c, s.reference())
		for _, machine := range []string{"y", "x"} {
			name := string(rune('0'+i)) + machine
			s.create(c, Object{name, types.UID("uid-" + name)})
		}
	}
	stranger := s.kind.NewRequest(s.namespace, "stranger")
	s.Expect(admin.Create(t.Context(), stranger)).To(Succeed())
	for i, c := range checks {
		found, err := s.requests.OfCheck(t.Context(), c, kind)
		s.Expect(err).ToNot(HaveOccurred())
		prefix := string(rune('0' + i))
		s.Expect(namesOf(found)).To(Equal([]string{prefix + "x", prefix + "y"}))
	}
	found, err := s.requests.OfCheck(t.Context(), s.check("c"), kind)
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(found).To(BeEmpty())
	s.Eventually(func() string {
		f, known := s.requests.Get(kind, client.ObjectKeyFromObject(stranger))
		s.Expect(known).To(BeTrue())
		if f == nil {
			return ""
		}
		return f.String()
	}).Should(Equal("Reboot " + s.namespace + "/stranger"))
	_, known := s.requests.Get(s.reference().TemplateKind(), client.ObjectKeyFromObject(stranger))
	s.Expect(known).To(BeFalse())
	about := s.requests.ForTarget(OfMachine(Object{"1x", "uid-1x"}, Object{}))
	s.Expect(namesOf(about)).To(Equal([]string{"1x"}))
	s.Expect(s.requests.ForTarget(OfMachine(Object{"1x", ""}, Object{}))).To(BeEmpty())
	s.Expect(about[0].String()).To(Equal("Reboot " + s.namespace + "/1x of MachineHealthCheck " + s.namespace + "/b"))
}

func TestSource_RelevantChange_WakesTheRightChecks(t *testing.T) {
	s := settled(t)
	for _, name := range []string{"a", "b"} {
		s.usable(s.check(name), s.reference())
	}
	elsewhere := Check{Kind: machineCheck.Kind, Namespace: "elsewhere", Name: "far-off"}
	_, err := s.requests.OfCheck(t.Context(), elsewhere, s.reference().RequestKind())
	s.Expect(err).ToNot(HaveOccurred())
	// The tail is the last thing that the watch brings: what comes before it has arrived when it has.
	tail := 0
	arrived := func() []string {
		tail++
		marker := s.kind.NewRequest("default", s.namespace+strings.Repeat("x", tail))
		marker.SetAnnotations(map[string]string{"remedy.cluster.x-k8s.io/check": machineCheck.Kind + "/default/tail"})
		marker.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: marker.GetName(), UID: "1"}})
		s.Expect(admin.Create(t.Context(), marker)).To(Succeed())
		var woken []string
		s.Eventually(func() []string {
			woken = append(woken, s.wakes()...)
			return woken
		}).Should(ContainElement("tail"))
		rest := []string{}
		for _, name := range woken {
			if name != "tail" {
				rest = append(rest, name)
			}
		}
		return rest
	}
	// The event of the first list arrives before that: changes of templates arrive one after the other.
	arrived()
	s.Expect(admin.Create(t.Context(), s.kind.NewTemplate(s.namespace, "last", map[string]any{}))).To(Succeed())
	s.Eventually(func() *cachedTemplate {
		_, templates := s.requests.kind(kindKey{s.reference().TemplateKind(), true}).stores()
		last, _ := templates.get(client.ObjectKey{Namespace: s.namespace, Name: "last"})
		return last
	}).ShouldNot(BeNil())
	s.wakes()
	request := s.create(s.check("a"), Object{"m1", "uid-1"})
	s.Expect(arrived()).To(
		ConsistOf(BeElementOf("a", "b"), BeElementOf("a", "b")),
		"a request that comes may be in the way of others, but not in another namespace",
	)

	there := s.there("m1")
	s.Expect(unstructured.SetNestedField(there.Object, "Running", "status", "phase")).To(Succeed())
	s.Expect(admin.Status().Update(t.Context(), there)).To(Succeed())
	s.Expect(arrived()).To(Equal([]string{"a"}), "its remediator acts")
	there.SetLabels(map[string]string{"some": "label"})
	s.Expect(unstructured.SetNestedField(there.Object, "fast", "spec", "speed")).To(Succeed())
	s.Expect(admin.Update(t.Context(), there)).To(Succeed())
	s.Expect(unstructured.SetNestedField(there.Object, int64(7), "status", "retries")).To(Succeed())
	s.Expect(admin.Status().Update(t.Context(), there)).To(Succeed())
	s.Expect(arrived()).To(BeEmpty(), "no part of it is read")

	s.Expect(unstructured.SetNestedSlice(there.Object, []any{map[string]any{"type": "Succeeded", "status": "True"}}, "status", "conditions")).To(Succeed())
	s.Expect(admin.Status().Update(t.Context(), there)).To(Succeed())
	s.Expect(arrived()).To(Equal([]string{"a"}))
	s.Eventually(func() bool { return s.mine()[0].Facts(Naming{}).Succeeded }).Should(BeTrue())

	s.Expect(s.requests.Delete(t.Context(), request)).To(Succeed())
	s.Expect(arrived()).To(ConsistOf("a", "b"), "a name is free again")
}

// mine are the requests of the check a, when they are known.
func (s *scene) mine() []*Request {
	s.t.Helper()
	found, err := s.requests.OfCheck(s.t.Context(), s.check("a"), s.reference().RequestKind())
	s.Expect(err).ToNot(HaveOccurred())
	return found
}

// watches waits until what is new of requests and templates arrives by itself: who has read them all only begins to watch them then.
func (s *scene) watches() {
	s.t.Helper()
	key := client.ObjectKey{Namespace: s.namespace, Name: "news"}
	news := s.reference()
	news.Name = key.Name
	s.Expect(admin.Create(s.t.Context(), s.kind.NewRequest(key.Namespace, key.Name))).To(Succeed())
	s.Expect(admin.Create(s.t.Context(), s.kind.NewTemplate(key.Namespace, key.Name, map[string]any{}))).To(Succeed())
	s.Eventually(func(g Gomega) {
		request, _ := s.requests.Get(news.RequestKind(), key)
		g.Expect(request).ToNot(BeNil())
		g.Expect(s.requests.Resolve(s.t.Context(), s.check("a"), "", s.reference(), news)[1].Usable()).To(BeTrue())
	}).Should(Succeed())
}

func TestFind_Unchanged_AsksNothing(t *testing.T) {
	s := settledAlone(t)
	c, soft := s.check("a"), s.reference()
	s.create(c, Object{"m1", "uid-1"})
	s.watches()
	s.traffic.since()
	for range 100 {
		one := s.requests.Resolve(t.Context(), c, "", soft)
		s.Expect(one[0].Usable()).To(BeTrue())
		s.Expect(s.mine()).To(HaveLen(1))
		s.requests.ForTarget(OfMachine(Object{"m1", "uid-1"}, Object{}))
		s.requests.Get(soft.RequestKind(), client.ObjectKey{Namespace: s.namespace, Name: "m1"})
	}
	s.Expect(s.traffic.since()).To(BeEmpty())
	of := func() { _, _ = s.requests.OfCheck(context.Background(), c, s.kind.GroupVersionKind) }
	// What the rest of the process allocates meanwhile is counted, too.
	s.Expect(min(testing.AllocsPerRun(100, of), testing.AllocsPerRun(100, of), testing.AllocsPerRun(100, of))).To(
		BeNumerically("<=", 4), "a slice of what is found, and no copy of it",
	)
}

func TestStore_LargeRequest_KeepsRelevantPart(t *testing.T) {
	g := NewWithT(t)
	const many = 100
	kept := newStore(Read, func(_, _ *Request) {}, func() {})
	heap := func() uint64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	before := heap()
	for i := range many {
		request := &unstructured.Unstructured{}
		content := fmt.Sprintf(`{"apiVersion":"a.io/v1","kind":"Reboot","metadata":{"namespace":"a","name":"m%d","uid":"u%d",
			"ownerReferences":[{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Machine","name":"m%[1]d","uid":"1"}],"managedFields":[{"manager":"%[3]s"}],
			"annotations":{"remedy.cluster.x-k8s.io/check":"MachineHealthCheck/a/b","other":"%[3]s"}},"spec":{"script":"%[3]s"},"status":{"log":"%[3]s"}}`,
			i, i, strings.Repeat("x", 100_000))
		g.Expect(request.UnmarshalJSON([]byte(content))).To(Succeed())
		g.Expect(kept.Add(request)).To(Succeed())
	}
	after := heap()
	g.Expect(kept.indexed(Check{"MachineHealthCheck", "a", "b"}, nil)).To(HaveLen(many))
	g.Expect(after).To(BeNumerically("<", before+many*10_000), "four hundred kilobytes each are not kept")
}

func TestForget_LastCheck_StopsEveryWatch(t *testing.T) {
	s := settledAlone(t)
	before := runtime.NumGoroutine()
	s.requests.Forget(s.check("a"))
	s.requests.running.Wait()
	s.Expect(s.requests.kinds).To(BeEmpty())
	s.Eventually(runtime.NumGoroutine).Should(BeNumerically("<", before))
	for range 20 {
		s.usable(s.check("a"), s.reference())
		s.requests.Forget(s.check("a"))
		s.requests.running.Wait()
	}
	s.Eventually(runtime.NumGoroutine).Should(BeNumerically("<", before))
	s.usable(s.check("a"), s.reference())
	s.stop()
	s.Eventually(runtime.NumGoroutine).Should(BeNumerically("<", before))
	_, err := s.requests.OfCheck(t.Context(), s.check("b"), s.reference().RequestKind())
	s.Expect(err).ToNot(HaveOccurred(), "what was read is still known")
}

func TestWatch_RequestsExist_IsKept(t *testing.T) {
	s := settled(t)
	c := s.check("a")
	request := s.create(c, Object{"m1", "uid-1"})
	// The check names another template now, and asks for nothing of the old kind.
	s.requests.Resolve(t.Context(), c, "")
	found, err := s.requests.OfCheck(t.Context(), c)
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(namesOf(found)).To(Equal([]string{"m1"}))
	s.Expect(s.requests.kinds).To(HaveLen(1), "the templates are of no use any more")
	s.Expect(s.requests.Delete(t.Context(), request)).To(Succeed())
	s.Eventually(func() []*Request {
		found, err := s.requests.OfCheck(t.Context(), c)
		s.Expect(err).ToNot(HaveOccurred())
		return found
	}).Should(BeEmpty())
}

func TestOf_NothingWatched_ReadsLive(t *testing.T) {
	s := newScene(t, "Reboot")
	s.install(s.kind.CRDs()...)
	prod := client.ObjectKey{Namespace: "team", Name: "prod"}
	plain, err := New(t.Context(), Options{Client: admin, Clock: s.clock, Cluster: prod})
	s.Expect(err).ToNot(HaveOccurred())
	soft := s.reference()
	one := plain.Resolve(t.Context(), nodeCheck, "", soft)[0]
	s.Expect(one.Err).ToNot(HaveOccurred())
	s.Expect(one.Problem.Reason).To(Equal("TemplateNotFound"))
	s.Expect(one.Again).To(Equal(noon.Add(missingFor)), "no watch reports when it is created")
	s.template()
	one = plain.Resolve(t.Context(), nodeCheck, "", soft)[0]
	s.Expect(one.Usable()).To(BeTrue())
	d := &Draft{Check: nodeCheck, Target: OfNode(Object{"n1", "uid-1"}, Object{}), Template: soft, Order: 1, Attempt: 1, Started: noon, Place: InWorkload, Cluster: prod}
	made, created, err := plain.Create(t.Context(), d)
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(created).To(BeTrue())
	found, err := plain.OfCheck(t.Context(), nodeCheck, soft.RequestKind())
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(found).To(HaveLen(1))
	s.Expect(found[0].UID).To(Equal(made.UID))
	found, err = plain.OfCheck(t.Context(), Check{Kind: nodeCheck.Kind, Name: "another"}, soft.RequestKind())
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(found).To(BeEmpty())
	missing := soft
	missing.Kind = "NothingTemplate"
	_, err = plain.OfCheck(t.Context(), nodeCheck, soft.RequestKind(), missing.RequestKind())
	s.Expect(err).To(MatchError(ContainSubstring("kind is not served")))
	s.Expect(plain.Resolve(t.Context(), nodeCheck, "", missing)[0].Problem.Reason).To(Equal("KindNotServed"))
	s.Expect(plain.StopRemediator(t.Context(), made, noon, false)).To(Succeed())
	s.Expect(plain.Delete(t.Context(), made)).To(Succeed())
	live, err := plain.GetLive(t.Context(), soft.RequestKind(), made.Key())
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(live).To(BeNil())
}

func TestLiveOf_Requests_AreReadLive(t *testing.T) {
	s := settled(t)
	s.create(s.check("a"), Object{"m1", "uid-1"})
	s.create(s.check("b"), Object{"m2", "uid-2"})
	// Another process has not read them.
	s.begin(t.Context(), s.config())
	gone := s.kind.GroupVersion().WithKind("Gone")
	found, err := s.requests.ListLive(t.Context(), s.check("a"), gone, s.reference().RequestKind())
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(namesOf(found)).To(Equal([]string{"m1"}))
	s.grant()
	s.Eventually(func() error {
		_, err := s.requests.ListLive(t.Context(), s.check("a"), s.reference().RequestKind())
		return err
	}).Should(MatchError(ContainSubstring("forbidden")), "what cannot be read is not taken for nothing")
	plain, err := New(t.Context(), Options{Client: admin, Clock: s.clock})
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(plain.ListLive(t.Context(), s.check("a"), gone)).To(BeEmpty(), "a kind that is not served has no requests")
}
