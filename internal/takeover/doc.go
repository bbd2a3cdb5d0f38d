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
// The pause is only put on a check that says Paused=False, and with the version at which it said so. So Paused=True, while our pause is there,
// was said by somebody who has seen that pause, however old the caches on either side are. Who reads an older object than the one he has acted
// upon does not exist: caches only go forward, and one controller looks at one check once at a time.
//
// It is pure, as packages health and remediation are: facts and a time go in, one move comes out.
package takeover
