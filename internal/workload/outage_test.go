// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// The test breaks the connection to a workload cluster in each way, and reads all the time.
func TestOutage_EveryKind_IsUnreadable(t *testing.T) {
	t.Parallel()
	addNode(t, second, "cut", "id://cut")
	tests := []struct {
		cut cut
		// gone: the test waits until the manager has closed the connection.
		gone bool
	}{{refused, true}, {blackHoled, false}, {halfOpen, false}}
	t.Run("all at once", func(t *testing.T) {
		for _, test := range tests {
			t.Run(string(test.cut), func(t *testing.T) {
				t.Parallel()
				outage(t, test.cut, test.gone)
			})
		}
	})
}

// poller reads all the time, and records every reading.
type poller struct {
	s   *stage
	key client.ObjectKey
	// present exists all the time, missing does not exist, and unjoined is a Machine whose Node has not joined.
	present, missing, unjoined workload.Target
}

// ask reads once, live and from the cache. A Node that exists is Present or Unreadable.
func (a *poller) ask(g Gomega) (looked, read []workload.Reading) {
	targets := []workload.Target{a.present, a.missing, a.unjoined}
	looked, read = a.s.readLive(a.key, targets...), a.s.read(a.key, targets...)
	for _, readings := range [][]workload.Reading{looked, read} {
		g.Expect(readings[0].State).To(Or(Equal(health.Present), Equal(health.Unreadable)))
		for _, r := range readings {
			g.Expect(r.Err != nil).To(Equal(r.State == health.Unreadable))
		}
	}
	return looked, read
}

func outage(t *testing.T, kind cut, gone bool) {
	g := NewWithT(t)
	// Many calls get no answer.
	s := (&stage{t: t, answerTime: 2 * time.Second, quickProbes: true}).enter()
	way := newProxy(t, addressOf(t, second))
	key, calm := s.cluster("prod", second, way), s.cluster("calm", second, nil)
	s.up(key)
	s.up(calm)
	a := &poller{
		s: s, key: key, present: workload.Target{Name: "cut", ProviderID: "id://cut"},
		missing: workload.Target{Name: "missing", ProviderID: "id://missing"}, unjoined: workload.Target{ProviderID: "id://unjoined"},
	}
	expectAnswers := func() {
		t.Helper()
		g.Eventually(func(g Gomega) {
			looked, read := a.ask(g)
			g.Expect([][]workload.Reading{looked, read}).To(HaveEach(HaveExactElements(
				HaveField("State", health.Present), HaveField("State", health.Gone), HaveField("State", health.NotJoined))))
		}, patience, 200*time.Millisecond).Should(Succeed())
	}
	expectAnswers()
	told := s.notificationsOf(key)

	began := time.Now()
	way.set(kind)
	looked, read := a.ask(g)
	g.Expect(looked).To(HaveEach(HaveField("State", health.Unreadable)), "whatever is asked live, at once")
	g.Expect(read[1:]).To(HaveEach(HaveField("State", health.Unreadable)), "what the cache does not have")
	g.Eventually(func() []workload.Reading { return s.readLive(calm, a.present, a.missing) }, patience).
		Should(HaveExactElements(HaveField("State", health.Present), HaveField("State", health.Gone)), "another cluster is as it was")

	down := func() bool {
		_, _ = a.ask(g)
		seen := s.Get(key).Connection(t.Context())
		if gone {
			return workload.ReadErrorReasonOf(seen.Err) == workload.NotConnected
		}
		return !seen.Up
	}
	g.Eventually(down, patience, 200*time.Millisecond).Should(BeTrue())
	if !s.Get(key).Connection(t.Context()).Up {
		_, read = a.ask(g)
		g.Expect(read).To(HaveEach(HaveField("State", health.Unreadable)), "what the cache holds is old")
	}
	g.Expect(s.Get(key).Connection(t.Context()).LastSeen).To(BeTemporally("<=", time.Now()))
	g.Eventually(func() int { return s.notificationsOf(key) }, patience).Should(BeNumerically(">", told), "the listeners are notified")
	told = s.notificationsOf(key)

	way.set(whole)
	g.Eventually(func(g Gomega) {
		_, _ = a.ask(g)
		g.Expect(s.Get(key).Connection(t.Context()).Up).To(BeTrue())
	}, patience, 200*time.Millisecond).Should(Succeed())
	back := s.Get(key).Connection(t.Context())
	g.Expect(back.RestoredAt).To(And(BeTemporally(">", began), BeTemporally("<=", time.Now())))
	g.Expect(back.GracePeriodEnd()).To(Equal(back.RestoredAt.Add(50 * time.Second)))
	g.Eventually(func() int { return s.notificationsOf(key) }, patience).Should(BeNumerically(">", told), "the listeners are notified")
	expectAnswers()
	// A pause of two seconds of the test machine would be an outage of every cluster, so the next stage has another timeout.
	g.Expect(s.Get(calm).Connection(t.Context()).RestoredAt).ToNot(Equal(back.RestoredAt), "another cluster did not come back with it")
}

// The manager probes a cluster as often as in production, and each probe is noted.
func TestConnection_ProductionProbes_AreNoted(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := newStage(t)
	key := s.cluster("prod", second, nil)
	s.up(key)
	connected := s.Get(key).Connection(t.Context())
	g.Expect(connected.LastSeen).ToNot(BeZero())
	g.Eventually(func() workload.Connection { return s.Get(key).Connection(t.Context()) }, patience, 200*time.Millisecond).
		Should(HaveField("LastSeen", BeTemporally(">", connected.LastSeen)))
}

// Calls to one cluster hang, and another cluster is read meanwhile.
func TestOutage_HungCluster_DelaysNoOther(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := newStage(t)
	way := newProxy(t, addressOf(t, second))
	addNode(t, second, "busy", "id://busy")
	hung, calm := s.cluster("hung", second, way), s.cluster("calm", second, nil)
	s.up(hung)
	s.up(calm)
	way.set(blackHoled)
	answers := make(chan []workload.Reading, 1)
	go func() { answers <- s.readLive(hung, workload.Target{Name: "busy"}, workload.Target{Name: "missing"}) }()
	// A call ends after some seconds, and a busy machine needs longer for all of these.
	meanwhile := 0
	for range 50 {
		g.Expect(s.readLive(calm, workload.Target{Name: "busy"}, workload.Target{Name: "missing"})).To(HaveExactElements(
			HaveField("State", health.Present), HaveField("State", health.Gone)))
		if len(answers) == 0 {
			meanwhile++
		}
	}
	g.Expect(meanwhile).To(BeNumerically(">", 0), "the other cluster answers while this one hangs")
	way.set(refused)
	g.Eventually(answers, patience).Should(Receive(HaveEach(HaveField("State", health.Unreadable))))
}
