//go:build proof

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants_test

// The tests of the handshake: a table, a model in which everything lags and is meddled with, and what is remembered.
const (
	nextMove = "TestDecide_Facts_HaveMoveAndState"
	neither  = "TestDecide_AnyHistory_NeverBothAct"
	inTheEnd = "TestDecide_WithoutInterference_OneControllerActs"
	contests = "TestDecide_Contested_EndsAfterAnHour"
	noted    = "TestMemory_Text_IsReadBack"
	known    = "TestMemory_WithProcessMemory_IsMerged"
	ownPause = "TestDecide_PauseReplacedByUser_IsNoLoss"
	unsigned = "TestDecide_AnnotationRemoved_IsRecordedAgain"

	byOurselves = "TestDecide_UnpausedByRemedy_IsNoLoss"
)

func o(file, from, to, test string) mutant {
	return mutantIn("internal/adoption", file, from, to, test)
}

var handedOver = []mutant{
	o("handshake.go", "f.Pause == RemedyPause && f.ReportsPaused:", "f.Pause == RemedyPause:", neither),
	o("handshake.go", "f.Pause == RemedyPause && f.ReportsPaused:", "f.ReportsPaused:", nextMove),
	o("handshake.go", "d.Move == Leave || d.Move == Await || d.Move == Act", "d.Move == Leave || d.Move == Await", nextMove),
	o("handshake.go", "d.Memory.Instance != \"\" || f.Instance == \"\"", "f.Instance == \"\"", nextMove),
	o("handshake.go", "f.Deleting || f.Memory.Recorded || f.Memory.ID", "f.Deleting || f.Memory.ID", nextMove),
	o("handshake.go", "\tcase f.ReportsUnpaused:\n", "\tcase true:\n", nextMove),
	o("handshake.go", "\tcase f.Pause == ForeignPause:\n\t\td.State = Paused\n", "", nextMove),
	o("handshake.go", "f.Deleting && f.Cleanup && f.Pause != ForeignPause", "f.Deleting && f.Cleanup", nextMove),
	o("handshake.go", "f.Deleting && f.Cleanup && f.Pause != ForeignPause", "f.Deleting && f.Pause != ForeignPause", nextMove),
	o("handshake.go", " && (f.Wanted || f.Pause == RemedyPause || !f.Memory.Empty())", "", nextMove),
	o("handshake.go", "case f.Exclusive && f.Wanted:", "case f.Exclusive:", nextMove),
	o("handshake.go", "\t\td.Move, d.Memory = Unpause, d.Memory.Ended()\n", "", nextMove),
	o("handshake.go", "d.Move, d.Memory = Unpause, d.Memory.Ended()", "d.Move = Unpause", byOurselves),
	o("memory.go", "return Memory{Instance: m.Instance, Losses: m.Losses}", "return Memory{Instance: m.Instance}", byOurselves),
	o("memory.go", "return Memory{Instance: m.Instance, Losses: m.Losses}", "return Memory{Losses: m.Losses}", byOurselves),
	o("handshake.go", "f.Pause == RemedyPause || f.Cleanup || f.Traces || !f.Memory.Empty()", "f.Pause == RemedyPause || f.Traces || !f.Memory.Empty()", nextMove),
	o("handshake.go", "f.Pause == RemedyPause || f.Cleanup || f.Traces || !f.Memory.Empty()", "f.Pause == RemedyPause || f.Cleanup || !f.Memory.Empty()", nextMove),
	o("handshake.go", "f.Pause == RemedyPause || f.Cleanup || f.Traces || !f.Memory.Empty()", "f.Cleanup || f.Traces", inTheEnd),
	o("handshake.go", "case f.ClusterPaused || f.Pause == ForeignPause:", "case f.Pause == ForeignPause:", nextMove),
	o("handshake.go", "case f.ClusterPaused || f.Pause == ForeignPause:", "case f.ClusterPaused:", nextMove),
	o("handshake.go", "d.Move, d.Memory = Release, Memory{}", "d.Move = Release", inTheEnd),
	o("handshake.go", "\tcase f.Deleting:\n", "\tcase false:\n", nextMove),
	o("handshake.go", "case f.Memory.ID != \"\" && !f.Memory.Replaced:", "case false:", nextMove),
	o("handshake.go", "case f.Memory.ID != \"\" && !f.Memory.Replaced:", "case f.Memory.ID != \"\":", ownPause),
	o("handshake.go", "f.Memory.Replaced && f.Pause != RemedyPause", "f.Memory.Replaced", ownPause),
	o("handshake.go", "d.Memory.Replaced = f.Memory.ID != \"\"", "d.Memory.Replaced = false", ownPause),
	o("handshake.go", "f.ReportsPaused && f.Memory.Instance != f.Instance && !f.Memory.Recorded && !f.ClusterPaused:", "f.Memory.Instance != f.Instance && !f.Memory.Recorded && !f.ClusterPaused:", nextMove),
	o("handshake.go", "f.Memory.Instance != f.Instance && !f.Memory.Recorded && !f.ClusterPaused:", "false:", nextMove),
	o("handshake.go", " && !f.Memory.Recorded && !f.ClusterPaused:", " && !f.Memory.Recorded:", nextMove),
	o("handshake.go", " && !f.Memory.Recorded && !f.ClusterPaused:", " && !f.ClusterPaused:", nextMove),
	o("handshake.go", "d.Memory.ID = cmp.Or(f.Memory.ID, id)", "d.Memory.ID = cmp.Or(id, f.Memory.ID)", nextMove),
	o("handshake.go", "d.Memory.ID = cmp.Or(f.Memory.ID, id)", "_ = cmp.Or[string]", unsigned),
	o("handshake.go", "\tcase !contested.IsZero():\n", "\tcase false:\n", nextMove),
	o("handshake.go", "\tcase f.ClusterPaused:\n\t\td.State = Paused\n", "", nextMove),
	o("handshake.go", "Memory{ID: id, Instance: f.Instance, Losses: f.Memory.Losses}", "Memory{ID: id, Instance: f.Instance}", nextMove),
	o("handshake.go", "d.State, d.Until = PauseConflict, contested", "d.State = PauseConflict", contests),

	o("memory.go", "n < contest ||", "n < 1 ||", nextMove),
	o("memory.go", "m.Losses[n-1].Sub(m.Losses[n-contest]) > contestTime", "false", nextMove),
	o("memory.go", "now.Before(until)", "!now.After(until)", contests),
	o("memory.go", "return m.ID == \"\" && m.Instance == \"\" && len(m.Losses) == 0", "return m.ID == \"\" && m.Instance == \"\"", noted),
	o("memory.go", "return m.ID == \"\" && m.Instance == \"\" && len(m.Losses) == 0", "return m.ID == \"\" && len(m.Losses) == 0", noted),
	o("memory.go", "strings.TrimSuffix(cmp.Or(m.ID, noID)+ofInstance+m.Instance, ofInstance)", "cmp.Or(m.ID, noID)", noted),
	o("memory.go", "strings.TrimSuffix(cmp.Or(m.ID, noID)+ofInstance+m.Instance, ofInstance)", "cmp.Or(m.ID, noID) + ofInstance + m.Instance", noted),
	o("memory.go", "; m.ID == noID {", "; false {", noted),
	o("memory.go", "err == nil {", "err == nil || true {", noted),
	o("memory.go", "all.ID, all.Instance = known.ID, known.Instance", "all.Instance = known.Instance", known),
	o("memory.go", "all.ID, all.Instance = known.ID, known.Instance", "all.ID = known.ID", known),
	o("memory.go", "same := all.ID == known.ID", "same := true", known),
	o("memory.go", "known.Replaced && same, known.Recorded && same", "false, known.Recorded && same", known),
	o("memory.go", "known.Replaced && same, known.Recorded && same", "known.Replaced && same, false", known),
	o("memory.go", "if all.ID == \"\" && known.ID != \"\" {", "if true {", known),
	o("memory.go", "if all.ID == \"\" && known.ID != \"\" {", "if all.ID == \"\" {", known),
	o("memory.go", "all.Losses = slices.CompactFunc(all.Losses, time.Time.Equal)", "_ = time.Time.Equal", known),
}
