// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// object is a version of a check in the API server.
type object struct {
	pause         Pause
	clusterPaused bool
	// set, paused and byAnnotation are the condition: whether the in-tree controller has set it, its status, and whether it names the
	// annotation.
	set, paused, byAnnotation bool
	memory                    string
	wanted                    bool
}

// inTree is the in-tree controller: one worker, with a cache that lags, and reconciles that take time.
type inTree struct {
	cache  int
	acting bool
}

// manager is an instance of Remedy. Two of them may act as leader.
type manager struct {
	instance string
	cache    int
	known    Memory
}

type model struct {
	t        *rapid.T
	versions []object
	now      time.Time
	inTree   inTree
	managers [2]manager
	ids      int
}

func (m *model) live() *object { return &m.versions[len(m.versions)-1] }

func (m *model) write(change func(*object)) {
	next := *m.live()
	change(&next)
	m.versions = append(m.versions, next)
}

func (o *object) facts(r *manager) *Facts {
	noted := ParseMemory(o.memory)
	return &Facts{
		Wanted: o.wanted, Instance: r.instance, Pause: o.pause, ClusterPaused: o.clusterPaused,
		ReportsPaused: o.set && o.paused && o.byAnnotation, ReportsUnpaused: o.set && !o.paused, Memory: noted.With(&r.known),
	}
}

// reconcileInTree is a reconcile of the in-tree controller, up to where it begins to act.
func (m *model) reconcileInTree() {
	if m.inTree.acting {
		return
	}
	seen := &m.versions[m.inTree.cache]
	named := seen.pause != NoPause
	paused := named || seen.clusterPaused
	if !seen.set || seen.paused != paused || paused && seen.byAnnotation != named {
		// It writes conditions only to the newest version, so it reads again until its cache has that.
		m.inTree.cache = len(m.versions) - 1
		m.write(func(o *object) { o.set, o.paused, o.byAnnotation = true, paused, named })
		return
	}
	m.inTree.acting = !paused
}

// reconcile is a reconcile of Remedy: a decision by the cache, and a live read before an action.
func (m *model) reconcile(r *manager) {
	d := Decide(m.versions[r.cache].facts(r), m.name(), m.now)
	fresh := r.cache == len(m.versions)-1
	switch d.Move {
	case Act:
		if Decide(m.live().facts(r), "", m.now).Move == Act && m.inTree.acting {
			m.t.Fatalf("both act: %+v", m.versions)
		}
	// Every write has the version that was read.
	case Adopt:
		if fresh {
			m.write(func(o *object) { o.pause, o.memory = RemedyPause, d.Memory.Text() })
			r.known, r.cache = d.Memory, len(m.versions)-1
		}
	case NoteLoss, Record:
		if fresh {
			m.write(func(o *object) { o.memory = d.Memory.Text() })
			r.known, r.cache = d.Memory, len(m.versions)-1
		}
	case Release, Unpause:
		if fresh {
			m.write(func(o *object) {
				o.memory = d.Memory.Text()
				if o.pause == RemedyPause {
					o.pause = NoPause
				}
			})
			r.known, r.cache = Memory{}, len(m.versions)-1
		}
	case Leave, Await:
		if d.Memory.Replaced {
			r.known = d.Memory
		}
	}
}

func (m *model) name() string {
	m.ids++
	return fmt.Sprint("id", m.ids)
}

// step is one of everything that can happen.
func (m *model) step() {
	r := &m.managers[rapid.IntRange(0, 1).Draw(m.t, "instance")]
	lag := func(from int) int { return rapid.IntRange(from, len(m.versions)-1).Draw(m.t, "version") }
	switch rapid.IntRange(0, 15).Draw(m.t, "step") {
	case 0, 1, 2:
		r.cache = lag(r.cache)
	case 3, 4, 5:
		m.reconcile(r)
	case 6, 7:
		m.inTree.cache = lag(m.inTree.cache)
	case 8, 9:
		m.reconcileInTree()
	case 10, 11:
		m.inTree.acting = false
	case 12:
		m.now = m.now.Add(time.Duration(rapid.IntRange(0, 200).Draw(m.t, "seconds")) * time.Second)
	case 13:
		m.interfere()
	case 14:
		m.write(func(o *object) { o.wanted = !o.wanted })
	case 15:
		m.restart(r)
	}
}

func (m *model) interfere() {
	switch rapid.IntRange(0, 4).Draw(m.t, "interference") {
	case 0:
		m.write(func(o *object) { o.clusterPaused = !o.clusterPaused })
	case 1:
		m.write(func(o *object) { o.pause = ForeignPause })
	case 2:
		m.write(func(o *object) { o.pause = NoPause })
	case 3:
		m.write(func(o *object) { o.pause, o.memory = NoPause, "" })
	case 4:
		// It is moved to another management cluster, which has other controllers: annotations are copied, status is not.
		m.write(func(o *object) { o.set, o.paused, o.byAnnotation = false, false, false })
		m.inTree = inTree{cache: len(m.versions) - 1}
		for i := range m.managers {
			m.managers[i] = manager{instance: m.managers[i].instance, cache: len(m.versions) - 1}
		}
	}
}

func (m *model) restart(r *manager) {
	if rapid.Bool().Draw(m.t, "in-tree") {
		m.inTree = inTree{cache: len(m.versions) - 1}
		return
	}
	*r = manager{instance: r.instance, cache: len(m.versions) - 1}
}

// The in-tree controller and Remedy never act at the same time, whatever lags, is restarted, removed, copied or changed.
func TestDecide_AnyHistory_NeverBothAct(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{t: t, now: noon, versions: []object{{wanted: rapid.Bool().Draw(t, "wanted")}}}
		m.managers[1].instance = rapid.SampledFrom([]string{"", "x"}).Draw(t, "instance")
		for range rapid.IntRange(1, 500).Draw(t, "steps") {
			m.step()
		}
	})
}

// Without further interference, the requested controller reconciles the check in the end.
func TestDecide_WithoutInterference_OneControllerActs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{t: t, now: noon, versions: []object{{wanted: rapid.Bool().Draw(t, "wanted")}}}
		for range rapid.IntRange(0, 250).Draw(t, "steps") {
			m.step()
		}
		m.write(func(o *object) {
			o.clusterPaused = false
			if o.pause == ForeignPause {
				o.pause = NoPause
			}
		})
		// Any contest ends.
		m.now = m.now.Add(2 * time.Hour)
		for range 12 {
			m.inTree = inTree{cache: len(m.versions) - 1}
			m.reconcileInTree()
			m.managers[0].cache, m.managers[1].cache = len(m.versions)-1, len(m.versions)-1
			m.reconcile(&m.managers[0])
			m.managers[1].cache = len(m.versions) - 1
			m.reconcile(&m.managers[1])
		}
		end := m.live()
		d := Decide(end.facts(&manager{}), "", m.now)
		switch {
		case end.wanted && d.Move != Act:
			t.Fatalf("requested, but %+v: %+v", d, *end)
		case !end.wanted && (end.pause != NoPause || end.memory != "" || d.Move != Leave):
			t.Fatalf("not cleaned up: %+v", *end)
		case !end.wanted && (!end.set || end.paused):
			t.Fatalf("no controller reconciles it: %+v", *end)
		}
	})
}
