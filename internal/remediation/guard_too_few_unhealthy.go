// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

// TooFewUnhealthy means: fewer targets are unhealthy than unhealthyRange requires.
const TooFewUnhealthy Reason = "TooFewUnhealthy"

func guardTooFewUnhealthy(p *pass, _ *Target, _ *candidate) (bool, Hold) {
	gate := &p.plan.Gate
	return gate.Unhealthy < gate.Limit.Least, gate.hold()
}
