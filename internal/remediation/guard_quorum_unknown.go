// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// QuorumUnknown means: nobody can tell whether its control plane would keep its quorum.
const QuorumUnknown Reason = "QuorumUnknown"

func guardQuorumUnknown(p *pass, t *Target, _ *candidate) (held bool, until time.Time, seen Seen) {
	// Just after a lost connection what its members say is as old as the loss.
	if t.ControlPlane && p.s.Check.FirstLook {
		return true, p.s.Check.FirstLookUntil, Seen{}
	}
	return t.ControlPlane && p.s.ControlPlane.Etcd.State == EtcdUnreadable, time.Time{}, Seen{}
}
