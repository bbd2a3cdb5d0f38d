// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
)

// thaws remembers when the pauses of Machines were over. Nothing else tells that: an annotation that is gone leaves no time behind. When it is lost
// a step that was under way during a pause has less time left than it could have.
type thaws struct{ recall[thaw] }

type thaw struct {
	paused bool
	at     time.Time
}

// seen notes which Machines of a check are paused now, and returns when the pauses of the others were over.
func (t *thaws) seen(check types.NamespacedName, machines []*clusterv1.Machine, now time.Time) map[types.UID]time.Time {
	before := t.of(check)
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
	t.keep(check, known)
	return over
}
