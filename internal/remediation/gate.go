// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"

// Gate is how many targets are sick, and whether that still allows anything to be remediated.
type Gate struct {
	Limit Limit
	Sick  int
	Open  bool
}

// gateFor counts the sick targets and compares them with the limit for as many targets as are expected.
//
//	Machines  all that are not known to be healthy: expected - healthy. Suspects, those that have not started and those that are being deleted count.
//	Nodes     the unhealthy ones. Suspects do not count; but a minHealthy is about the healthy ones, so that all others count.
//
// A target whose request is still there counts as sick with either: 10 targets, 2 of them unhealthy and a third one healthy again while its
// request is not yet gone, are 3 sick ones.
func gateFor(s *Situation, a *health.Assessment, p *Policy) (Gate, int) {
	healthy, lingering := 0, 0
	for i := range s.Targets {
		switch {
		case a.Verdicts[i].Kind == health.Skipped:
		case s.Targets[i].Request != nil && a.Verdicts[i].Kind != health.Unhealthy:
			lingering++
		case a.Verdicts[i].Kind == health.Healthy:
			healthy++
		}
	}
	sick := a.Counts.Unhealthy + lingering
	if p.Counting == CountNotHealthy || p.Limits.MinHealthy != nil && p.Limits.Range == nil {
		sick = a.Counts.Expected - healthy
	}
	limit := p.Limits.For(a.Counts.Expected)
	return Gate{Limit: limit, Sick: sick, Open: limit.Allows(sick)}, healthy
}
