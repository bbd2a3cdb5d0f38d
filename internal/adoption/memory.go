// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Memory is what has to be remembered of a check between two reconciles. It is in an annotation and in the memory of the process, because a
// tool that removes the pause usually removes all annotations of Remedy.
type Memory struct {
	// ID identifies the adoption in progress; empty if there is none.
	ID string
	// Instance is the manager that adopts the check: the value of its --watch-filter, or Unfiltered. Empty if none has recorded itself.
	Instance string
	// Replaced: another pause has replaced that of Remedy. It is not in the annotation, because nothing is written to a paused check.
	Replaced bool
	// Recorded: this process has recorded its instance already. Otherwise two managers of one check would do so alternately.
	Recorded bool
	// Losses are the times at which the pause of Remedy was missing, the earliest first.
	Losses []time.Time
}

// Unfiltered is the instance without --watch-filter. No label has this value.
const Unfiltered = "-"

const (
	// contest is the number of losses within contestTime after which Remedy releases the check.
	contest     = 3
	contestTime = 10 * time.Minute
	// calmTime is the time after which Remedy adopts it again.
	calmTime = time.Hour
	// precision is the precision of losses in the annotation.
	precision = time.Millisecond
)

// contestedUntil is when Remedy adopts the check again; zero if adoption is not contested.
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

// lost is the memory after the pause of Remedy was removed.
func (m *Memory) lost(now time.Time) Memory {
	losses := slices.DeleteFunc(slices.Clone(m.Losses), func(at time.Time) bool { return at.After(now) || now.Sub(at) > calmTime })
	losses = append(losses, now.UTC().Truncate(precision))
	return Memory{Instance: m.Instance, Losses: losses[max(0, len(losses)-contest):]}
}

// Ended returns the memory after Remedy has removed its pause, which is no loss. The instance stays: that manager has to clean up.
func (m *Memory) Ended() Memory { return Memory{Instance: m.Instance, Losses: m.Losses} }

// Empty reports whether there is nothing to remember.
func (m *Memory) Empty() bool { return m.ID == "" && m.Instance == "" && len(m.Losses) == 0 }

// The annotation is an ID or noID, ofInstance and an instance if there is one, and the losses.
const (
	noID       = "-"
	ofInstance = "/"
)

// Text returns the memory as an annotation; empty if there is nothing to remember.
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

// ParseMemory reads the annotation. Invalid parts count as absent.
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

// With returns the memory together with that of this process. An adoption that only the process has was removed with all annotations.
func (m *Memory) With(known *Memory) Memory {
	all := Memory{ID: m.ID, Instance: m.Instance, Losses: slices.Concat(m.Losses, known.Losses)}
	if all.ID == "" && known.ID != "" {
		all.ID, all.Instance = known.ID, known.Instance
	}
	same := all.ID == known.ID
	all.Replaced, all.Recorded = known.Replaced && same, known.Recorded && same
	slices.SortFunc(all.Losses, time.Time.Compare)
	all.Losses = slices.CompactFunc(all.Losses, time.Time.Equal)
	all.Losses = all.Losses[max(0, len(all.Losses)-contest):]
	return all
}
