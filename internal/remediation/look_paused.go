// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// A pause that came after the plan stops everything, also what would clean up.
func lookPaused(l *lastLook) (held bool, until time.Time, seen Seen) {
	return l.look.Frozen, time.Time{}, Seen{}
}
