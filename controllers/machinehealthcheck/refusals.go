// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/checkup"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// refusals remembers which requests the API server has just refused. Whatever wakes a check meanwhile, they are not tried again before the time at
// which the check looks again anyway. It is lost with the process, and then they are tried once too often.
type refusals struct {
	mu  sync.Mutex
	all map[refused]refusal
}

// refused is a request that was not made: that of a step, for a Machine, as the check was then.
type refused struct {
	machine    types.UID
	step       remediation.StepID
	check      types.UID
	generation int64
}

type refusal struct {
	error *checkup.RefusedError
	until time.Time
}

// of is the refusal of a request that is not worth trying again yet; nil if there is none.
func (r *refusals) of(request refused, now time.Time) *checkup.RefusedError {
	r.mu.Lock()
	defer r.mu.Unlock()
	if found, known := r.all[request]; known && now.Before(found.until) {
		return found.error
	}
	return nil
}

// note remembers a refusal, and forgets those whose time is over.
func (r *refusals) note(request refused, err *checkup.RefusedError, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for known, found := range r.all {
		if !now.Before(found.until) {
			delete(r.all, known)
		}
	}
	if r.all == nil {
		r.all = map[refused]refusal{}
	}
	r.all[request] = refusal{err, now.Add(remediation.RetryTime)}
}
