// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// object is a check as it stands in the API server. Whatever is written makes a new version of it.
type object struct {
	pause         Pause
	clusterPaused bool
	// paused is the condition: unset, or what Cluster API's controller said last, and byAnnotation whether it named the annotation.
	said, paused, byAnnotation bool
	memory                     string
	wanted                     bool
}

// theirs is Cluster API's own controller: one at a time, with a cache that lags, and passes that take their time.
type theirs struct {
	cache  int
	acting bool
}

// ours is an instance of ours. There may be two of them that believe that they lead.
type ours struct {
	instance string
	cache    int
	known    Memory
}

type model struct {
	t        *rapid.T
	versions []object
	now      time.Time
	theirs   theirs
	ours     [2]ours
	ids      int
}

func (m *model) live() *object { return &m.versions[len(m.versions)-1] }

func (m *model) write(change func(*object)) {
	next := *m.live()
	change(&next)
	m.versions = append(m.versions, next)
}

func (o *object) facts(us *ours) *Facts {
	noted := ParseMemory(o.memory)
	return &Facts{
		Wanted: o.wanted, Instance: us.instance, Pause: o.pause, ClusterPaused: o.clusterPaused,
		SaysPaused: o.said && o.paused && o.byAnnotation, SaysUnpaused: o.said && !o.paused, Memory: noted.With(&us.known),
	}
}

// theyLook is a pass of Cluster API's controller, up to where it begins to act.
func (m *model) theyLook() {
	if m.theirs.acting {
		return
	}
	seen := &m.versions[m.theirs.cache]
	named := seen.pause != NoPause
	paused := named || seen.clusterPaused
	if !seen.said || seen.paused != paused || paused && seen.byAnnotation != named {
		// Cluster API writes conditions onto the newest version only: it reads again until its cache has that.
		m.theirs.cache = len(m.versions) - 1
		m.write(func(o *object) { o.said, o.paused, o.byAnnotation = true, paused, named })
		return
	}
	m.theirs.acting = !paused
}

// weLook is a pass of ours: a decision by what the cache says, and a look at the truth before an act.
func (m *model) weLook(us *ours) {
	d := Decide(m.versions[us.cache].facts(us), m.name(), m.now)
	fresh := us.cache == len(m.versions)-1
	switch d.Move {
	case Act:
		if Decide(m.live().facts(us), "", m.now).Move == Act && m.theirs.acting {
			m.t.Fatalf("both act: %+v", m.versions)
		}
	// Every write carries the version that was seen.
	case Take:
		if fresh {
			m.write(func(o *object) { o.pause, o.memory = OurPause, d.Memory.Text() })
			us.known, us.cache = d.Memory, len(m.versions)-1
		}
	case NoteLoss, Sign:
		if fresh {
			m.write(func(o *object) { o.memory = d.Memory.Text() })
			us.known, us.cache = d.Memory, len(m.versions)-1
		}
	case Release, Unpause:
		if fresh {
			m.write(func(o *object) {
				o.memory = d.Memory.Text()
				if o.pause == OurPause {
					o.pause = NoPause
				}
			})
			us.known, us.cache = Memory{}, len(m.versions)-1
		}
	case Leave, Await:
		if d.Memory.Replaced {
			us.known = d.Memory
		}
	}
}

func (m *model) name() string {
	m.ids++
	return fmt.Sprint("id", m.ids)
}

// happens is one of everything that can happen.
func (m *model) happens() {
	us := &m.ours[rapid.IntRange(0, 1).Draw(m.t, "instance")]
	lag := func(from int) int { return rapid.IntRange(from, len(m.versions)-1).Draw(m.t, "sees") }
	switch rapid.IntRange(0, 15).Draw(m.t, "happens") {
	case 0, 1, 2:
		us.cache = lag(us.cache)
	case 3, 4, 5:
		m.weLook(us)
	case 6, 7:
		m.theirs.cache = lag(m.theirs.cache)
	case 8, 9:
		m.theyLook()
	case 10, 11:
		m.theirs.acting = false
	case 12:
		m.now = m.now.Add(time.Duration(rapid.IntRange(0, 200).Draw(m.t, "seconds")) * time.Second)
	case 13:
		m.somebodyMeddles()
	case 14:
		m.write(func(o *object) { o.wanted = !o.wanted })
	case 15:
		m.somebodyIsRestarted(us)
	}
}

func (m *model) somebodyMeddles() {
	switch rapid.IntRange(0, 4).Draw(m.t, "meddles") {
	case 0:
		m.write(func(o *object) { o.clusterPaused = !o.clusterPaused })
	case 1:
		m.write(func(o *object) { o.pause = ForeignPause })
	case 2:
		m.write(func(o *object) { o.pause = NoPause })
	case 3:
		m.write(func(o *object) { o.pause, o.memory = NoPause, "" })
	case 4:
		// It is moved to another management cluster: annotations go with it, status does not, and others look after it there.
		m.write(func(o *object) { o.said, o.paused, o.byAnnotation = false, false, false })
		m.theirs = theirs{cache: len(m.versions) - 1}
		for i := range m.ours {
			m.ours[i] = ours{instance: m.ours[i].instance, cache: len(m.versions) - 1}
		}
	}
}

func (m *model) somebodyIsRestarted(us *ours) {
	if rapid.Bool().Draw(m.t, "theirs") {
		m.theirs = theirs{cache: len(m.versions) - 1}
		return
	}
	*us = ours{instance: us.instance, cache: len(m.versions) - 1}
}

// With whatever lags, is restarted, removed, copied or changed: Cluster API's controller and ours never act at the same time.
func TestBothNeverActAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{t: t, now: noon, versions: []object{{wanted: rapid.Bool().Draw(t, "wanted")}}}
		m.ours[1].instance = rapid.SampledFrom([]string{"", "x"}).Draw(t, "instance")
		for range rapid.IntRange(1, 500).Draw(t, "steps") {
			m.happens()
		}
	})
}

// When nobody meddles any more, one of both takes care of it in the end, and who does is who was asked.
func TestSomebodyTakesCareInTheEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{t: t, now: noon, versions: []object{{wanted: rapid.Bool().Draw(t, "wanted")}}}
		for range rapid.IntRange(0, 250).Draw(t, "steps") {
			m.happens()
		}
		m.write(func(o *object) {
			o.clusterPaused = false
			if o.pause == ForeignPause {
				o.pause = NoPause
			}
		})
		// Whatever was contested is so no more.
		m.now = m.now.Add(2 * time.Hour)
		for range 12 {
			m.theirs = theirs{cache: len(m.versions) - 1}
			m.theyLook()
			m.ours[0].cache, m.ours[1].cache = len(m.versions)-1, len(m.versions)-1
			m.weLook(&m.ours[0])
			m.ours[1].cache = len(m.versions) - 1
			m.weLook(&m.ours[1])
		}
		end := m.live()
		d := Decide(end.facts(&ours{}), "", m.now)
		switch {
		case end.wanted && d.Move != Act:
			t.Fatalf("wanted, and yet %+v: %+v", d, *end)
		case !end.wanted && (end.pause != NoPause || end.memory != "" || d.Move != Leave):
			t.Fatalf("something is left: %+v", *end)
		case !end.wanted && (!end.said || end.paused):
			t.Fatalf("nobody takes care of it: %+v", *end)
		}
	})
}
