// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

// ClusterDeleting means: the Cluster is being deleted, and its Machines with it.
const ClusterDeleting Reason = "ClusterDeleting"

func guardClusterDeleting(p *pass, _ *Target, _ *candidate) (bool, Hold) {
	return p.s.Check.Cluster == ClusterIsDeleting, Hold{}
}
