// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

var noon = time.Date(2026, time.March, 14, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return noon.Add(-d) }

// taken is what is remembered of a take-over that is under way.
var taken = Memory{ID: "a"}

// lost is what is remembered of losses so many minutes ago.
func lost(minutes ...time.Duration) Memory {
	m := Memory{}
	for _, n := range minutes {
		m.Losses = append(m.Losses, ago(n*time.Minute))
	}
	return m
}

// nextMoves are what follows from what is known.
var nextMoves = []struct {
	why   string
	facts Facts
	move  Move
	state State
}{
	{"nobody asks for us", Facts{SaysUnpaused: true}, Leave, Theirs},
	{"somebody asks, and it is said to be free", Facts{Wanted: true, SaysUnpaused: true}, Take, Waiting},
	{"Cluster API has not looked at it yet", Facts{Wanted: true}, Await, Waiting},
	{"an old pause has not been noticed to be over", Facts{Wanted: true, SaysPaused: true}, Await, Waiting},
	{"our pause is not acknowledged yet", Facts{Wanted: true, Pause: OurPause, SaysUnpaused: true, Memory: taken}, Await, Waiting},
	{"our pause is acknowledged", Facts{Wanted: true, Pause: OurPause, SaysPaused: true, Memory: taken}, Act, Ours},
	{"another instance of ours has acted for it, and its Cluster is paused", Facts{Wanted: true, Instance: "x", Pause: OurPause, SaysPaused: true, ClusterPaused: true, Memory: taken}, Act, Ours},
	{"another instance of ours has signed it as well", Facts{Wanted: true, Instance: "x", Pause: OurPause, SaysPaused: true, Memory: Memory{ID: "a", Instance: "y", Signed: true}}, Act, Ours},
	{"another instance of ours has paused it, and that is not acknowledged yet", Facts{Wanted: true, Instance: "x", Pause: OurPause, SaysUnpaused: true, Memory: taken}, Await, Waiting},
	{"another instance of ours has acted for it", Facts{Wanted: true, Instance: "x", Pause: OurPause, SaysPaused: true, Memory: taken}, Sign, Ours},
	{"its Cluster is paused meanwhile, and its own rules say what that means", Facts{Wanted: true, Pause: OurPause, SaysPaused: true, ClusterPaused: true, Memory: taken}, Act, Ours},
	{"a person has paused it", Facts{Wanted: true, Pause: ForeignPause, SaysUnpaused: true}, Leave, Paused},
	{"a person has put a pause of his own over ours", Facts{Wanted: true, Pause: ForeignPause, SaysPaused: true, Memory: taken}, Leave, Paused},
	{"its Cluster is paused", Facts{Wanted: true, ClusterPaused: true, SaysUnpaused: true}, Leave, Paused},
	{"our pause is gone", Facts{Wanted: true, SaysPaused: true, Memory: taken}, NoteLoss, Waiting},
	{"our pause is gone while its Cluster is paused", Facts{Wanted: true, SaysPaused: true, ClusterPaused: true, Memory: taken}, Leave, Paused},
	{"a pause of somebody else has replaced ours, and is over", Facts{Wanted: true, SaysUnpaused: true, Memory: Memory{ID: "a", Replaced: true}}, Take, Waiting},
	{"our pause is gone for the third time", Facts{Wanted: true, SaysPaused: true, Memory: Memory{ID: "a", Losses: lost(9, 4).Losses}}, NoteLoss, Contested},
	{"our pause is gone for the third time, but not so fast", Facts{Wanted: true, SaysPaused: true, Memory: Memory{ID: "a", Losses: lost(11, 4).Losses}}, NoteLoss, Waiting},
	{"three losses in ten minutes", Facts{Wanted: true, SaysUnpaused: true, Memory: lost(12, 5, 2)}, Leave, Contested},
	{"three losses, and an hour of calm", Facts{Wanted: true, SaysUnpaused: true, Memory: lost(70, 65, 60)}, Take, Waiting},
	{"it goes before it was ours", Facts{Wanted: true, Deleting: true, SaysUnpaused: true}, Leave, Theirs},
	{"it goes and has something to be cleaned up", Facts{Wanted: true, Deleting: true, Cleanup: true, Pause: OurPause, Memory: taken}, Act, Ours},
	{"it goes, nobody wants it any more, and there is something to be cleaned up", Facts{Deleting: true, Cleanup: true}, Act, Ours},
	{"it goes, and a person has paused it", Facts{Wanted: true, Deleting: true, Cleanup: true, Pause: ForeignPause}, Leave, Paused},
	{"nobody asks any more", Facts{Pause: OurPause, SaysPaused: true, Memory: taken}, Release, Theirs},
	{"nobody asks any more, and our pause is gone already", Facts{Memory: taken}, Release, Theirs},
	{"nobody asks any more, and there is something to be cleaned up", Facts{Cleanup: true}, Release, Theirs},
	{"nobody asks any more, and notes are left", Facts{Traces: true}, Release, Theirs},
	{"nobody asks any more while the Cluster is paused", Facts{Pause: OurPause, ClusterPaused: true, Memory: taken}, Leave, Paused},
	{"nobody asks any more while a person has paused it", Facts{Pause: ForeignPause, Traces: true}, Leave, Paused},
	{"nobody else is there", Facts{Wanted: true, Exclusive: true}, Act, Ours},
	{"nobody else is there, and this one is not to be ours", Facts{Exclusive: true}, Leave, Theirs},
	{"nobody else is there any more", Facts{Wanted: true, Exclusive: true, Pause: OurPause, SaysPaused: true}, Unpause, Ours},
	{"nobody else is there, and a person has paused it: its own rules say what that means", Facts{Wanted: true, Exclusive: true, Pause: ForeignPause}, Act, Ours},
}

func TestTheNextMove(t *testing.T) {
	for _, test := range nextMoves {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			d := Decide(&test.facts, "b", noon)
			g.Expect([]any{d.Move, d.State}).To(Equal([]any{test.move, test.state}))
			switch d.Move { //nolint:exhaustive // the others remember what they knew
			case Take:
				g.Expect(d.Memory).To(Equal(Memory{ID: "b", Losses: test.facts.Memory.Losses}))
			case Sign:
				g.Expect(d.Memory).To(Equal(Memory{ID: "a", Instance: "x", Signed: true}))
			case NoteLoss:
				g.Expect(d.Memory.ID).To(BeEmpty())
				g.Expect(d.Memory.Losses).To(ContainElement(noon))
			case Release:
				g.Expect(d.Memory.Empty()).To(BeTrue())
			default:
				d.Memory.Replaced = false
				g.Expect(d.Memory).To(Equal(test.facts.Memory))
			}
		})
	}
}

// TestAPersonsOwnPauseIsNoLoss: whoever pauses a check replaces our pause, and takes away his own.
func TestAPersonsOwnPauseIsNoLoss(t *testing.T) {
	g := NewWithT(t)
	f := Facts{Wanted: true, Pause: ForeignPause, SaysPaused: true, Memory: Memory{ID: "a"}}
	f.Memory = Decide(&f, "b", noon).Memory
	f.Pause, f.SaysPaused = NoPause, false
	g.Expect(Decide(&f, "b", noon).Move).To(Equal(Await))
	f.SaysUnpaused = true
	d := Decide(&f, "b", noon)
	g.Expect([]any{d.Move, d.Memory}).To(Equal([]any{Take, Memory{ID: "b"}}))

	// He has put our pause back, and somebody takes that away.
	f.Pause = OurPause
	f.Memory = Decide(&f, "b", noon).Memory
	f.Pause = NoPause
	g.Expect(Decide(&f, "b", noon).Move).To(Equal(NoteLoss))
}

// TestWhatWeTakeAwayOurselvesIsNoLoss: Cluster API's own controller was stopped for good, and is started again.
func TestWhatWeTakeAwayOurselvesIsNoLoss(t *testing.T) {
	g := NewWithT(t)
	losses := []time.Time{ago(2 * time.Minute), ago(time.Minute)}
	f := Facts{Wanted: true, Exclusive: true, Pause: OurPause, SaysPaused: true, Memory: Memory{ID: "a", Instance: "x", Losses: losses}}
	d := Decide(&f, "b", noon)
	g.Expect([]any{d.Move, d.Memory.Instance}).To(Equal([]any{Unpause, "x"}), "it has still something to clean up")
	f = Facts{Wanted: true, SaysUnpaused: true, Memory: ParseMemory(d.Memory.Text())}
	d = Decide(&f, "b", noon)
	g.Expect([]any{d.Move, d.Memory}).To(Equal([]any{Take, Memory{ID: "b", Losses: losses}}))
}

// TestWhatWasSignedByNobodyIsSigned: somebody has taken our note away, and left our pause.
func TestWhatWasSignedByNobodyIsSigned(t *testing.T) {
	g := NewWithT(t)
	d := Decide(&Facts{Wanted: true, Instance: "x", Pause: OurPause, SaysPaused: true}, "b", noon)
	g.Expect([]any{d.Move, d.Memory}).To(Equal([]any{Sign, Memory{ID: "b", Instance: "x", Signed: true}}))
}

func TestAContestIsOverAfterAnHour(t *testing.T) {
	g := NewWithT(t)
	f := Facts{Wanted: true, SaysUnpaused: true, Memory: Memory{Losses: []time.Time{ago(time.Hour), ago(55 * time.Minute), ago(50 * time.Minute)}}}
	d := Decide(&f, "b", noon)
	g.Expect(d.Until).To(Equal(ago(-10 * time.Minute)))
	g.Expect(Decide(&f, "b", d.Until.Add(-time.Nanosecond)).State).To(Equal(Contested))
	g.Expect(Decide(&f, "b", d.Until).Move).To(Equal(Take))
}

func TestMemoryIsReadAsItWasWritten(t *testing.T) {
	for text, m := range map[string]Memory{
		"":                         {},
		"a":                        {ID: "a"},
		"a/x":                      {ID: "a", Instance: "x"},
		"a/x 2026-03-14T11:59:00Z": {ID: "a", Instance: "x", Losses: []time.Time{ago(time.Minute)}},
		"-/x":                      {Instance: "x"},
		"- 2026-03-14T11:59:00Z":   {Losses: []time.Time{ago(time.Minute)}},
		"a 2026-03-14T11:59:00.5Z": {ID: "a", Losses: []time.Time{ago(59500 * time.Millisecond)}},
	} {
		g := NewWithT(t)
		g.Expect(m.Text()).To(Equal(text))
		g.Expect(ParseMemory(text)).To(Equal(m))
	}
	g := NewWithT(t)
	g.Expect(ParseMemory("a yesterday 2026-03-14T11:59:00Z").Losses).To(HaveLen(1), "what cannot be read counts as not written")
	g.Expect(ParseMemory("a 2026-03-14T11:59:00Z 2026-03-14T11:56:00Z 2026-03-14T11:57:00Z 2026-03-14T11:58:00Z").Losses[0]).To(Equal(ago(3*time.Minute)), "more than matter are not kept")
}

func TestWhatTheProcessKnowsCountsAsWell(t *testing.T) {
	g := NewWithT(t)
	g.Expect((&Memory{}).With(&Memory{ID: "a"})).To(Equal(Memory{ID: "a"}), "everything was taken away")
	g.Expect((&Memory{ID: "b"}).With(&Memory{ID: "a"})).To(Equal(Memory{ID: "b"}))
	g.Expect((&Memory{Instance: "x"}).With(&Memory{})).To(Equal(Memory{Instance: "x"}), "it is over, and was for that one")
	g.Expect((&Memory{}).With(&Memory{ID: "a", Instance: "x"}).Instance).To(Equal("x"))
	g.Expect((&Memory{ID: "b", Instance: "y"}).With(&Memory{ID: "a", Instance: "x"}).Instance).To(Equal("y"))
	g.Expect((&Memory{ID: "a"}).With(&Memory{ID: "a", Replaced: true}).Replaced).To(BeTrue(), "that is noted nowhere else")
	g.Expect((&Memory{ID: "a", Instance: "y"}).With(&Memory{ID: "a", Signed: true}).Signed).To(BeTrue())
	g.Expect((&Memory{ID: "b"}).With(&Memory{ID: "a", Signed: true}).Signed).To(BeFalse())
	g.Expect((&Memory{ID: "b"}).With(&Memory{ID: "a", Replaced: true}).Replaced).To(BeFalse(), "it is about a take-over before this one")
	one, two := ago(time.Minute), ago(2*time.Minute)
	both := (&Memory{Losses: []time.Time{one}}).With(&Memory{Losses: []time.Time{two, one}})
	g.Expect(both.Losses).To(Equal([]time.Time{two, one}))
}
