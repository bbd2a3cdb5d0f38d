// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Memory is what has to be remembered of a check between two passes. It stands in an annotation, and in the memory of the process: whoever takes
// our pause away as a rule takes away all that is ours.
type Memory struct {
	// ID names the take-over that is under way; empty if none is.
	ID string
	// Instance is which of our instances it is under way for: the value of its --watch-filter.
	Instance string
	// Replaced: a pause of somebody else stands where ours was. Only the process knows that, as nothing is noted on what is paused.
	Replaced bool
	// Signed: this process has noted already that it is under way for its instance. Of two that act for one check, each would do so again and again.
	Signed bool
	// Losses are when our pause was found to be taken away, the earliest first.
	Losses []time.Time
}

const (
	// contest is how often our pause may be taken away within contestTime until we let go.
	contest     = 3
	contestTime = 10 * time.Minute
	// calmTime is for how long we then stay away. Whoever has mended the cause need not do anything else.
	calmTime = time.Hour
	// precision is how exactly losses are noted down.
	precision = time.Millisecond
)

// contestedUntil is until when we stay away; zero if nobody contests.
func (m *Memory) contestedUntil(now time.Time) time.Time {
	n := len(m.Losses)
	if n < contest || m.Losses[n-1].Sub(m.Losses[n-contest]) > contestTime {
		return time.Time{}
	}
	if until := m.Losses[n-1].Add(calmTime); now.Before(until) {
		return until
	}
	return time.Time{}
}

// lost is the memory after our pause was found to be taken away.
func (m *Memory) lost(now time.Time) Memory {
	losses := slices.DeleteFunc(slices.Clone(m.Losses), func(at time.Time) bool { return at.After(now) || now.Sub(at) > calmTime })
	losses = append(losses, now.UTC().Truncate(precision))
	return Memory{Losses: losses[max(0, len(losses)-contest):]}
}

// Ended is the memory after we have taken our pause away ourselves: that it is not there any more is no loss. Whose it was stays, as that one has
// something to clean up yet.
func (m *Memory) Ended() Memory { return Memory{Instance: m.Instance, Losses: m.Losses} }

// Empty says whether there is nothing to remember.
func (m *Memory) Empty() bool { return m.ID == "" && m.Instance == "" && len(m.Losses) == 0 }

// noID stands where no take-over is under way.
const noID = "-"

// ofInstance stands between the name of a take-over and that of the instance, if that has one.
const ofInstance = "/"

// Text is the memory as it is noted down; empty if there is nothing to remember.
func (m *Memory) Text() string {
	if m.Empty() {
		return ""
	}
	words := []string{strings.TrimSuffix(cmp.Or(m.ID, noID)+ofInstance+m.Instance, ofInstance)}
	for _, at := range m.Losses {
		words = append(words, at.UTC().Truncate(precision).Format(time.RFC3339Nano))
	}
	return strings.Join(words, " ")
}

// ParseMemory reads what was noted down. What cannot be read counts as not written.
func ParseMemory(text string) Memory {
	words := strings.Fields(text)
	if len(words) == 0 {
		return Memory{}
	}
	m := Memory{}
	if m.ID, m.Instance, _ = strings.Cut(words[0], ofInstance); m.ID == noID {
		m.ID = ""
	}
	for _, word := range words[1:] {
		if at, err := time.Parse(time.RFC3339Nano, word); err == nil {
			m.Losses = append(m.Losses, at.UTC().Truncate(precision))
		}
	}
	slices.SortFunc(m.Losses, time.Time.Compare)
	m.Losses = m.Losses[max(0, len(m.Losses)-contest):]
	return m
}

// With is the memory together with what this process knows. A take-over that the process knows of, and the check does not, was taken away with
// everything else.
func (m *Memory) With(known *Memory) Memory {
	all := Memory{ID: m.ID, Instance: m.Instance, Losses: slices.Concat(m.Losses, known.Losses)}
	if all.ID == "" && known.ID != "" {
		all.ID, all.Instance = known.ID, known.Instance
	}
	same := all.ID == known.ID
	all.Replaced, all.Signed = known.Replaced && same, known.Signed && same
	slices.SortFunc(all.Losses, time.Time.Compare)
	all.Losses = slices.CompactFunc(all.Losses, time.Time.Equal)
	all.Losses = all.Losses[max(0, len(all.Losses)-contest):]
	return all
}
