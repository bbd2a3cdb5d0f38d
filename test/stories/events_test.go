// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stories_test

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/sim"
)

// lastWeek is when everything was made that is there when a story begins.
var lastWeek = midday.AddDate(0, 0, -7)

// uid is another one than those that the world gives by itself.
func (d *driver) uid() int {
	d.uids++
	return 1000 + d.uids
}

func (d *driver) add(name string, controlPlane bool, created time.Time) *sim.Machine {
	m := &sim.Machine{Name: name, UID: d.uid(), ControlPlane: controlPlane, Created: created}
	d.w.API.Machines[name] = m
	return m
}

func (d *driver) join(m *sim.Machine, since time.Time) *sim.Node {
	m.Node, m.ProviderID = "node-"+m.Name, "sim://"+m.Name
	n := &sim.Node{
		Name: m.Node, UID: d.uid(), ProviderID: m.ProviderID, Created: since, Since: since, Renewed: since, Ready: "True", ControlPlane: m.ControlPlane,
	}
	d.w.API.Nodes[m.Node] = n
	return n
}

// machine and node are those of that name, or of that Machine's name; what is done to them is a new version.
func (d *driver) machine(name string) *sim.Machine {
	m := d.w.API.Machines[name]
	if m == nil {
		d.t.Fatalf("there is no Machine %s", name)
	}
	m.Version++
	return m
}

func (d *driver) node(name string) *sim.Node {
	n := d.w.API.Nodes["node-"+name]
	if n == nil {
		d.t.Fatalf("there is no Node of %s", name)
	}
	n.Version++
	return n
}

// request is the one for that target.
func (d *driver) request(target string) (string, *sim.Request) {
	for key, r := range d.w.API.Requests {
		if r.Target == target || r.Target == "node-"+target {
			return key, r
		}
	}
	d.t.Fatalf("there is no request for %s", target)
	return "", nil
}

// workers and controlPlane are Machines that are there from the beginning, with their Nodes.
func workers(names ...string) step {
	return func(d *driver) {
		for _, name := range names {
			d.join(d.add(name, false, lastWeek), lastWeek)
		}
		d.w.API.Workers += len(names)
		d.tell("Cluster", "has workers %s", strings.Join(names, ", "))
	}
}

func controlPlane(names ...string) step {
	return func(d *driver) {
		for _, name := range names {
			d.join(d.add(name, true, lastWeek), lastWeek)
		}
		d.tell("Cluster", "has a control plane of %s", strings.Join(names, ", "))
	}
}

// newMachine is made by its owner, and has no Node yet.
func newMachine(name string) step {
	return func(d *driver) {
		d.add(name, strings.HasPrefix(name, "cp"), d.w.Now)
		d.tell("Owner", "makes %s", name)
	}
}

func joins(name string) step {
	return func(d *driver) {
		d.tell("Node", "%s joins", d.join(d.machine(name), d.w.Now).Name)
	}
}

// ready sets the condition Ready of a Node.
func ready(status string, names ...string) step {
	return func(d *driver) {
		for _, name := range names {
			n := d.node(name)
			n.Ready, n.Since = status, d.w.Now
			d.tell("Node", "%s is Ready=%s", n.Name, status)
		}
	}
}

func goDark(names ...string) step { return ready("Unknown", names...) }
func fail(names ...string) step   { return ready("False", names...) }
func areBack(names ...string) step {
	return ready("True", names...)
}

func nodeIsDeleted(name string) step {
	return func(d *driver) {
		d.tell("Node", "%s is deleted", d.node(name).Name)
		delete(d.w.API.Nodes, "node-"+name)
	}
}

func nodeComesBack(name string) step {
	return func(d *driver) {
		d.tell("Node", "%s is there again", d.join(d.machine(name), d.w.Now).Name)
	}
}

func nodeIsAnotherServer(name string) step {
	return func(d *driver) {
		n := d.node(name)
		n.ProviderID = "sim://another"
		d.tell("Node", "%s has the provider ID of another server", n.Name)
	}
}

func kubeletRenews(name string) step {
	return func(d *driver) {
		n := d.node(name)
		n.Renewed = d.w.Now
		d.tell("Node", "the kubelet of %s renews its Lease", n.Name)
	}
}

// Owners.

func ownerSays(name, reason string) step {
	return func(d *driver) {
		d.machine(name).Owner = reason
		if reason == "" {
			d.tell("Owner", "removes OwnerRemediated from %s", name)
			return
		}
		d.tell("Owner", "says of %s: OwnerRemediated=False, %s", name, reason)
	}
}

func ownerDeletes(name string) step {
	return func(d *driver) {
		m := d.machine(name)
		m.Owner, m.DeletingSince = sim.Deleting, d.w.Now
		d.tell("Owner", "deletes %s", name)
	}
}

func machineIsGone(name string) step {
	return func(d *driver) {
		m := d.machine(name)
		delete(d.w.API.Machines, name)
		delete(d.w.API.Nodes, m.Node)
		d.tell("Owner", "%s is gone", name)
	}
}

func hasNoOwner(name string) step {
	return func(d *driver) {
		d.machine(name).Orphan = true
		d.tell("User", "removes the owner reference of %s", name)
	}
}

func machineFails(name, reason string) step {
	return func(d *driver) {
		d.machine(name).Failure = reason
		if reason == "" {
			d.tell("Owner", "%s has no failureReason any more", name)
			return
		}
		d.tell("Owner", "%s has failureReason %s", name, reason)
	}
}

func machineSays(name, kind, status, reason string) step {
	return func(d *driver) {
		d.machine(name).Conditions = []metav1.Condition{{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, LastTransitionTime: metav1.NewTime(d.w.Now)}}
		d.tell("Owner", "says of %s: %s=%s, %s", name, kind, status, reason)
	}
}

// Remediators.

func succeeds(name string) step {
	return func(d *driver) {
		_, r := d.request(name)
		r.Succeeded = true
		d.tell("Remediator", "says of %s for %s: Succeeded=True", r.Kind, r.Target)
	}
}

func gaveUp(name string) step {
	return func(d *driver) {
		_, r := d.request(name)
		r.Failed = true
		d.tell("Remediator", "says of %s for %s: Succeeded=False", r.Kind, r.Target)
	}
}

// keeps: the finalizer of the remediator stays on its request until it lets go.
func keeps(name string) step {
	return func(d *driver) {
		key, r := d.request(name)
		d.kept[key] = true
		d.tell("Remediator", "keeps its finalizer on %s for %s", r.Kind, r.Target)
	}
}

func letsGo(name string) step {
	return func(d *driver) {
		key, _ := d.request(name)
		delete(d.kept, key)
		d.letGo()
	}
}

func deletesNodeOnItsWay(name string) step {
	return func(d *driver) {
		_, r := d.request(name)
		r.NodeDeletionExpected = true
		d.tell("Remediator", "says of %s for %s: PermanentNodeDeletionExpected", r.Kind, r.Target)
	}
}

// somebodyElses is a request of the very name that ours would have.
func somebodyElses(template, target string) step {
	return func(d *driver) {
		key := template + "/" + target
		d.w.API.Requests[key] = &sim.Request{Kind: template, Name: target, Target: target, Check: "somebody"}
		d.tell("User", "makes a request %s by hand", key)
	}
}

func removesByHand(template, target string) step {
	return func(d *driver) {
		key := template + "/" + target
		delete(d.w.API.Requests, key)
		d.tell("User", "deletes %s", key)
	}
}

// earlierLeaderAsks: a manager that was the leader until a moment ago has made a request that the next one does not know of yet.
func earlierLeaderAsks(check, name string) step {
	return func(d *driver) {
		m, step := d.machine(name), d.w.API.Checks[check].Policy.Steps[0].ID
		d.w.API.Requests[step.Template+"/"+name] = &sim.Request{
			Kind: step.Template, Name: name, Check: check, Target: name, TargetUID: m.UID, Request: remediation.Request{Step: step, Attempt: 1, Started: d.w.Now},
		}
		d.tell("Check", "the earlier leader makes %s for %s", step.Template, name)
	}
}

// The cluster.

func cluster(words string, change func(*sim.World)) step {
	return func(d *driver) {
		change(d.w)
		d.tell("Cluster", "%s", words)
	}
}

var (
	isCutOff = cluster("cannot be reached any more", func(w *sim.World) { w.Reachable, w.Conn = false, sim.Connection{} })
	// Nobody has noticed it: whoever looks past the cache does.
	isCutOffUnnoticed = cluster("cannot be reached any more, and nobody has noticed it yet", func(w *sim.World) { w.Reachable = false })
	// The API server answered when the Nodes were read, and does not any more when something is to be done.
	isBeingCutOff = cluster("is lost in the midst of a look", func(w *sim.World) { w.Conn.Breaking = true })
	isReachable   = cluster("can be reached again", func(w *sim.World) {
		w.Reachable, w.Conn = true, sim.Connection{Up: true, FirstLookUntil: w.Now.Add(50 * time.Second)}
	})
	isSlow      = cluster("has a slow API server: a reconcile has time for one preflight check", func(w *sim.World) { w.Slow = true })
	isBeingMade = cluster("is being made: it has neither infrastructure nor a control plane", func(w *sim.World) {
		w.API.NoControlPlane, w.API.NoInfrastructure = true, true
	})
	hasInfrastructure = cluster("has InfrastructureReady=True", func(w *sim.World) { w.API.NoInfrastructure, w.API.InfrastructureSince = false, w.Now })
	hasControlPlane   = cluster("has ControlPlaneInitialized=True", func(w *sim.World) { w.API.NoControlPlane, w.API.ControlPlaneSince = false, w.Now })
	isInTrouble       = cluster("has InfrastructureReady=False", func(w *sim.World) { w.API.NoInfrastructure = true })
	isBeingDeleted    = cluster("is being deleted", func(w *sim.World) { w.API.Deleting = true })
	doesNotExist      = cluster("does not exist any more", func(w *sim.World) { w.API.Missing = true })
)

// leaves puts a sign on a Node that it is about to go.
func leaves(name, sign string) step {
	return func(d *driver) {
		n := d.node(name)
		n.Leaving = remediation.Departure{Sign: sign, Since: d.w.Now}
		d.tell("Cluster", "puts %s on %s", sign, n.Name)
	}
}
