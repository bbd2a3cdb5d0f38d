// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package adoption

import "time"

// Pause is the origin of the annotation cluster.x-k8s.io/paused on a check, which its value shows.
type Pause uint8

// The pauses.
const (
	NoPause      Pause = iota
	RemedyPause        // Remedy has set it for the in-tree controller.
	ForeignPause       // A user or another tool has set it. Neither controller reconciles the check.
)

// Facts are the facts about a check.
type Facts struct {
	// Wanted: the flag, or an annotation on the check or on its Cluster, requests adoption.
	Wanted bool
	// Exclusive: the in-tree controller does not run, so no handshake is needed.
	Exclusive bool

	// Instance is this manager, as in Memory.
	Instance string

	Pause Pause
	// ClusterPaused: spec.paused of the Cluster is set.
	ClusterPaused bool
	// The condition Paused is True because of the annotation, or it is False. Both are false if the in-tree controller has not reconciled the
	// check yet, or if the check is paused for another reason.
	ReportsPaused, ReportsUnpaused bool

	Deleting bool
	// Cleanup: Remedy has something to clean up before the check is deleted.
	Cleanup bool
	// Traces: the check has other annotations of Remedy.
	Traces bool
	// Memory is the memory in the annotation, together with that of this process.
	Memory Memory
}

// Move is what to do next.
type Move uint8

// The moves.
const (
	Leave    Move = iota // Do nothing: Remedy does not reconcile the check.
	Await                // Do nothing until the in-tree controller has set its condition.
	Adopt                // Pause the check for the in-tree controller, and record the adoption.
	Record               // Record that this manager adopts the check.
	Act                  // Reconcile the check.
	NoteLoss             // Record that the annotation of Remedy was removed.
	Release              // Remove everything that Remedy has set on the check, with the pause in the same write.
	Unpause              // Remove only the pause, because the in-tree controller does not run any more.
)

// State is the state of adoption as the condition Adopted reports it.
type State uint8

// The states.
const (
	InTree        State = iota // The in-tree controller reconciles the check.
	Paused                     // A user or another tool has paused the check or its Cluster.
	Waiting                    // The in-tree controller has not acknowledged the pause.
	Adopted                    // Remedy reconciles the check.
	PauseConflict              // The pause was removed repeatedly, and Remedy has released the check.
)

// Decision is the result of Decide.
type Decision struct {
	Move  Move
	State State
	// Memory is what to remember from now on.
	Memory Memory
	// Until is when to decide again; zero if only a change of the facts can change the decision.
	Until time.Time
}
