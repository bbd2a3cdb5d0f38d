// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pkg/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// fault is a broken Node of a Machine.
type fault struct {
	machine *clusterv1.Machine
	// began is when the Node became Unknown, and deadline is when the timeout of its check is over.
	began, deadline time.Time
}

// replaceWorker breaks the Node of a worker, and at the same time one that the in-tree controller monitors.
func (d *demonstration) replaceWorker(ctx context.Context) error {
	d.Heading("Part 1: a worker breaks, and its Machine is replaced")
	pool, err := d.cluster.PoolMachines(ctx, workersPool)
	if err != nil {
		return err
	}
	compared, err := d.cluster.PoolMachines(ctx, inTreePool)
	if err != nil {
		return err
	}
	faults, err := d.breakNodes(ctx, &pool[0], &compared[0])
	if err != nil {
		return err
	}
	own, inTree := faults[0], faults[1]
	name := own.machine.Name
	d.PrintAt(own.began, "Node %s turns NotReady: its kubelet no longer reports.", own.machine.Status.NodeRef.Name)
	d.PrintAt(inTree.began, "At the same moment Node %s turns NotReady, too. Cluster API's in-tree check monitors that one.",
		inTree.machine.Status.NodeRef.Name)
	if err := d.untilSuspect(ctx, workersPool); err != nil {
		return err
	}
	d.Print("Remedy calls the Machine suspect: it may recover before its five seconds are over. Ask why it is not " +
		"remediated, and when it would be:")
	if _, err := d.Run(ctx, "kubectl remedy explain machine/"+name+" | head -7"); err != nil {
		return err
	}
	if err := d.awaitReplacement(ctx, own); err != nil {
		return err
	}
	return d.awaitInTree(ctx, inTree)
}

// awaitReplacement waits until Remedy has requested the remediation of a worker, and its MachineSet has replaced it.
func (d *demonstration) awaitReplacement(ctx context.Context, f *fault) error {
	name := f.machine.Name
	marked, err := d.untilMarked(ctx, "Remedy", f)
	if err != nil {
		return err
	}
	d.PrintAt(marked, "The five seconds are over: the Machine is unhealthy, and nothing blocks its remediation. %s after the deadline "+
		"Remedy sets OwnerRemediated=False on the Machine. That is the request to its owner, a MachineSet.", seconds(marked.Sub(f.deadline)))
	if _, err := d.Run(ctx, "kubectl get rmhc workers"); err != nil {
		return err
	}
	deleted, err := d.untilMachine(ctx, "its MachineSet deletes Machine "+name, d.history.deleting, name)
	if err != nil {
		return err
	}
	d.PrintAt(deleted, "The MachineSet deletes the Machine, and creates another one.")
	replacement, err := d.untilReplaced(ctx, f, workers)
	if err != nil {
		return err
	}
	if err := d.untilHealthy(ctx, workersPool); err != nil {
		return err
	}
	healthy := time.Now()
	d.PrintAt(healthy, "The Node of the new Machine %s is Ready. All three workers are healthy again. The check keeps the history:",
		replacement)
	if _, err := d.Run(ctx, "kubectl remedy history machine/"+name); err != nil {
		return err
	}
	d.results = append(d.results, f.result("a worker", "Remedy: MachineHealthCheck", marked, healthy))
	return nil
}

// awaitInTree waits until the in-tree controller has done the same.
func (d *demonstration) awaitInTree(ctx context.Context, f *fault) error {
	marked, err := d.untilMarked(ctx, "the in-tree check", f)
	if err != nil {
		return err
	}
	d.Print("For comparison: the in-tree check set OwnerRemediated=False on its Machine %s after the same deadline. With "+
		"Cluster API's defaults it evaluates its Machines at most once in 15 seconds.", seconds(marked.Sub(f.deadline)))
	if _, err := d.untilReplaced(ctx, f, 1); err != nil {
		return err
	}
	healthy := time.Now()
	d.PrintAt(healthy, "The replacement of that Machine is Ready, too.")
	d.results = append(d.results, f.result("a worker, at the same moment", "in-tree: MachineHealthCheck", marked, healthy))
	return nil
}

func (d *demonstration) untilSuspect(ctx context.Context, check string) error {
	return d.untilCheck(ctx, "a target of "+check+" is suspect", check, func(s *remedyv1.MachineHealthCheckStatus) bool {
		return is(s.Suspect, 1)
	})
}

// untilMarked waits until a controller has requested owner remediation, and returns when.
func (d *demonstration) untilMarked(ctx context.Context, controller string, f *fault) (time.Time, error) {
	name := f.machine.Name
	return d.untilMachine(ctx, controller+" sets OwnerRemediated=False on Machine "+name, d.history.marked, name)
}

// repairControlPlaneAndServer breaks a control-plane Node and a server.
func (d *demonstration) repairControlPlaneAndServer(ctx context.Context) error {
	d.Heading("Part 2: a control-plane Node and a bare-metal server break")
	pool, err := d.cluster.PoolMachines(ctx, "")
	if err != nil {
		return err
	}
	servers, err := d.cluster.PoolMachines(ctx, metalPool)
	if err != nil {
		return err
	}
	faults, err := d.breakNodes(ctx, &pool[0], &servers[0])
	if err != nil {
		return err
	}
	member, server := faults[0], faults[1]
	d.PrintAt(member.began, "Node %s of the control plane turns NotReady, and so does Node %s, a bare-metal server.",
		member.machine.Status.NodeRef.Name, server.machine.Status.NodeRef.Name)
	marked, err := d.untilMarked(ctx, "Remedy", member)
	if err != nil {
		return err
	}
	d.PrintAt(marked, "%s after the deadline Remedy sets OwnerRemediated=False on the control-plane Machine. Its owner, a "+
		"KubeadmControlPlane, replaces one Machine at a time and keeps the quorum of etcd. That takes a while.",
		seconds(marked.Sub(member.deadline)))
	if err := d.reboot(ctx, server); err != nil {
		return err
	}
	replacement, err := d.untilReplaced(ctx, member, controlPlane)
	if err != nil {
		return err
	}
	if err := d.untilHealthy(ctx, "control-plane"); err != nil {
		return err
	}
	healthy := time.Now()
	d.PrintAt(healthy, "The KubeadmControlPlane has replaced its Machine by %s. All checks report healthy targets again.", replacement)
	d.results = append(d.results, member.result("a control-plane Node", "Remedy: MachineHealthCheck", marked, healthy))
	_, err = d.Run(ctx, "kubectl remedy status -A")
	return err
}

// reboot waits until the remediation provider has rebooted a server.
func (d *demonstration) reboot(ctx context.Context, f *fault) error {
	node := f.machine.Status.NodeRef.Name
	if err := d.Until(ctx, "Remedy creates a remediation request for Node "+node, d.hasRequest); err != nil {
		return err
	}
	requested := time.Now()
	d.PrintAt(requested, "The server must not be replaced. For it, Remedy has created a request for the remediation provider, here one "+
		"with the kinds of Metal3, and waits for it:")
	if _, err := d.Run(ctx, "kubectl get metal3remediations && kubectl get rnhc"); err != nil {
		return err
	}
	d.mayReboot.Store(true)
	if err := d.untilServers(ctx, "Node "+node+" is healthy, and the request no longer exists", func(s *remedyv1.NodeHealthCheckStatus) bool {
		return is(s.HealthyNodes, 1) && len(s.UnhealthyTargets) == 0
	}); err != nil {
		return err
	}
	if err := d.Until(ctx, "Remedy deletes its remediation request", func(ctx context.Context) (bool, error) {
		exists, err := d.hasRequest(ctx)
		return !exists, err
	}); err != nil {
		return err
	}
	healthy := time.Now()
	d.PrintAt(healthy, "The remediation provider has rebooted the server, its Node is Ready, and Remedy has deleted the request.")
	d.results = append(d.results, f.result("a bare-metal server", "Remedy: NodeHealthCheck", requested, healthy))
	same := &clusterv1.Machine{}
	err := d.world.Client.Get(ctx, client.ObjectKeyFromObject(f.machine), same)
	if err == nil && same.UID != f.machine.UID {
		err = errors.New("it is another one")
	}
	return errors.Wrapf(err, "Machine %s of the server should still exist", f.machine.Name)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2fs", d.Seconds()) }
