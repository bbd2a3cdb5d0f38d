// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sim is a simulation in memory: a management cluster as its API server has it and as a lagging cache shows it, a workload
// cluster that can be cut off, Nodes that go dark, remediators, owners, users, a clock. internal/pipeline reconciles in it, and the world is its
// client.
//
// It is for tests of decisions and of their sequence. What an API server does by itself is proved on a real one. Start with reconcile in
// controller.go.
package sim

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// State is all objects, as one view shows them.
type State struct {
	Paused, Deleting, Missing bool
	Machines                  map[string]*Machine
	Nodes                     map[string]*Node
	Requests                  map[string]*Request
	Checks                    map[string]*Check
	// Workers is how many Machines the MachineSet wants.
	Workers int
	// NoControlPlane and NoInfrastructure: the Cluster has none yet, or it is in trouble. The others are since when it has.
	NoControlPlane, NoInfrastructure bool
	// Turn is the Lease by which checks take turns at the control plane.
	Turn                                   Turn
	ControlPlaneSince, InfrastructureSince time.Time
}

// Turn is a Lease, as it stands in the workload cluster. It exists while it has a holder.
type Turn struct {
	Holder  string
	Until   time.Time
	Version int
}

// Machine is a Machine with what is written on it.
type Machine struct {
	Name, Node, ProviderID  string
	UID, Version            int
	ControlPlane, Orphan    bool
	Created, DeletingSince  time.Time
	Failure                 string
	Conditions              []metav1.Condition
	Paused, Skip, Remediate bool
	// Body identifies a Machine for ever: a move gives new UIDs, and names come again.
	Body int
	// UnpausedAt is when its last pause ended. No object has that: the controller remembers it until its restart.
	UnpausedAt                 time.Time
	History                    remediation.History
	NodeGoneSince, MarkedSince time.Time
	// AskedOwnerAt is the annotation with the time at which the author has set OwnerRemediated.
	AskedOwnerAt time.Time
	// Author is the check that wrote the marks. Unhealthy and Healthy are the two sides of HealthCheckSucceeded; Owner is the reason of
	// OwnerRemediated.
	Author             string
	Unhealthy, Healthy bool
	// Counted: a check with a limit for that has requested its owner remediation, which has not been edited since.
	Counted bool
	Owner   string
}

// What an owner reports about a Machine with a requested owner remediation.
const (
	Waiting  = "WaitingForRemediation"
	Deferred = "RemediationDeferred"
	Deleting = "MachineDeleting"
	Refused  = "CannotBeRemediated"
)

// Node is a Node of the workload cluster, with the Lease by which those who work on it take turns.
type Node struct {
	Name, Ready, ProviderID string
	UID, Version            int
	Created, Since, Renewed time.Time
	ControlPlane            bool
	Excluded, Confirmed     bool
	Terminating             remediation.Departure
	History                 remediation.History
	Holder                  string
	BlockedUntil            time.Time
}

// Request is a remediation request.
type Request struct {
	Kind, Name, Check, Target string
	TargetUID                 int
	remediation.Request
	// Stuck: its remediator never removes its finalizer. ControlPlane: a label marks its Node as one of the control plane.
	Stuck, ControlPlane bool
	// Version is how often a controller has written to it.
	Version int
	// Serial identifies a request for ever. Looked is when, in the order of all events, its creator ran the preflight check.
	Serial, Looked int
}

// Check is a check of either kind, with its spec and its annotations.
type Check struct {
	Name        string
	ForNodes    bool
	WorkersOnly bool
	// Half: it selects only every other Machine, 1 the even ones and 2 the odd ones, so that two checks can share a control plane.
	Half                int
	Version, Generation int
	Deleting, Paused    bool
	Finalizer           bool
	Health              health.Policy
	Policy              remediation.Policy
	PauseRequests       []string
	Storm               remediation.Storm
	ThawedAt            time.Time
	Replacing           []remediation.Replacement
}

// UID identifies a check: another one of its name has another.
func (c *Check) UID() int { return c.Version / 1000 }

func copied[T any](m map[string]*T) map[string]*T {
	c := make(map[string]*T, len(m))
	for name, object := range m {
		o := *object
		c[name] = &o
	}
	return c
}

// Copy shares nothing that is ever changed.
func (s *State) Copy() *State {
	c := *s
	c.Machines, c.Nodes, c.Requests, c.Checks = copied(s.Machines), copied(s.Nodes), copied(s.Requests), copied(s.Checks)
	return &c
}

func sorted[T any](m map[string]*T) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// exists reports whether there is a Machine or a Node with that UID.
func (s *State) exists(uid int) bool {
	for _, m := range s.Machines {
		if m.UID == uid {
			return true
		}
	}
	for _, n := range s.Nodes {
		if n.UID == uid {
			return true
		}
	}
	return false
}

// machineOf is the Machine of a Node.
func (s *State) machineOf(node string) *Machine {
	for _, m := range s.Machines {
		if m.Node == node {
			return m
		}
	}
	return nil
}
