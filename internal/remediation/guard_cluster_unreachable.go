// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// ClusterUnreachable means: the cluster cannot be read, and its trouble is one that only the cluster could confirm.
const ClusterUnreachable Reason = "ClusterUnreachable"

func guardClusterUnreachable(p *pass, _ *Target, c *candidate) (held bool, until time.Time, seen Seen) {
	if !p.s.Check.Unreachable {
		return false, time.Time{}, Seen{}
	}
	for _, finding := range p.a.Verdicts[c.index].Findings {
		if finding.Met && !finding.NeedsNode() {
			return false, time.Time{}, Seen{Who: string(finding.Rule)}
		}
	}
	return true, time.Time{}, Seen{}
}
