// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

// ClusterUnreachable means: the workload cluster is unreachable, and the failure cannot be verified without it.
const ClusterUnreachable Reason = "ClusterUnreachable"

func guardClusterUnreachable(p *pass, _ *Target, c *candidate) (bool, Hold) {
	if !p.s.Check.Unreachable {
		return false, Hold{}
	}
	for _, finding := range p.a.Verdicts[c.index].Findings {
		if finding.Met && !finding.NeedsNode() {
			return false, Hold{Seen: Seen{Who: string(finding.Rule)}}
		}
	}
	return true, Hold{}
}
