// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

// ClusterNotFound means: the Cluster that the check names does not exist.
const ClusterNotFound Reason = "ClusterNotFound"

func guardClusterNotFound(p *pass, _ *Target, _ *candidate) (bool, Hold) {
	return p.s.Check.Cluster == ClusterIsMissing, Hold{}
}
