// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// InStorm means: too many targets were sick a short while ago.
const InStorm Reason = "Storm"

func guardInStorm(p *pass, _ *Target, _ *candidate) (held bool, until time.Time, seen Seen) {
	storm := p.plan.Storm
	return storm.active(), storm.ends(p.policy), Seen{Since: storm.Since}
}
