// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// Paused means: the check or its Cluster is paused: nothing at all is done.
const Paused Reason = "Paused"

func guardPaused(p *pass, _ *Target, _ *candidate) (held bool, until time.Time, seen Seen) {
	return p.s.Check.Frozen, time.Time{}, Seen{}
}
