// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

// InStorm means: more targets were unhealthy than the limit allows, and the cool-down is not over.
const InStorm Reason = "Storm"

func guardInStorm(p *pass, _ *Target, _ *candidate) (bool, Hold) {
	storm := p.plan.Storm
	return !storm.Since.IsZero(), Hold{Until: storm.ends(p.policy), Seen: Seen{Since: storm.Since}}
}
