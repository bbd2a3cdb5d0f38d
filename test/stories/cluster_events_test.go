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

// lastWeek is when the objects were created that exist when a story starts.
var lastWeek = start.AddDate(0, 0, -7)

// uid returns a UID that the simulated cluster does not use itself.
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

// machine returns the Machine with this name, and node its Node. Both get a new version.
func (d *driver) machine(name string) *sim.Machine {
	m := d.w.API.Machines[name]
	if m == nil {
		d.t.Fatalf("Machine %s does not exist", name)
	}
	m.Version++
	return m
}

func (d *driver) node(name string) *sim.Node {
	n := d.w.API.Nodes["node-"+name]
	if n == nil {
		d.t.Fatalf("Machine %s has no Node", name)
	}
	n.Version++
	return n
}

// request returns the request for a target.
func (d *driver) request(target string) (string, *sim.Request) {
	for key, r := range d.w.API.Requests {
		if r.Target == target || r.Target == "node-"+target {
			return key, r
		}
	}
	d.t.Fatalf("%s has no request", target)
	return "", nil
}

// workers and controlPlane add Machines with Nodes that exist from the start.
func workers(names ...string) step {
	return func(d *driver) {
		for _, name := range names {
			d.join(d.add(name, false, lastWeek), lastWeek)
		}
		d.w.API.Workers += len(names)
		d.write("Cluster", "has workers %s", strings.Join(names, ", "))
	}
}

func controlPlane(names ...string) step {
	return func(d *driver) {
		for _, name := range names {
			d.join(d.add(name, true, lastWeek), lastWeek)
		}
		d.write("Cluster", "has a control plane of %s", strings.Join(names, ", "))
	}
}

// newMachine adds a Machine without a Node.
func newMachine(name string) step {
	return func(d *driver) {
		d.add(name, strings.HasPrefix(name, "cp"), d.w.Now)
		d.write("Owner", "creates %s", name)
	}
}

func joins(name string) step {
	return func(d *driver) {
		d.write("Node", "%s joins", d.join(d.machine(name), d.w.Now).Name)
	}
}

// ready sets the condition Ready of a Node.
func ready(status string, names ...string) step {
	return func(d *driver) {
		for _, name := range names {
			n := d.node(name)
			n.Ready, n.Since = status, d.w.Now
			d.write("Node", "%s is Ready=%s", n.Name, status)
		}
	}
}

func nodesUnknown(names ...string) step  { return ready("Unknown", names...) }
func nodesNotReady(names ...string) step { return ready("False", names...) }
func nodesReady(names ...string) step {
	return ready("True", names...)
}

// diskNotReady sets a condition of a Machine.
func diskNotReady(name string) step {
	return func(d *driver) {
		m := d.machine(name)
		m.Conditions = []metav1.Condition{{Type: "DiskReady", Status: metav1.ConditionFalse, LastTransitionTime: metav1.NewTime(d.w.Now)}}
		d.write("Machine", "%s is DiskReady=False", name)
	}
}

func nodeDeleted(name string) step {
	return func(d *driver) {
		d.write("Node", "%s is deleted", d.node(name).Name)
		delete(d.w.API.Nodes, "node-"+name)
	}
}

func nodeRecreated(name string) step {
	return func(d *driver) {
		d.write("Node", "%s is created again", d.join(d.machine(name), d.w.Now).Name)
	}
}

func providerIDChanges(name string) step {
	return func(d *driver) {
		n := d.node(name)
		n.ProviderID = "sim://another"
		d.write("Node", "%s has the provider ID of another server", n.Name)
	}
}

func kubeletRenews(name string) step {
	return func(d *driver) {
		n := d.node(name)
		n.Renewed = d.w.Now
		d.write("Node", "the kubelet of %s renews its Lease", n.Name)
	}
}

// Owners.

func ownerReports(name, reason string) step {
	return func(d *driver) {
		d.machine(name).Owner = reason
		if reason == "" {
			d.write("Owner", "removes OwnerRemediated from %s", name)
			return
		}
		d.write("Owner", "sets OwnerRemediated=False, %s, on %s", reason, name)
	}
}

func ownerDeletes(name string) step {
	return func(d *driver) {
		m := d.machine(name)
		m.Owner, m.DeletingSince = sim.Deleting, d.w.Now
		d.write("Owner", "deletes %s", name)
	}
}

func machineRemoved(name string) step {
	return func(d *driver) {
		m := d.machine(name)
		delete(d.w.API.Machines, name)
		delete(d.w.API.Nodes, m.Node)
		d.write("Owner", "removes its finalizer from %s, which no longer exists", name)
	}
}

func ownerReferenceRemoved(name string) step {
	return func(d *driver) {
		d.machine(name).Orphan = true
		d.write("User", "removes the owner reference of %s", name)
	}
}

func machineFails(name, reason string) step {
	return func(d *driver) {
		d.machine(name).Failure = reason
		if reason == "" {
			d.write("Owner", "removes failureReason from %s", name)
			return
		}
		d.write("Owner", "sets failureReason %s on %s", reason, name)
	}
}

func machineReports(name, kind, status, reason string) step {
	return func(d *driver) {
		d.machine(name).Conditions = []metav1.Condition{{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, LastTransitionTime: metav1.NewTime(d.w.Now)}}
		d.write("Owner", "sets %s=%s, %s, on %s", kind, status, reason, name)
	}
}

// Remediators.

func remediationSucceeds(name string) step {
	return func(d *driver) {
		_, r := d.request(name)
		r.Succeeded = true
		d.write("Remediator", "sets Succeeded=True on %s for %s", r.Kind, r.Target)
	}
}

func remediationFails(name string) step {
	return func(d *driver) {
		_, r := d.request(name)
		r.Failed = true
		d.write("Remediator", "sets Succeeded=False on %s for %s", r.Kind, r.Target)
	}
}

// keepsFinalizer keeps the finalizer of the remediator on its request until removesFinalizer.
func keepsFinalizer(name string) step {
	return func(d *driver) {
		key, r := d.request(name)
		d.kept[key] = true
		d.write("Remediator", "keeps its finalizer on %s for %s", r.Kind, r.Target)
	}
}

func removesFinalizer(name string) step {
	return func(d *driver) {
		key, _ := d.request(name)
		delete(d.kept, key)
		d.removeFinalizers()
	}
}

func expectsNodeDeletion(name string) step {
	return func(d *driver) {
		_, r := d.request(name)
		r.NodeDeletionExpected = true
		d.write("Remediator", "sets PermanentNodeDeletionExpected=True on %s for %s", r.Kind, r.Target)
	}
}

// createsRequest creates a request with the name that the request of the check would have.
func createsRequest(template, target string) step {
	return func(d *driver) {
		key := template + "/" + target
		d.w.API.Requests[key] = &sim.Request{Kind: template, Name: target, Target: target, Check: "another"}
		d.write("User", "creates the request %s", key)
	}
}

func deletesRequest(template, target string) step {
	return func(d *driver) {
		key := template + "/" + target
		delete(d.w.API.Requests, key)
		d.write("User", "deletes the request %s", key)
	}
}

// earlierLeaderCreates creates a request of the previous leader, which the caches of the present one do not have yet.
func earlierLeaderCreates(check, name string) step {
	return func(d *driver) {
		m, step := d.machine(name), d.w.API.Checks[check].Policy.Steps[0].ID
		d.w.AddRequest(&sim.Request{
			Kind: step.Template, Name: name, Check: check, Target: name, TargetUID: m.UID, Request: remediation.Request{Step: step, Attempt: 1, Started: d.w.Now},
		}, len(d.w.API.Checks[check].Policy.Steps))
		d.write("Check", "the previous leader creates %s for %s", step.Template, name)
	}
}

// The cluster.

func cluster(words string, change func(*sim.World)) step {
	return func(d *driver) {
		change(d.w)
		d.write("Cluster", "%s", words)
	}
}

var (
	unreachable = cluster("becomes unreachable", func(w *sim.World) { w.Reachable, w.Conn = false, sim.Connection{} })
	// Only a live read finds it.
	unreachableUnnoticed = cluster("becomes unreachable, which no reconcile has found yet", func(w *sim.World) { w.Reachable = false })
	// The API server answered when the Nodes were read, but not to the preflight check.
	connectionBreaks = cluster("becomes unreachable during a reconcile", func(w *sim.World) { w.Conn.Breaking = true })
	reachable        = cluster("is reachable again", func(w *sim.World) {
		w.Reachable, w.Conn = true, sim.Connection{Up: true, ReconnectingUntil: w.Now.Add(50 * time.Second)}
	})
	// The manager starts, or the API server of the management cluster can be reached again.
	managerStarts = cluster("gets a manager that has just started", func(w *sim.World) { w.Conn.KubeletsUntil = w.Now.Add(50 * time.Second) })
	clocksDiffer  = cluster("has a manager whose clock is ten minutes ahead", func(w *sim.World) { w.Conn.ClockOffset = 10 * time.Minute })
	clocksAgree   = cluster("has a manager whose clock is right", func(w *sim.World) { w.Conn.ClockOffset = 0 })
	// The plan does not have what the preflight check finds.
	outageInBetween = cluster("has an outage between plan and preflight check", func(w *sim.World) {
		w.Conn.AtPreflight = &remediation.Observation{KubeletsUntil: w.Now.Add(50 * time.Second)}
	})
	clockStepsInBetween = cluster("has a manager whose clock is set between plan and preflight check", func(w *sim.World) {
		w.Conn.AtPreflight = &remediation.Observation{ClockOffset: time.Minute}
	})
	quietAgain    = cluster("is as before", func(w *sim.World) { w.Conn.AtPreflight = nil })
	slowAPIServer = cluster("has a slow API server: a reconcile has time for one preflight check", func(w *sim.World) { w.Slow = true })
	beingCreated  = cluster("is being created: its infrastructure and its control plane are not ready", func(w *sim.World) {
		w.API.NoControlPlane, w.API.NoInfrastructure = true, true
	})
	infrastructureReady     = cluster("has InfrastructureReady=True", func(w *sim.World) { w.API.NoInfrastructure, w.API.InfrastructureSince = false, w.Now })
	controlPlaneInitialized = cluster("has ControlPlaneInitialized=True", func(w *sim.World) { w.API.NoControlPlane, w.API.ControlPlaneSince = false, w.Now })
	infrastructureNotReady  = cluster("has InfrastructureReady=False", func(w *sim.World) { w.API.NoInfrastructure = true })
	clusterDeleting         = cluster("is being deleted", func(w *sim.World) { w.API.Deleting = true })
	clusterNotFound         = cluster("no longer exists", func(w *sim.World) { w.API.Missing = true })
)

// terminationAnnounced sets a sign on a Node that its termination is announced.
func terminationAnnounced(name, sign string) step {
	return func(d *driver) {
		n := d.node(name)
		n.Terminating = remediation.Departure{Sign: sign, Since: d.w.Now}
		d.write("Cluster", "sets %s on %s", sign, n.Name)
	}
}
