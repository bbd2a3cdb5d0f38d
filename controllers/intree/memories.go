// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package intree

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/takeover"
)

// memories are what this process knows of take-overs. Whoever takes our pause away may take away what we noted beside it as well.
type memories struct {
	mu  sync.Mutex
	all map[types.NamespacedName]known
}

type known struct {
	check  types.UID
	memory takeover.Memory
}

// of is what is known of a check. Of one that was deleted and made anew nothing is.
func (m *memories) of(check types.NamespacedName, uid types.UID) *takeover.Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if found, is := m.all[check]; is && found.check == uid {
		return &found.memory
	}
	return &takeover.Memory{}
}

// note remembers of a check what stands on it now.
func (m *memories) note(check types.NamespacedName, uid types.UID, memory *takeover.Memory) {
	if memory.Empty() {
		m.forget(check)
		return
	}
	m.acting(check, uid, memory)
}

// acting remembers a check that is ours, also if nothing has to be noted on it.
func (m *memories) acting(check types.NamespacedName, uid types.UID, memory *takeover.Memory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[types.NamespacedName]known{}
	}
	m.all[check] = known{uid, *memory}
}

func (m *memories) forget(check types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, check)
}
