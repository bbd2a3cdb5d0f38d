// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package adoption decides whether Remedy reconciles a MachineHealthCheck of Cluster API at this moment, and what to do next to adopt or
// release it. It is pure, as packages health and remediation are: facts and a time are the input, one move is the result. It reads and
// writes nothing: controllers/intree does.
//
// Start at Decide in handshake.go. Facts, moves and states are in facts.go; memory.go is what has to be remembered between two reconciles.
//
// Remedy and the in-tree controller must never act on one Machine at once. The in-tree controller does not reconcile a paused check, and
// reports that in the condition Paused. That makes a handshake:
//
//	Paused=False ──▶ Remedy pauses ──▶ Paused=True ──▶ Remedy acts ──▶ Remedy unpauses ──▶ Paused=False
//	 (in-tree)                          (in-tree)                                           (in-tree)
//
// Remedy pauses only a check with Paused=False, and with the resourceVersion that had it. A later Paused=True was written to a later
// version, and the in-tree controller writes conditions only to the version in its cache: so it has read the pause by then. It has one
// worker per check, so no other reconcile of the check is in progress. No times are compared.
//
// That holds under these conditions:
//
//   - Each side has one leader. A process that has lost its leadership and has not noticed may be in the middle of a reconcile.
//   - The in-tree controller never reads an older version after a newer one. Within a process, caches only go forward. After a start this
//     holds if its first list is consistent, as client-go requests from 0.35 on if the API server supports it. Otherwise the list is the
//     cache of an API server. If that lags behind, a new leader may read the check as it was before the pause, and acts until it reads the
//     pause. Nothing on the check shows that.
//   - No other component sets the condition Paused. Remedy does so only where the in-tree controller does not run.
//   - A live read and the write that is based on it are two moments. If the annotation is removed in between, both may act once.
//
// Remedy bases no move on a cache: it decides again after a live read, writes with that resourceVersion, and reads the check live before it
// writes to a Machine or creates a request. If a condition above does not hold, both may start the same remediation at once: the condition
// is the same, and only one request of a name exists.
package adoption
