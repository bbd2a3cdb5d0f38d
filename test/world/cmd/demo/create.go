// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/uuid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/demo"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

// The workload cluster. Its pools are MachineDeployments.
const (
	namespace    = "default"
	workersPool  = "workers"
	metalPool    = "metal"
	inTreePool   = "in-tree"
	workers      = 3
	controlPlane = 3
	machines     = workers + controlPlane + 2
)

// targets is how many Machines the checks select.
var targets = map[string]int{workersPool: workers, "control-plane": controlPlane}

// timeout is that of every check, in manifests.
const timeout = 5 * time.Second

//go:embed manifests/*.yaml
var manifests embed.FS

// demonstration is a running management cluster with a workload cluster.
type demonstration struct {
	*demo.Terminal

	world   *world.World
	cluster *world.Cluster
	plugin  string
	// history is what has happened to the Machines.
	history *history
	results []result
	// mayReboot lets the remediator reboot servers.
	mayReboot atomic.Bool
	// life ends with stop. An API server that stops waits for watches.
	life context.Context //nolint:containedctx // it is the life of the demonstration.
	end  context.CancelFunc
}

const introduction = `Remedy monitors the health of the Machines and Nodes of Kubernetes clusters. When one is unhealthy for too long,
Remedy requests its remediation: the owner of the Machine replaces it, or a remediation provider repairs the
Node, for example by a reboot. If too much is unhealthy at once, or the cluster cannot be reached, Remedy does
nothing, and its status has the reason.

This demo runs the real Cluster API and Remedy as processes on this machine. The servers are simulated: a broken
Node is a Node whose condition Ready is set to Unknown, as Kubernetes does for a kubelet that no longer reports.
Timeouts are seconds here, and minutes in production. Ctrl-C stops everything and removes it.
`

// create starts the management cluster, creates the workload cluster, and applies the checks meanwhile.
func (d *demonstration) create(ctx context.Context, options world.Options) error {
	fmt.Print(introduction)
	d.Heading("Setup: a management cluster and a workload cluster")
	d.Print("Starting a management cluster with Cluster API and Remedy.")
	options.Progress = progress{d.Terminal}
	var err error
	if d.world, err = world.Start(ctx, options); err != nil {
		return err
	}
	if d.plugin, err = d.world.Plugin(ctx); err != nil {
		return err
	}
	d.Kubeconfig, d.Path = d.world.Kubeconfig, []string{filepath.Dir(d.plugin), filepath.Dir(d.world.Plane.Kubectl)}
	d.Print("Creating the workload cluster prod: %d control-plane Machines and 5 workers.", controlPlane)
	d.cluster, err = d.world.Cluster(ctx, world.Shape{Name: "prod", ControlPlanes: controlPlane, Pools: []world.Pool{
		{Name: workersPool, Replicas: workers}, {Name: metalPool, Replicas: 1}, {Name: inTreePool, Replicas: 1},
	}})
	if err != nil {
		return err
	}
	if err := d.installRemediator(ctx); err != nil {
		return err
	}
	if err := d.applyChecks(ctx); err != nil {
		return err
	}
	if err := d.awaitMachines(ctx); err != nil {
		return err
	}
	if d.history, err = newHistory(d.life, d.world.Client); err != nil {
		return err
	}
	if err := d.labelServers(ctx); err != nil {
		return err
	}
	if err := d.awaitChecks(ctx); err != nil {
		return err
	}
	d.Print("All Machines are available, and all checks report that their targets are healthy. The in-tree check counts one Machine, too.")
	_, err = d.Run(ctx, "kubectl get rmhc,rnhc")
	return err
}

// progress prints what the world does.
type progress struct{ *demo.Terminal }

func (p progress) Write(line []byte) (int, error) {
	// The world prints "world:  1.2 s: starting".
	_, text, _ := strings.Cut(string(line), " s: ")
	if text = strings.TrimSpace(text); text != "" {
		p.Print("%s", capital(text))
	}
	return len(line), nil
}

// applyChecks applies the manifests as a user does.
func (d *demonstration) applyChecks(ctx context.Context) error {
	d.Folder = filepath.Join(d.world.Dir, "manifests")
	if err := os.Mkdir(d.Folder, 0o700); err != nil {
		return errors.WithStack(err)
	}
	for _, name := range []string{"workers", "control-plane", "bare-metal", "in-tree"} {
		content, err := manifests.ReadFile("manifests/" + name + ".yaml")
		if err != nil {
			return errors.WithStack(err)
		}
		_, manifest, _ := strings.Cut(string(content), "\n\n")
		if err := os.WriteFile(filepath.Join(d.Folder, name+".yaml"), []byte(manifest), 0o600); err != nil {
			return errors.WithStack(err)
		}
	}
	d.Print("While the Machines start, here is what a user writes. A check of three workers: a Node is unhealthy when its condition Ready " +
		"has not been True for five seconds, and remediation stops while more than 40%% of the Machines are not healthy.")
	if _, err := d.Run(ctx, "cat workers.yaml"); err != nil {
		return err
	}
	d.Print("There is another check for the control plane, a NodeHealthCheck for bare-metal servers that are rebooted instead of " +
		"replaced, and, to compare, a MachineHealthCheck of Cluster API (in-tree) with the same timeout for the fifth worker.")
	_, err := d.Run(ctx, "kubectl apply -f workers.yaml -f control-plane.yaml -f bare-metal.yaml -f in-tree.yaml")
	return err
}

// awaitMachines waits until all Machines are available, and prints how many are.
func (d *demonstration) awaitMachines(ctx context.Context) error {
	printing, done := context.WithCancel(ctx)
	defer done()
	go func() {
		printed := 0
		for printing.Err() == nil {
			if available := d.available(printing); available > printed {
				printed = available
				d.Print("%d of %d Machines are available", available, machines)
			}
			select {
			case <-printing.Done():
			case <-time.After(time.Second):
			}
		}
	}()
	return d.cluster.Ready(ctx)
}

func (d *demonstration) available(ctx context.Context) int {
	all, _ := d.cluster.Machines(ctx)
	available := 0
	for i := range all {
		if meta.IsStatusConditionTrue(all[i].Status.Conditions, clusterv1.MachineAvailableCondition) {
			available++
		}
	}
	return available
}

// labelServers sets the label that the NodeHealthCheck selects. It also sets a UID, because a remediation request names its Node by UID,
// and the in-memory API server gives none.
func (d *demonstration) labelServers(ctx context.Context) error {
	c, err := d.cluster.Client(ctx)
	if err != nil {
		return err
	}
	servers, err := d.cluster.PoolMachines(ctx, metalPool)
	if err != nil {
		return err
	}
	for i := range servers {
		node, err := d.cluster.Node(ctx, servers[i].Status.NodeRef.Name)
		if err != nil {
			return err
		}
		before := client.MergeFrom(node.DeepCopy())
		if node.Labels == nil {
			node.Labels = map[string]string{}
		}
		node.Labels["hardware"] = "bare-metal"
		node.UID = uuid.NewUUID()
		if err := c.Patch(ctx, node, before); err != nil {
			return errors.Wrapf(err, "failed to label Node %s", node.Name)
		}
	}
	return nil
}

// awaitChecks waits until each check has read its targets, and all are healthy.
func (d *demonstration) awaitChecks(ctx context.Context) error {
	if err := d.untilHealthy(ctx, workersPool); err != nil {
		return err
	}
	if err := d.untilHealthy(ctx, "control-plane"); err != nil {
		return err
	}
	if err := d.untilServers(ctx, "the NodeHealthCheck reports a healthy Node", func(s *remedyv1.NodeHealthCheckStatus) bool {
		return is(s.HealthyNodes, 1)
	}); err != nil {
		return err
	}
	return d.Until(ctx, "the in-tree check reports a healthy Machine", func(ctx context.Context) (bool, error) {
		check := &clusterv1.MachineHealthCheck{}
		err := d.world.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: inTreePool}, check)
		return is(check.Status.CurrentHealthy, 1), err
	})
}
