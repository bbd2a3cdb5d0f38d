// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// absences remembers since when the Nodes of Machines are gone, where nobody may write it on the Machines: a check that only observes would
// find them gone since just now, over and over again. It is lost with the process, and then the time begins anew.
type absences struct {
	mu     sync.Mutex
	checks map[types.NamespacedName]map[types.UID]time.Time
}

// of are those of the Machines of a check, as they were found last. Nobody may change them.
func (a *absences) of(check types.NamespacedName) map[types.UID]time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.checks[check]
}

// found notes what shall be remembered of the Machines of a check, by the verdicts on them.
func (a *absences) found(check types.NamespacedName, machines []*clusterv1.Machine, verdicts []health.Verdict) {
	var gone map[types.UID]time.Time
	for i := range verdicts {
		since := verdicts[i].NodeGoneSince
		if since.IsZero() {
			continue
		}
		if gone == nil {
			gone = map[types.UID]time.Time{}
		}
		gone[machines[i].UID] = since
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case maps.Equal(a.checks[check], gone):
	case gone == nil:
		delete(a.checks, check)
	case a.checks == nil:
		a.checks = map[types.NamespacedName]map[types.UID]time.Time{check: gone}
	default:
		a.checks[check] = gone
	}
}

func (a *absences) forget(check types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.checks, check)
}
