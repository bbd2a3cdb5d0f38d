// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

// TooManyUnhealthy means: more targets are unhealthy than the limit allows.
const TooManyUnhealthy Reason = "TooManyUnhealthy"

func guardTooManyUnhealthy(p *pass, _ *Target, _ *candidate) (bool, Hold) {
	gate := &p.plan.Gate
	return gate.Unhealthy > gate.Limit.Most, gate.hold()
}
