// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// NotConfirmed means: a last look, past all caches, did not show what the decision rests on.
const NotConfirmed Reason = "NotConfirmed"

func lookNotConfirmed(plan *Planned, d *Decision, v *health.Verdict, look *Look, _ time.Time) (held bool, until time.Time, seen Seen) {
	switch {
	case look.Failed:
		return true, time.Time{}, Seen{Who: "the facts could not be read again"}
	case d.Action == Withdraw && d.Why == Recovered && look.Verdict.Kind != health.Healthy:
		return true, time.Time{}, Seen{Who: "it is not healthy any more"}
	case !d.starts():
		return false, time.Time{}, Seen{}
	case look.Barred:
		return true, time.Time{}, Seen{Who: "the check or its Cluster has changed"}
	case look.Verdict.Kind != health.Unhealthy || look.Verdict.Reason != v.Reason || !look.Verdict.Since.Equal(v.Since):
		return true, time.Time{}, Seen{Who: "its health has changed"}
	case look.Deleting:
		return true, time.Time{}, Seen{Who: "its deletion was asked for"}
	case look.Requested && d.Action == MakeRequest:
		return true, time.Time{}, Seen{Who: "there is a request already"}
	case !look.Ledger.same(&d.Ledger):
		return true, time.Time{}, Seen{Who: "its attempts have changed"}
	case d.Action == MakeRequest && look.ControlPlaneBusy:
		return true, time.Time{}, Seen{Who: "another Node of its control plane is being remediated"}
	case d.Budgeted && plan.Limited && look.Others >= plan.Slots:
		return true, time.Time{}, Seen{Who: "all places are taken", Have: look.Others, Most: plan.Slots}
	}
	return false, time.Time{}, Seen{}
}
