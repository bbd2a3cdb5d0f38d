// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// recall is what is remembered of the Machines of checks, by their UIDs, where nobody may write it or nothing tells it. It is lost with the process.
// Nobody looks at a check twice at the same time, so what is kept of it can be read and then replaced.
type recall[T any] struct {
	mu     sync.Mutex
	checks map[types.NamespacedName]map[types.UID]T
}

// of is what is remembered of the Machines of a check. Nobody may change it.
func (r *recall[T]) of(check types.NamespacedName) map[types.UID]T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.checks[check]
}

// keep replaces what is remembered of the Machines of a check.
func (r *recall[T]) keep(check types.NamespacedName, machines map[types.UID]T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case len(machines) == 0:
		delete(r.checks, check)
	case r.checks == nil:
		r.checks = map[types.NamespacedName]map[types.UID]T{check: machines}
	default:
		r.checks[check] = machines
	}
}

func (r *recall[T]) forget(check types.NamespacedName) { r.keep(check, nil) }
