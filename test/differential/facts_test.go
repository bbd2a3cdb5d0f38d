// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package differential_test

import (
	"cmp"
	"fmt"
	"time"

	"pgregory.net/rapid"
)

// facts are drawn once, and translated twice: into objects for Cluster API (intree_test.go), and into a snapshot for Remedy (ours_test.go).
type facts struct {
	now                          time.Time
	controlPlane, infrastructure condition
	machines                     []machine
	policy                       policy
}

type policy struct {
	machineChecks, nodeChecks []check
	// startupTimeout is nil if it is not set.
	startupTimeout *time.Duration
	// goneTimeout exists only in Remedy.
	goneTimeout time.Duration
}

type check struct {
	kind, status string
	lasting      time.Duration
}

// condition is absent if it has no status. Since is zero if it is not recorded.
type condition struct {
	kind, status, reason string
	since                time.Time
}

type machine struct {
	name, providerID              string
	failureReason, failureMessage string
	createdAt                     time.Time
	deleting, controlPlane        bool
	paused, skip, remediate       bool
	conditions                    []condition
	// hasNodeRef without a node is a Node that was deleted.
	hasNodeRef bool
	node       *node
	// goneSince exists only in Remedy.
	goneSince time.Time
}

type node struct {
	createdAt  time.Time
	providerID string
	conditions []condition
}

var (
	machineTypes = []string{"InfrastructureReady", "NodeHealthy", "example.com/Audited"}
	nodeTypes    = []string{"Ready", "DiskPressure", "example.com/Disk"}
	statuses     = []string{"True", "False", "Unknown"}
	providerIDs  = []string{"", "x://1", "x://1", "x://1", "x://2"}
)

// nodeName is that of the Node which the Machine has, or had.
func (m *machine) nodeName() string { return "node-of-" + m.name }

func (f *facts) controlPlaneInitialized() bool { return f.controlPlane.status == "True" }
func (f *facts) infrastructureReady() bool     { return f.infrastructure.status == "True" }

// isGone: there is a control plane that answers, and it does not have the Node.
func (f *facts) isGone(m *machine) bool {
	return f.controlPlaneInitialized() && m.hasNodeRef && m.node == nil
}

// Timeouts are whole minutes, and everything has begun half a minute after or before one: the seconds that a run takes never cross a
// deadline.
func drawTimeout(t *rapid.T, name string) time.Duration {
	return time.Duration(rapid.IntRange(0, 12).Draw(t, name)) * time.Minute
}

// The clocks of a cluster may be ahead of that of the manager.
func (f *facts) drawTime(t *rapid.T, name string) time.Time {
	return f.minutesAgo(rapid.IntRange(-3, 20).Draw(t, name))
}

func (f *facts) minutesAgo(minutes int) time.Time {
	return f.now.Add(-time.Duration(minutes)*time.Minute - 30*time.Second)
}

// rarely is true now and then. Rapid likes the ends of a range, so that neither of them is chosen.
func rarely(t *rapid.T, name string) bool { return rapid.IntRange(0, 9).Draw(t, name) == 4 }

func (f *facts) drawCondition(t *rapid.T, kind string, likely []string) condition {
	c := condition{kind: kind, status: rapid.SampledFrom(likely).Draw(t, kind), reason: "Because", since: f.drawTime(t, kind+" since")}
	if rarely(t, kind+" is not dated") {
		c.since = time.Time{}
	}
	return c
}

// Most clusters are up: the checks evaluate only these.
func (f *facts) drawMilestone(t *rapid.T, kind string) condition {
	if rarely(t, kind+" is not reached") {
		return f.drawCondition(t, kind, []string{"False", "Unknown", ""})
	}
	c := f.drawCondition(t, kind, []string{"True"})
	// Or no Node would ever be late: its time runs from the last milestone.
	if !c.since.IsZero() && rapid.Bool().Draw(t, kind+" long ago") {
		c.since = c.since.Add(-time.Hour)
	}
	return c
}

func (f *facts) drawConditions(t *rapid.T, kinds []string) []condition {
	var all []condition
	for _, kind := range kinds {
		if !rarely(t, kind+" is absent") {
			all = append(all, f.drawCondition(t, kind, statuses))
		}
	}
	return all
}

func drawChecks(t *rapid.T, kinds []string, name string) []check {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) check {
		return check{
			kind: rapid.SampledFrom(kinds).Draw(t, "type"), status: rapid.SampledFrom(statuses).Draw(t, "status"),
			lasting: drawTimeout(t, "lasting"),
		}
	}), 0, 3).Draw(t, name)
}

func drawPolicy(t *rapid.T) policy {
	p := policy{
		machineChecks: drawChecks(t, machineTypes, "machine checks"), nodeChecks: drawChecks(t, nodeTypes, "node checks"),
		goneTimeout: drawTimeout(t, "gone timeout"),
	}
	if !rarely(t, "no startup timeout is set") {
		startup := drawTimeout(t, "startup timeout")
		p.startupTimeout = &startup
	}
	return p
}

// failure is what the Machine gave up for.
func (m *machine) failure() string { return cmp.Or(m.failureReason, m.failureMessage) }

func (f *facts) drawMachine(t *rapid.T, name string) machine {
	m := machine{
		name: name, providerID: rapid.SampledFrom(providerIDs).Draw(t, "provider ID"), createdAt: f.drawTime(t, "created"),
		deleting: rarely(t, "deleting"), controlPlane: rapid.Bool().Draw(t, "of the control plane"),
		paused: rarely(t, "paused"), skip: rarely(t, "skip"), remediate: rarely(t, "remediate"),
		conditions: f.drawConditions(t, machineTypes),
	}
	// Either of the two, or both, report a failure.
	if rarely(t, "failed") {
		m.failureReason = "CreateError"
	}
	if rarely(t, "failed with a message") {
		m.failureMessage = "the image does not exist"
	}
	// One in four has no Node yet; of the others, one in four has lost it.
	if m.hasNodeRef = rapid.IntRange(0, 3).Draw(t, "node reference") != 1; !m.hasNodeRef {
		return m
	}
	if rapid.IntRange(0, 3).Draw(t, "node") != 1 {
		m.node = &node{
			createdAt: f.drawTime(t, "node created"), providerID: rapid.SampledFrom(providerIDs).Draw(t, "provider ID of the node"),
			conditions: f.drawConditions(t, nodeTypes),
		}
	} else if rapid.Bool().Draw(t, "noted to be gone") {
		// Remedy records it when it reads it: that is never ahead.
		m.goneSince = f.drawTime(t, "gone since")
	}
	return m
}

func drawFacts(t *rapid.T, now time.Time) *facts {
	f := &facts{now: now.UTC().Truncate(time.Second)}
	f.controlPlane, f.infrastructure = f.drawMilestone(t, "ControlPlaneInitialized"), f.drawMilestone(t, "InfrastructureReady")
	f.policy = drawPolicy(t)
	for i := range rapid.IntRange(40, 80).Draw(t, "machines") {
		f.machines = append(f.machines, f.drawMachine(t, fmt.Sprintf("machine-%d", i)))
	}
	return f
}
