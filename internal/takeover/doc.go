// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package takeover answers: does a MachineHealthCheck of Cluster API belong to us at this moment, and if not, what is the next move?
//
// Two controllers must never act on one Machine at once. Cluster API's own controller leaves a check alone while that is paused, and says so in
// the condition Paused. That makes a handshake:
//
//	Paused=False ──▶ we pause it ──▶ Paused=True ──▶ we act ──▶ we take our pause away ──▶ Paused=False
//	 (theirs)         (ours)          (theirs)                    (ours)                     (theirs)
//
// The pause is only put on a check that says Paused=False, and with the version at which it said so. Whatever says Paused=True from then on was
// written to a later version, and Cluster API's controller writes conditions only to the version that its cache has: so it has seen our pause by
// then, and one pass at a time looks at a check, so that no other is under way. No times are compared, and none has to be waited for.
//
// That holds as long as this does:
//
//   - One process of each side leads. An old leader that does not know yet that it has lost its lead may be in the midst of a pass.
//   - What Cluster API's controller reads does not become older. Within a process caches go forward. After a start it holds where the first list
//     comes from the storage, as client-go asks for from 0.35 on if the API server can; else it is what some API server has in its cache. If that is
//     behind, a new leader may see the check as it was before our pause, and acts until it hears of it. Nothing on the check tells us.
//   - Nobody else says Paused. We only do where Cluster API's controller does not run.
//   - A look and the act that rests on it are two moments. Who takes our pause away in between lets both act once.
//
// On our side no move and no act rests on a cache: moves are decided again by what an API server says, and written to that version, and the check is
// read once more before anything is written to a Machine or asked of a remediator. Where one of these does not hold, both may begin the same at
// once: a mark that says the same, or a request of the same name, of which there is only one.
//
// It is pure, as packages health and remediation are: facts and a time go in, one move comes out.
package takeover
