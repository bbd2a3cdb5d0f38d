// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// ClusterNotFound means: the Cluster that the check names does not exist.
const ClusterNotFound Reason = "ClusterNotFound"

func guardClusterNotFound(p *pass, _ *Target, _ *candidate) (held bool, until time.Time, seen Seen) {
	return p.s.Check.Cluster == ClusterIsMissing, time.Time{}, Seen{}
}
