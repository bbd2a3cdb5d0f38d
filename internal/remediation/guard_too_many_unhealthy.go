// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// TooManyUnhealthy means: more targets are sick than the limit allows.
const TooManyUnhealthy Reason = "TooManyUnhealthy"

func guardTooManyUnhealthy(p *pass, _ *Target, _ *candidate) (held bool, until time.Time, seen Seen) {
	gate := &p.plan.Gate
	return gate.Sick > gate.Limit.Most, time.Time{}, Seen{Who: gate.Limit.Field + "=" + gate.Limit.Value, Have: gate.Sick, Least: gate.Limit.Least, Most: gate.Limit.Most}
}
