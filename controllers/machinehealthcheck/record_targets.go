// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/checkup"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// pause is that of a target.
type pause struct {
	paused bool
	ended  time.Time
}

// observePauses notes which targets are paused now, and returns when the pauses of the others ended. After a restart it is not known, so a step
// that was under way during a pause has less time left than it could have.
func (r *record) observePauses(machines []*clusterv1.Machine, now time.Time) map[types.UID]time.Time {
	var known map[types.UID]pause
	var ended map[types.UID]time.Time
	for _, m := range machines {
		was, paused := r.pauses[m.UID], annotations.HasPaused(m)
		if !paused && !was.paused && was.ended.IsZero() {
			continue
		}
		if was.paused && !paused {
			was.ended = now
		}
		was.paused = paused
		if known == nil {
			known, ended = map[types.UID]pause{}, map[types.UID]time.Time{}
		}
		known[m.UID], ended[m.UID] = was, was.ended
	}
	r.pauses = known
	return ended
}

// observeNodes notes since when Nodes no longer exist. A check that only observes cannot annotate that on its targets.
func (r *record) observeNodes(machines []*clusterv1.Machine, verdicts []health.Verdict) {
	r.nodeGoneSince = nil
	for i := range verdicts {
		if verdicts[i].NodeGoneSince.IsZero() {
			continue
		}
		if r.nodeGoneSince == nil {
			r.nodeGoneSince = map[types.UID]time.Time{}
		}
		r.nodeGoneSince[machines[i].UID] = verdicts[i].NodeGoneSince
	}
}

// rejectedRequest is a request that was not created: that of a step, for a target, as the check was then.
type rejectedRequest struct {
	target     types.UID
	step       remediation.StepID
	check      types.UID
	generation int64
}

type rejection struct {
	err   *checkup.RefusedError
	until time.Time
}

// rejection returns why a request was rejected, if it is not worth trying again yet. A restart forgets it, so it is tried once too often then.
func (r *record) rejection(request rejectedRequest, now time.Time) *checkup.RefusedError {
	if found, known := r.rejected[request]; known && now.Before(found.until) {
		return found.err
	}
	return nil
}

// reject remembers a rejection until the check is reconciled anyway, and forgets older ones.
func (r *record) reject(request rejectedRequest, err *checkup.RefusedError, now time.Time) {
	for known, found := range r.rejected {
		if !now.Before(found.until) {
			delete(r.rejected, known)
		}
	}
	if r.rejected == nil {
		r.rejected = map[rejectedRequest]rejection{}
	}
	r.rejected[request] = rejection{err, now.Add(remediation.RetryTime)}
}
