// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediator

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Memory is what remediators remember besides their requests. Those of one test share it.
type Memory struct {
	mu    sync.Mutex
	hosts map[client.ObjectKey]*Host
	// agents are the requests for which a fence agent runs.
	agents map[types.UID]bool
	// missing are the resource versions of the requests whose Node did not exist when they were read last.
	missing map[types.UID]string
}

// Host is the server of a Machine, which Metal3 restarts.
type Host struct {
	// Offline: it is not meant to run, so that its remediation fails.
	Offline bool
	// Off is its power.
	Off bool
	// Unhealthy: no other Machine gets it.
	Unhealthy bool
	// Reboots are the requests whose annotations keep it off.
	Reboots map[types.UID]bool
}

// Host returns the server of a Machine.
func (m *Memory) Host(machine client.ObjectKey) *Host {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hosts == nil {
		m.hosts = map[client.ObjectKey]*Host{}
	}
	if m.hosts[machine] == nil {
		m.hosts[machine] = &Host{Reboots: map[types.UID]bool{}}
	}
	return m.hosts[machine]
}

func (r *Remediator) memory() *Memory {
	if r.Memory == nil {
		r.Memory = &Memory{}
	}
	return r.Memory
}

// setAgent records whether a fence agent runs for a request.
func (m *Memory) setAgent(request types.UID, runs bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.agents == nil {
		m.agents = map[types.UID]bool{}
	}
	m.agents[request] = runs
}

func (m *Memory) agent(request types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.agents[request]
}

// setMissing records that the Node of a request does not exist.
func (m *Memory) setMissing(request types.UID, version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.missing == nil {
		m.missing = map[types.UID]string{}
	}
	m.missing[request] = version
}

// stillMissing reports whether the Node of a request did not exist, and the request has not changed since.
func (m *Memory) stillMissing(request types.UID, version string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.missing[request] == version
}
