// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// event is a change that no check of Remedy makes.
func (w *World) event() {
	w.Steps++
	w.changed()
	defer w.observe()
	switch k := w.draw.IntN(100); {
	case k < 40:
		w.nodeEvent()
	case k < 58:
		w.remediators()
	case k < 70:
		w.owners()
	case k < 75:
		w.connection()
	case k < 98 || !w.rarely(5):
		w.userEvent()
	// A move pauses everything first, so no write is in progress.
	case w.busy == 0:
		w.move()
	}
}

func (w *World) anyNode() *Node {
	names := sorted(w.API.Nodes)
	if len(names) == 0 {
		return nil
	}
	return w.API.Nodes[names[w.draw.IntN(len(names))]]
}

func (w *World) anyMachine() *Machine {
	names := sorted(w.API.Machines)
	if len(names) == 0 {
		return nil
	}
	return w.API.Machines[names[w.draw.IntN(len(names))]]
}

func (w *World) ready(n *Node, status string) {
	if n.Ready != status {
		n.Ready, n.Since = status, w.Now
		n.Version++
		w.note(n.Name + " is Ready=" + status)
	}
}

// nodeEvent: Nodes go dark and return, vanish and join.
func (w *World) nodeEvent() {
	n, m := w.anyNode(), w.anyMachine()
	switch k := w.draw.IntN(20); {
	case n == nil || m == nil:
	case k < 5:
		w.ready(n, "Unknown")
	case k < 9:
		w.ready(n, "False")
	case k < 14:
		w.ready(n, "True")
	case k < 15:
		if w.rarely(2) {
			w.comeAndGo(n)
			return
		}
		w.machineSays(m)
	case k < 17:
		w.join(m)
	case k < 18:
		n.Renewed = w.Now
		w.note("the kubelet of " + n.Name + " renews its Lease")
	case k < 19:
		n.Version++
		n.Terminating = remediation.Departure{}
		if w.rarely(3) {
			n.Terminating = remediation.Departure{Sign: "taint", Since: w.Now}
		}
	default:
		m.Version++
		m.Failure = map[bool]string{true: "CreateError"}[w.rarely(3)]
	}
}

// comeAndGo: a Node is deleted, or one that was is there again.
func (w *World) comeAndGo(n *Node) {
	for _, name := range sorted(w.API.Machines) {
		if m := w.API.Machines[name]; m.Node != "" && w.API.Nodes[m.Node] == nil && w.rarely(2) {
			m.Node = ""
			w.join(m)
			if w.log != nil {
				w.log.back(m.Body)
			}
			w.note(m.Node + " is there again")
			return
		}
	}
	w.deleteNode(n)
}

func (w *World) deleteNode(n *Node) {
	delete(w.API.Nodes, n.Name)
	w.note(n.Name + " is deleted")
	if m := w.API.machineOf(n.Name); m != nil && w.log != nil && w.log.gone[m.Body].IsZero() {
		w.log.gone[m.Body] = w.Now
	}
}

// machineSays: a condition of a Machine turns bad or good; now and then the infrastructure of the whole cluster is in trouble.
func (w *World) machineSays(m *Machine) {
	m.Version++
	status := metav1.ConditionTrue
	if w.rarely(2) {
		status = metav1.ConditionFalse
	}
	m.Conditions = []metav1.Condition{{Type: "DiskReady", Status: status, LastTransitionTime: metav1.NewTime(w.Now)}}
	if trouble := w.rarely(10); trouble != w.API.NoInfrastructure {
		if w.API.NoInfrastructure = trouble; !trouble {
			w.API.InfrastructureSince = w.Now
		}
		w.note("the infrastructure is in trouble, or is not any more")
	}
}

// remediators finish, fail, never answer, or keep their finalizer.
func (w *World) remediators() {
	for _, key := range sorted(w.API.Requests) {
		r := w.API.Requests[key]
		if !r.DeletingSince.IsZero() {
			if w.letsGo(r) && (!r.Stuck || w.rarely(30)) {
				delete(w.API.Requests, key)
				w.note(key + " no longer exists")
			}
			continue
		}
		k := w.draw.IntN(12)
		if r.Acted = r.Acted || k < 6; r.TimedOut || r.Check == stranger {
			continue
		}
		switch {
		case k < 2 && !r.Succeeded:
			r.Failed = true
		case k < 4 && !r.Failed:
			r.Succeeded = true
			w.heal(r)
		case k < 5:
			w.heal(r)
		case k < 6:
			r.NodeDeletionExpected = true
		case k < 8 && r.NodeDeletionExpected:
			w.deleteNodeOf(r)
		}
	}
}

// letsGo: some remediators keep their finalizer for ever when the Node does not exist and the request has not timed out.
func (w *World) letsGo(r *Request) bool {
	if r.TimedOut || r.Succeeded || w.API.Checks[r.Check] == nil {
		return true
	}
	return w.API.exists(r.TargetUID)
}

// deleteNodeOf: some remediators delete the Node on their way.
func (w *World) deleteNodeOf(r *Request) {
	for _, n := range w.API.Nodes {
		if n.UID == r.TargetUID {
			w.deleteNode(n)
			return
		}
	}
}

func (w *World) heal(r *Request) {
	for _, name := range sorted(w.API.Machines) {
		if m := w.API.Machines[name]; m.UID == r.TargetUID && w.API.Nodes[m.Node] != nil {
			w.ready(w.API.Nodes[m.Node], "True")
		}
	}
	for _, name := range sorted(w.API.Nodes) {
		if n := w.API.Nodes[name]; n.UID == r.TargetUID {
			w.ready(n, "True")
		}
	}
}

// owners defer, refuse, delete and replace the Machines that they were asked to remediate, and take the mark off those that are well again.
func (w *World) owners() {
	workers := 0
	for _, name := range sorted(w.API.Machines) {
		m := w.API.Machines[name]
		if !m.DeletingSince.IsZero() && w.rarely(3) {
			delete(w.API.Machines, name)
			delete(w.API.Nodes, m.Node)
			w.note(name + " no longer exists")
			replacement := w.addMachine(map[bool]string{true: name}[m.ControlPlane], m.ControlPlane)
			if replacement.Orphan = m.Orphan; !m.ControlPlane && !m.Orphan {
				workers++
			}
			if m.Owner == Deleting && m.Counted && m.Author != "" {
				w.replaced = append(w.replaced, replaced{check: m.Author, by: replacement.Body, at: w.Now})
			}
			continue
		}
		if !m.ControlPlane && !m.Orphan {
			workers++
		}
		if m.Owner == "" || m.Paused || m.Orphan {
			continue
		}
		m.Version++
		switch k := w.draw.IntN(16); {
		case m.Healthy && !m.Unhealthy:
			m.Owner = ""
		case !m.Unhealthy || !m.DeletingSince.IsZero():
		case k < 2:
			m.Owner = Deferred
		case k < 3:
			m.Owner = Refused
		case k < 7:
			m.Owner, m.DeletingSince = Deleting, w.Now
			w.note(name + " is being deleted by its owner")
		}
	}
	for ; workers < w.API.Workers; workers++ {
		w.addMachine("", false)
	}
}

// connection: the workload cluster can be cut off. The controller notices that, and its return, only after a while.
func (w *World) connection() {
	if w.rarely(3) {
		w.Reachable = w.Reachable == w.rarely(3)
	}
	// It can be lost in the midst of a look, after the Nodes have been read.
	w.Conn.Breaking = w.Conn.Up && !w.Reachable && w.rarely(2)
	if w.Conn.Up == w.Reachable || w.rarely(2) {
		return
	}
	w.Conn.Up, w.Conn.Breaking = w.Reachable, false
	if w.Conn.Up {
		w.Conn.ReconnectingUntil = w.Now.Add(50 * time.Second)
	}
}
