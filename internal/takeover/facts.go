// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import "time"

// Pause is whose pause is on a check.
type Pause uint8

// The pauses. There is one annotation for both, and its value tells whose it is.
const (
	NoPause Pause = iota
	// OurPause is the one by which Cluster API's controller leaves the check to us.
	OurPause
	// ForeignPause is any other: a person's, or that of another tool. It stops us as it stops everybody.
	ForeignPause
)

// Facts are what is known of a check.
type Facts struct {
	// Wanted: the flag, or an annotation on the check or on its Cluster, asks us to take care of it.
	Wanted bool
	// Exclusive: Cluster API's own controller does not run, so that there is nobody to shake hands with.
	Exclusive bool

	// Instance is which of our instances asks: the value of its --watch-filter.
	Instance string

	Pause Pause
	// ClusterPaused: its whole Cluster is paused.
	ClusterPaused bool
	// SaysPaused is that its condition Paused is True because of the annotation, and SaysUnpaused that it is False. Neither is a check that
	// Cluster API's controller has not looked at yet, or one that it sees paused for another reason.
	SaysPaused, SaysUnpaused bool

	Deleting bool
	// Cleanup: there is something of ours to be cleaned up before it may go.
	Cleanup bool
	// Traces: something else of ours stands on it, such as notes.
	Traces bool
	// Memory is what stands on the check, together with what this process knows.
	Memory Memory
}

// Move is what to do next.
type Move uint8

// The moves.
const (
	// Leave: it is not ours, and nothing is written.
	Leave Move = iota
	// Await: nothing is written until Cluster API's controller has spoken.
	Await
	// Take pauses it for us, and notes under which name.
	Take
	// Sign: it was handed to another instance of ours, and is ours now. That is noted before anything else.
	Sign
	// Act: it is ours, and is treated as a check of our own kind.
	Act
	// NoteLoss remembers that somebody has taken our pause away.
	NoteLoss
	// Release takes everything of ours off it, our pause last and in the same write.
	Release
	// Unpause takes only our pause away: nobody is left who could need it.
	Unpause
)

// State is what people are told of it.
type State uint8

// The states.
const (
	// Theirs: Cluster API's own controller takes care of it.
	Theirs State = iota
	// Paused: somebody else has paused it, or its Cluster.
	Paused
	// Waiting: Cluster API's own controller has not spoken yet.
	Waiting
	// Ours: we take care of it.
	Ours
	// Contested: somebody keeps taking our pause away, and we have let go.
	Contested
)

// Decision is what Decide returns.
type Decision struct {
	Move  Move
	State State
	// Memory is what is to be remembered from now on.
	Memory Memory
	// Until is when to look again by itself; zero if only news can change anything.
	Until time.Time
}
