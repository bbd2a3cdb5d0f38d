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

// TestAnOutageIsNeverTakenForAnAnswer cuts the way to a workload cluster in every manner, and asks all the time.
func TestAnOutageIsNeverTakenForAnAnswer(t *testing.T) {
	t.Parallel()
	addNode(t, second, "cut", "id://cut")
	tests := []struct {
		cut cut
		// gone: it is waited until Cluster API's cache has given up the connection.
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

// asker asks all the time, and notes every answer.
type asker struct {
	s   *stage
	key client.ObjectKey
	// present is a Node that is there all the time; missing is one that is not, and unjoined one that has not joined.
	present, missing, unjoined workload.Target
}

// ask looks, and reads, once. A Node that is there is never said to be anything but Present or Unreadable.
func (a *asker) ask(g Gomega) (looked, read []workload.Reading) {
	targets := []workload.Target{a.present, a.missing, a.unjoined}
	looked, read = a.s.look(a.key, targets...), a.s.read(a.key, targets...)
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
	// Many answers never come.
	s := newStageThatWaits(t, 2*time.Second)
	way := newRoad(t, addressOf(t, second))
	key, calm := s.cluster("prod", second, way), s.cluster("calm", second, nil)
	s.up(key)
	s.up(calm)
	a := &asker{
		s: s, key: key, present: workload.Target{Name: "cut", ProviderID: "id://cut"},
		missing: workload.Target{Name: "nobody", ProviderID: "id://nobody"}, unjoined: workload.Target{ProviderID: "id://unjoined"},
	}
	g.Eventually(func(g Gomega) {
		looked, read := a.ask(g)
		for _, readings := range [][]workload.Reading{looked, read} {
			g.Expect(readings).To(HaveExactElements(HaveField("State", health.Present), HaveField("State", health.Gone), HaveField("State", health.NotJoined)))
		}
	}, patience).Should(Succeed())
	told := s.toldOf(key)

	began := time.Now()
	way.set(kind)
	looked, read := a.ask(g)
	g.Expect(looked).To(HaveEach(HaveField("State", health.Unreadable)), "whatever is asked live, at once")
	g.Expect(read[1:]).To(HaveEach(HaveField("State", health.Unreadable)), "what the cache does not have")
	g.Eventually(func() []workload.Reading { return s.look(calm, a.present, a.missing) }, patience).
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
	g.Eventually(func() int { return s.toldOf(key) }, patience).Should(BeNumerically(">", told), "who depends on it is told")
	told = s.toldOf(key)

	way.set(whole)
	g.Eventually(func(g Gomega) {
		_, _ = a.ask(g)
		g.Expect(s.Get(key).Connection(t.Context()).Up).To(BeTrue())
	}, patience, 200*time.Millisecond).Should(Succeed())
	back := s.Get(key).Connection(t.Context())
	g.Expect(back.RestoredAt).To(And(BeTemporally(">", began), BeTemporally("<=", time.Now())))
	g.Expect(back.GracePeriodEnd()).To(Equal(back.RestoredAt.Add(50 * time.Second)))
	g.Eventually(func() int { return s.toldOf(key) }, patience).Should(BeNumerically(">", told), "who depends on it is told")
	g.Eventually(func(g Gomega) {
		looked, read := a.ask(g)
		for _, readings := range [][]workload.Reading{looked, read} {
			g.Expect(readings).To(HaveExactElements(HaveField("State", health.Present), HaveField("State", health.Gone), HaveField("State", health.NotJoined)))
		}
	}, patience, 200*time.Millisecond).Should(Succeed())
	// A machine that stands still for two seconds is an outage for every cluster. That one has a time of its own, then.
	g.Expect(s.Get(calm).Connection(t.Context()).RestoredAt).ToNot(Equal(back.RestoredAt), "another cluster did not come back with it")
}

// TestAHungClusterDelaysNobodyElse lets questions hang in one cluster, and asks another one meanwhile.
func TestAHungClusterDelaysNobodyElse(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := newStage(t)
	way := newRoad(t, addressOf(t, second))
	addNode(t, second, "busy", "id://busy")
	hung, calm := s.cluster("hung", second, way), s.cluster("calm", second, nil)
	s.up(hung)
	s.up(calm)
	way.set(blackHoled)
	answers := make(chan []workload.Reading, 1)
	go func() { answers <- s.look(hung, workload.Target{Name: "busy"}, workload.Target{Name: "nobody"}) }()
	for range 50 {
		g.Expect(s.look(calm, workload.Target{Name: "busy"}, workload.Target{Name: "nobody"})).To(HaveExactElements(
			HaveField("State", health.Present), HaveField("State", health.Gone)))
	}
	g.Expect(answers).ToNot(Receive(), "it hangs all the while")
	way.set(refused)
	g.Eventually(answers, patience).Should(Receive(HaveEach(HaveField("State", health.Unreadable))))
}
