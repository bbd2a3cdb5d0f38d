// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// ClusterDeleting means: the Cluster is being taken down, and its Machines with it.
const ClusterDeleting Reason = "ClusterDeleting"

func guardClusterDeleting(p *pass, _ *Target, _ *candidate) (held bool, until time.Time, seen Seen) {
	return p.s.Check.Cluster == ClusterIsDeleting, time.Time{}, Seen{}
}
