// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

var noon = time.Date(2026, time.March, 14, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return noon.Add(-d) }

// taken is the memory of an adoption in progress.
var taken = Memory{ID: "a"}

// lost is the memory of losses, in minutes before now.
func lost(minutes ...time.Duration) Memory {
	m := Memory{}
	for _, n := range minutes {
		m.Losses = append(m.Losses, ago(n*time.Minute))
	}
	return m
}

// nextMoves are the moves and states that follow from facts.
var nextMoves = []struct {
	why   string
	facts Facts
	move  Move
	state State
}{
	{"not requested", Facts{ReportsUnpaused: true}, Leave, InTree},
	{"requested, not paused", Facts{Wanted: true, ReportsUnpaused: true}, Adopt, Waiting},
	{"requested, no condition", Facts{Wanted: true}, Await, Waiting},
	{"requested, no condition, not recorded", Facts{Wanted: true, Instance: "x"}, Record, Waiting},
	{"requested, no condition, recorded", Facts{Wanted: true, Instance: "x", Memory: Memory{Instance: "x"}}, Await, Waiting},
	{"requested, no condition, annotation removed", Facts{Wanted: true, Instance: "x", Memory: Memory{Recorded: true}}, Await, Waiting},
	{"Cluster paused, not recorded", Facts{Wanted: true, Instance: "x", ClusterPaused: true, ReportsUnpaused: true}, Record, Paused},
	{"paused by a user, not recorded", Facts{Wanted: true, Instance: "x", Pause: ForeignPause}, Record, Paused},
	{"exclusive, not recorded", Facts{Wanted: true, Instance: "x", Exclusive: true}, Record, Adopted},
	{"exclusive, other manager recorded", Facts{Wanted: true, Instance: "x", Exclusive: true, Memory: Memory{Instance: "y"}}, Act, Adopted},
	{"not requested, not recorded", Facts{Instance: "x", ReportsUnpaused: true}, Leave, InTree},
	{"condition of an earlier pause", Facts{Wanted: true, ReportsPaused: true}, Await, Waiting},
	{"pause not acknowledged", Facts{Wanted: true, Pause: RemedyPause, ReportsUnpaused: true, Memory: taken}, Await, Waiting},
	{"pause acknowledged", Facts{Wanted: true, Pause: RemedyPause, ReportsPaused: true, Memory: taken}, Act, Adopted},
	{"adopted by another manager, Cluster paused", Facts{
		Wanted: true, Instance: "x", Pause: RemedyPause, ReportsPaused: true, ClusterPaused: true,
		Memory: taken,
	}, Act, Adopted},
	{"recorded by another manager as well", Facts{
		Wanted: true, Instance: "x", Pause: RemedyPause, ReportsPaused: true,
		Memory: Memory{ID: "a", Instance: "y", Recorded: true},
	}, Act, Adopted},
	{
		"adopted by another manager, not acknowledged",
		Facts{Wanted: true, Instance: "x", Pause: RemedyPause, ReportsUnpaused: true, Memory: taken},
		Await, Waiting,
	},
	{
		"adopted by another manager",
		Facts{Wanted: true, Instance: "x", Pause: RemedyPause, ReportsPaused: true, Memory: taken},
		Record,
		Adopted,
	},
	{
		"adopted, Cluster paused",
		Facts{Wanted: true, Pause: RemedyPause, ReportsPaused: true, ClusterPaused: true, Memory: taken},
		Act,
		Adopted,
	},
	{"paused by a user", Facts{Wanted: true, Pause: ForeignPause, ReportsUnpaused: true}, Leave, Paused},
	{"pause replaced by a user", Facts{Wanted: true, Pause: ForeignPause, ReportsPaused: true, Memory: taken}, Leave, Paused},
	{"Cluster paused", Facts{Wanted: true, ClusterPaused: true, ReportsUnpaused: true}, Leave, Paused},
	{"pause removed", Facts{Wanted: true, ReportsPaused: true, Memory: taken}, NoteLoss, Waiting},
	{"pause removed, Cluster paused", Facts{Wanted: true, ReportsPaused: true, ClusterPaused: true, Memory: taken}, Leave, Paused},
	{"pause of a user removed", Facts{Wanted: true, ReportsUnpaused: true, Memory: Memory{ID: "a", Replaced: true}}, Adopt, Waiting},
	{"third loss", Facts{Wanted: true, ReportsPaused: true, Memory: Memory{ID: "a", Losses: lost(9, 4).Losses}}, NoteLoss, PauseConflict},
	{
		"third loss, not within ten minutes",
		Facts{Wanted: true, ReportsPaused: true, Memory: Memory{ID: "a", Losses: lost(11, 4).Losses}},
		NoteLoss, Waiting,
	},
	{"three losses in ten minutes", Facts{Wanted: true, ReportsUnpaused: true, Memory: lost(12, 5, 2)}, Leave, PauseConflict},
	{"three losses, an hour later", Facts{Wanted: true, ReportsUnpaused: true, Memory: lost(70, 65, 60)}, Adopt, Waiting},
	{"deleted before adoption", Facts{Wanted: true, Deleting: true, ReportsUnpaused: true}, Leave, InTree},
	{"deleted, cleanup needed", Facts{Wanted: true, Deleting: true, Cleanup: true, Pause: RemedyPause, Memory: taken}, Act, Adopted},
	{"deleted, no longer requested, cleanup needed", Facts{Deleting: true, Cleanup: true, Memory: taken}, Act, Adopted},
	{"deleted, pause recorded, cleanup needed", Facts{Deleting: true, Cleanup: true, Pause: RemedyPause}, Act, Adopted},
	{"deleted before its adoption was recorded, cleanup needed", Facts{Wanted: true, Deleting: true, Cleanup: true}, Act, Adopted},
	// Every writer of the check can set the finalizer.
	{"deleted, never adopted, with finalizer", Facts{Deleting: true, Cleanup: true}, Release, InTree},
	{"deleted, paused by a user", Facts{Wanted: true, Deleting: true, Cleanup: true, Pause: ForeignPause}, Leave, Paused},
	{"no longer requested", Facts{Pause: RemedyPause, ReportsPaused: true, Memory: taken}, Release, InTree},
	{"no longer requested, pause removed", Facts{Memory: taken}, Release, InTree},
	{"no longer requested, cleanup needed", Facts{Cleanup: true}, Release, InTree},
	{"no longer requested, annotations remain", Facts{Traces: true}, Release, InTree},
	{"no longer requested, Cluster paused", Facts{Pause: RemedyPause, ClusterPaused: true, Memory: taken}, Leave, Paused},
	{"no longer requested, paused by a user", Facts{Pause: ForeignPause, Traces: true}, Leave, Paused},
	{"exclusive", Facts{Wanted: true, Exclusive: true}, Act, Adopted},
	{"exclusive, not requested", Facts{Exclusive: true}, Leave, InTree},
	{"exclusive, adopted before", Facts{Wanted: true, Exclusive: true, Pause: RemedyPause, ReportsPaused: true}, Unpause, Adopted},
	{"exclusive, paused by a user", Facts{Wanted: true, Exclusive: true, Pause: ForeignPause}, Act, Adopted},
}

func TestDecide_Facts_HaveMoveAndState(t *testing.T) {
	for _, test := range nextMoves {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			d := Decide(&test.facts, "b", noon)
			g.Expect([]any{d.Move, d.State}).To(Equal([]any{test.move, test.state}))
			switch d.Move { //nolint:exhaustive // the other moves do not change the memory
			case Adopt:
				g.Expect(d.Memory).To(Equal(Memory{ID: "b", Losses: test.facts.Memory.Losses}))
			case Record:
				g.Expect(d.Memory).To(Equal(Memory{ID: test.facts.Memory.ID, Instance: "x", Recorded: true}))
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

// A user who pauses a check replaces the pause of Remedy, and removes it later.
func TestDecide_PauseReplacedByUser_IsNoLoss(t *testing.T) {
	g := NewWithT(t)
	f := Facts{Wanted: true, Pause: ForeignPause, ReportsPaused: true, Memory: Memory{ID: "a"}}
	f.Memory = Decide(&f, "b", noon).Memory
	f.Pause, f.ReportsPaused = NoPause, false
	g.Expect(Decide(&f, "b", noon).Move).To(Equal(Await))
	f.ReportsUnpaused = true
	d := Decide(&f, "b", noon)
	g.Expect([]any{d.Move, d.Memory}).To(Equal([]any{Adopt, Memory{ID: "b"}}))

	// The pause of Remedy was set again, and is removed.
	f.Pause = RemedyPause
	f.Memory = Decide(&f, "b", noon).Memory
	f.Pause = NoPause
	g.Expect(Decide(&f, "b", noon).Move).To(Equal(NoteLoss))
}

// The in-tree controller was stopped for good, and is started again.
func TestDecide_UnpausedByRemedy_IsNoLoss(t *testing.T) {
	g := NewWithT(t)
	losses := []time.Time{ago(2 * time.Minute), ago(time.Minute)}
	f := Facts{Wanted: true, Exclusive: true, Pause: RemedyPause, ReportsPaused: true, Memory: Memory{ID: "a", Instance: "x", Losses: losses}}
	d := Decide(&f, "b", noon)
	g.Expect([]any{d.Move, d.Memory.Instance}).To(Equal([]any{Unpause, "x"}), "that manager has to clean up")
	f = Facts{Wanted: true, ReportsUnpaused: true, Memory: ParseMemory(d.Memory.Text())}
	d = Decide(&f, "b", noon)
	g.Expect([]any{d.Move, d.Memory}).To(Equal([]any{Adopt, Memory{ID: "b", Losses: losses}}))
}

// A tool has removed the annotation, and left the pause.
func TestDecide_AnnotationRemoved_IsRecordedAgain(t *testing.T) {
	g := NewWithT(t)
	d := Decide(&Facts{Wanted: true, Instance: "x", Pause: RemedyPause, ReportsPaused: true}, "b", noon)
	g.Expect([]any{d.Move, d.Memory}).To(Equal([]any{Record, Memory{ID: "b", Instance: "x", Recorded: true}}))
}

func TestDecide_Contested_EndsAfterAnHour(t *testing.T) {
	g := NewWithT(t)
	f := Facts{Wanted: true, ReportsUnpaused: true, Memory: Memory{Losses: []time.Time{
		ago(time.Hour), ago(55 * time.Minute),
		ago(50 * time.Minute),
	}}}
	d := Decide(&f, "b", noon)
	g.Expect(d.Until).To(Equal(ago(-10 * time.Minute)))
	g.Expect(Decide(&f, "b", d.Until.Add(-time.Nanosecond)).State).To(Equal(PauseConflict))
	g.Expect(Decide(&f, "b", d.Until).Move).To(Equal(Adopt))
}

func TestMemory_Text_IsReadBack(t *testing.T) {
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
	g.Expect(ParseMemory("a yesterday 2026-03-14T11:59:00Z").Losses).To(HaveLen(1), "invalid parts count as absent")
	g.Expect(ParseMemory("a 2026-03-14T11:59:00Z 2026-03-14T11:56:00Z 2026-03-14T11:57:00Z " +
		"2026-03-14T11:58:00Z").Losses[0]).To(Equal(ago(3*time.Minute)), "older losses are dropped")
}

func TestMemory_WithProcessMemory_IsMerged(t *testing.T) {
	g := NewWithT(t)
	g.Expect((&Memory{}).With(&Memory{ID: "a"})).To(Equal(Memory{ID: "a"}), "all annotations were removed")
	g.Expect((&Memory{ID: "b"}).With(&Memory{ID: "a"})).To(Equal(Memory{ID: "b"}))
	g.Expect((&Memory{Instance: "x"}).With(&Memory{})).To(Equal(Memory{Instance: "x"}), "it has ended, and belonged to that manager")
	g.Expect((&Memory{}).With(&Memory{ID: "a", Instance: "x"}).Instance).To(Equal("x"))
	g.Expect((&Memory{ID: "b", Instance: "y"}).With(&Memory{ID: "a", Instance: "x"}).Instance).To(Equal("y"))
	g.Expect((&Memory{ID: "a"}).With(&Memory{ID: "a", Replaced: true}).Replaced).To(BeTrue(), "it is not in the annotation")
	g.Expect((&Memory{ID: "a", Instance: "y"}).With(&Memory{ID: "a", Recorded: true}).Recorded).To(BeTrue())
	g.Expect((&Memory{ID: "b"}).With(&Memory{ID: "a", Recorded: true}).Recorded).To(BeFalse())
	g.Expect((&Memory{ID: "b"}).With(&Memory{ID: "a", Replaced: true}).Replaced).To(BeFalse(), "it belongs to an earlier adoption")
	one, two := ago(time.Minute), ago(2*time.Minute)
	both := (&Memory{Losses: []time.Time{one}}).With(&Memory{Losses: []time.Time{two, one}})
	g.Expect(both.Losses).To(Equal([]time.Time{two, one}))
}
