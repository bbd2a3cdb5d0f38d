// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// TooFewUnhealthy means: fewer targets are sick than the range asks for.
const TooFewUnhealthy Reason = "TooFewUnhealthy"

func guardTooFewUnhealthy(p *pass, _ *Target, _ *candidate) (held bool, until time.Time, seen Seen) {
	gate := &p.plan.Gate
	return gate.Sick < gate.Limit.Least, time.Time{}, Seen{Who: gate.Limit.Field + "=" + gate.Limit.Value, Have: gate.Sick, Least: gate.Limit.Least, Most: gate.Limit.Most}
}
