// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
)

// thaws remembers when the pauses of Machines were over. Nothing else tells that: an annotation that is gone leaves no time behind. It is lost
// with the process, and then a step that was under way during a pause has less time left than it could have.
type thaws struct {
	mu     sync.Mutex
	checks map[types.NamespacedName]map[types.UID]thaw
}

type thaw struct {
	paused bool
	at     time.Time
}

// seen notes which Machines of a check are paused now, and returns when the pauses of the others were over.
func (t *thaws) seen(check types.NamespacedName, machines []*clusterv1.Machine, now time.Time) map[types.UID]time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.checks[check]
	var known map[types.UID]thaw
	var over map[types.UID]time.Time
	for _, m := range machines {
		was, paused := before[m.UID], annotations.HasPaused(m)
		if !paused && !was.paused && was.at.IsZero() {
			continue
		}
		if was.paused && !paused {
			was.at = now
		}
		was.paused = paused
		if known == nil {
			known, over = map[types.UID]thaw{}, map[types.UID]time.Time{}
		}
		known[m.UID], over[m.UID] = was, was.at
	}
	if t.checks == nil {
		t.checks = map[types.NamespacedName]map[types.UID]thaw{}
	}
	if known == nil {
		delete(t.checks, check)
	} else {
		t.checks[check] = known
	}
	return over
}

func (t *thaws) forget(check types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.checks, check)
}
