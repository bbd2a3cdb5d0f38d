// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"time"
)

// NotConfirmed means: a last look, past all caches, did not show what the decision rests on.
const NotConfirmed Reason = "NotConfirmed"

func lookNotConfirmed(l *lastLook) (held bool, until time.Time, seen Seen) {
	d, look := l.d, l.look
	switch {
	case look.Unwritten:
		return true, time.Time{}, Seen{Who: "what has to be written first could not be written, and the log says why"}
	case look.Failed:
		return true, time.Time{}, Seen{Who: look.because("the facts could not be read again")}
	case look.Changed:
		return true, time.Time{}, Seen{Who: "the check or its Cluster has changed"}
	case d.Action == GiveUp && look.Verdict.Recovered():
		return true, time.Time{}, Seen{Who: "it is healthy again"}
	case d.Action == Withdraw && d.Why == Recovered && !look.Verdict.Recovered():
		return true, time.Time{}, Seen{Who: "it is not healthy any more"}
	case d.Action == Withdraw && d.Why == Recovered && !look.sameRecovery(l.t):
		return true, time.Time{}, Seen{Who: "it was not healthy all the time"}
	case !d.starts():
		return false, time.Time{}, Seen{}
	case look.RequestsUnread:
		return true, time.Time{}, Seen{Who: look.because("its requests could not be read")}
	case look.Late:
		return true, time.Time{}, Seen{Who: "others came first, and it is looked at again soon"}
	case look.LeaseUnread:
		return true, time.Time{}, Seen{Who: look.because("the Lease of its kubelet could not be read")}
	case !l.bornOut() && look.Cause != "":
		return true, time.Time{}, Seen{Who: look.because("its Node could not be read again")}
	case !l.bornOut():
		return true, time.Time{}, Seen{Who: "its health has changed"}
	case !look.Target.DeletingSince.IsZero():
		return true, time.Time{}, Seen{Who: "its deletion was asked for"}
	case look.Target.Request != nil:
		return true, time.Time{}, Seen{Who: "there is a request already"}
	case !look.Target.Ledger.same(&l.t.Ledger):
		return true, time.Time{}, Seen{Who: "its attempts have changed"}
	case look.Target.CoveredBy != "":
		return true, time.Time{}, Seen{Who: look.Target.CoveredBy + " takes care of it"}
	case d.Budgeted && l.plan.Limited && look.Others >= l.plan.Slots:
		return true, time.Time{}, Seen{Who: "all places are taken", Have: look.Others, Most: l.plan.Slots}
	}
	return false, time.Time{}, Seen{}
}

// because says why something could not be read, as far as that is known.
func (l *Look) because(said string) string {
	if l.Cause != "" {
		said += ": " + l.Cause
	}
	return said
}

// sameRecovery says whether the request tells of the recovery that was waited for, and not of a later one.
func (l *Look) sameRecovery(t *Target) bool {
	now, before := l.Target.Request, t.Request
	return now == nil || before == nil || now.HealthySince.Equal(before.HealthySince)
}
