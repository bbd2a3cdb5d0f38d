// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"slices"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// Kind is what a reason is a reason for. The set is closed.
type Kind string

// The kinds of reasons.
const (
	// Gate is a reason not to judge a target, or to judge it at once.
	Gate Kind = "gate"
	// Rule is something that is wrong with a target.
	Rule Kind = "rule"
	// Unknown is why nothing can be said about a target that every gate has let pass.
	Unknown Kind = "unknown"
	// Guard is what holds back something new.
	Guard Kind = "guard"
	// LastLook is what a last look, just before an act, has found.
	LastLook Kind = "last look"
	// Hold is any other reason to hold a target.
	Hold Kind = "hold"
	// Ending is why something ends that was started.
	Ending Kind = "ending"
	// Condition is a reason of a condition of a check.
	Condition Kind = "condition"
	// Happening is a reason that only events have.
	Happening Kind = "event"
)

// Word is one reason of the closed vocabulary.
type Word struct {
	Kind   Kind
	Reason string
	// Means is what it means, in one sentence.
	Means string
	// LooksAt is what it follows from, where there is more to tell than its meaning.
	LooksAt string
	// Remedy is what a person can do about it.
	Remedy string
	// Conditions are those that have this reason.
	Conditions []string
}

// meaning is what every reason has.
type meaning struct {
	means, looksAt, remedy string
}

func (m *meaning) word(kind Kind, reason string) Word {
	return Word{Kind: kind, Reason: reason, Means: m.means, LooksAt: m.looksAt, Remedy: m.remedy}
}

// gateWord is what is said of a gate.
type gateWord struct {
	reason health.Reason
	meaning
	// says is printed for a target that it keeps from being judged, or lets through.
	says func(v *health.Verdict) string
}

// ruleWord is what is said of a rule.
type ruleWord struct {
	reason health.Reason
	meaning
	// met is printed for a finding that counts, in the words of Cluster API. due is the same trouble before it does.
	met, due func(f *health.Finding, node string) string
}

// holdWord is what is said of a hold.
type holdWord struct {
	reason remediation.Reason
	meaning
	// alarming: somebody has to do something, or it stays as it is.
	alarming bool
	// held is printed for a target that is held. passed is what was seen where it is not; nil if there is nothing to tell.
	held, passed func(s *saw) string
}

// saw is what a guard saw, and for which step.
type saw struct {
	remediation.Answer
	step remediation.StepID
}

// endingWord is what is said when something ends.
type endingWord struct {
	reason remediation.Reason
	meaning
	// because follows "as".
	because string
}

// conditionWord is what is said of a reason of conditions.
type conditionWord struct {
	reason     string
	conditions []string
	meaning
}

// Vocabulary is every reason there is. Gates, rules and guards come in the order of evaluation.
func Vocabulary() []Word {
	var all []Word
	for i := range gateWords {
		all = append(all, gateWords[i].word(Gate, string(gateWords[i].reason)))
	}
	for i := range ruleWords {
		all = append(all, ruleWords[i].word(Rule, string(ruleWords[i].reason)))
	}
	for i := range unknownWords {
		all = append(all, unknownWords[i].word(Unknown, string(unknownWords[i].reason)))
	}
	for _, table := range holdTables {
		for i := range table.words {
			all = append(all, table.words[i].word(table.kind, string(table.words[i].reason)))
		}
	}
	for i := range endingWords {
		all = append(all, endingWords[i].word(Ending, string(endingWords[i].reason)))
	}
	for i := range conditionWords {
		word := conditionWords[i].word(Condition, conditionWords[i].reason)
		word.Conditions = conditionWords[i].conditions
		all = append(all, word)
	}
	for i := range happeningWords {
		all = append(all, happeningWords[i].word(Happening, happeningWords[i].reason))
	}
	return all
}

// Alphabetical is the vocabulary as people look words up.
func Alphabetical() []Word {
	all := Vocabulary()
	slices.SortStableFunc(all, func(a, b Word) int { return cmp.Compare(a.Reason, b.Reason) })
	return all
}

// holdTables are the tables of holds. A guard and a last look may have the same reason, as a pause may come before the plan or after it.
var holdTables = [...]struct {
	kind  Kind
	words []holdWord
}{
	{Guard, guardsOfTheCheck[:]},
	{Guard, guardsOfTheTarget[:]},
	{Guard, guardsOfTheMoment[:]},
	{Guard, guardsOfTheControlPlane[:]},
	{LastLook, lastLooks[:]},
	{Hold, otherHolds[:]},
}

// wordOfHold finds the words for a hold, of this kind if there are any.
func wordOfHold(reason remediation.Reason, kind Kind) *holdWord {
	var found *holdWord
	for _, table := range holdTables {
		for i := range table.words {
			if table.words[i].reason == reason && (found == nil || table.kind == kind) {
				found = &table.words[i]
			}
		}
	}
	return found
}

func wordOfGate(reason health.Reason) *gateWord {
	for i := range gateWords {
		if gateWords[i].reason == reason {
			return &gateWords[i]
		}
	}
	return nil
}

func wordOfRule(reason health.Reason) *ruleWord {
	for i := range ruleWords {
		if ruleWords[i].reason == reason {
			return &ruleWords[i]
		}
	}
	return nil
}

// because is the clause that says why something ends. A hold can be the cause, too: then its meaning says it.
func because(reason remediation.Reason) string {
	for i := range endingWords {
		if endingWords[i].reason == reason {
			return endingWords[i].because
		}
	}
	return string(reason)
}
