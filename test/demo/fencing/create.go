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
	"time"

	"github.com/pkg/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/demo"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/fencing"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/fencing/bmc"
)

const (
	// servers have a BMC. The last but one has a StatefulSet and is fenced, and the last one has a StatefulSet and is not.
	servers        = 5
	fencedServer   = 3
	unfencedServer = 4
	// spareServer is for the Pods of both. It has no BMC.
	spareServer = "server-6"

	namespace = "default"
	cluster   = "prod"
	// gracePeriod is how long a kubelet can be silent. It is 50 seconds in production.
	gracePeriod = 5 * time.Second
)

//go:embed manifests/*.yaml
var manifests embed.FS

// demonstration is a running cluster with machines.
type demonstration struct {
	*demo.Terminal

	world   *fencing.World
	servers []*fencing.Machine
	results []result
	// timelines are all timelines, and unfenced is that of the server that no check monitors.
	timelines []*timeline
	unfenced  *timeline
}

// create starts the cluster, and adds the machines.
func (d *demonstration) create(ctx context.Context, manager string) error {
	d.Heading("Setup: a cluster with six servers")
	if err := bmc.Missing(); err != nil {
		return err
	}
	var err error
	d.world, err = fencing.Start(ctx, fencing.Options{
		Manager: manager, Checks: true, ClusterAPI: true, NodeGracePeriod: gracePeriod, Progress: d.Print,
	})
	if err != nil {
		return err
	}
	d.Kubeconfig, d.Path = d.world.Kubeconfig, append(d.Path, filepath.Dir(d.world.Kubectl))
	d.Print("Starting five servers, for each a BMC that uses IPMI (ipmi_sim) and a kubelet while it has power, and a sixth one as a spare.")
	if err := d.world.AddUtilityNode(ctx); err != nil {
		return err
	}
	for i := range servers {
		server, err := d.world.AddMachine(ctx, fmt.Sprintf("server-%d", i+1), nil)
		if err != nil {
			return err
		}
		d.servers = append(d.servers, server)
	}
	if err := d.addProfiles(ctx); err != nil {
		return err
	}
	if err := d.writeManifests(); err != nil {
		return err
	}
	if err := d.createDatabases(ctx); err != nil {
		return err
	}
	d.Print("Creating the Cluster %s of Cluster API, with Machines for server-2 and server-3. The cluster manages itself.", cluster)
	if err := d.world.AddCluster(ctx, namespace, cluster, d.servers[1], d.servers[2]); err != nil {
		return err
	}
	if _, err := d.Run(ctx, "kubectl apply -f templates.yaml -f nodehealthcheck.yaml -f machinehealthcheck.yaml -f in-tree.yaml"); err != nil {
		return err
	}
	if err := d.Until(ctx, "each Machine has its Node", d.haveNodes); err != nil {
		return err
	}
	if _, err := d.Run(ctx, "kubectl get nodes && kubectl get machines && kubectl get rnhc,rmhc,mhc -A"); err != nil {
		return err
	}
	_, err = d.Run(ctx, "cat nodehealthcheck.yaml templates.yaml")
	return err
}

// addProfiles adds a profile for the Nodes of the cluster itself, and one for those of the Cluster of Cluster API.
func (d *demonstration) addProfiles(ctx context.Context) error {
	own := fencing.NewProfile(fencing.Namespace, "rack-a", d.servers[0], d.servers[3])
	ofCluster := fencing.NewProfile(namespace, "rack-a", d.servers[1], d.servers[2])
	ofCluster.Spec.ClusterName = cluster
	if err := d.world.CreateSecret(ctx, namespace, fencing.SecretName, bmc.Password); err != nil {
		return err
	}
	if err := d.world.API.Create(ctx, own); err != nil {
		return errors.WithStack(err)
	}
	return errors.WithStack(d.world.API.Create(ctx, ofCluster))
}

// writeManifests writes the files that the commands name.
func (d *demonstration) writeManifests() error {
	d.Folder = filepath.Join(d.world.Dir, "manifests")
	if err := os.Mkdir(d.Folder, 0o700); err != nil {
		return errors.WithStack(err)
	}
	for _, name := range []string{"templates", "nodehealthcheck", "machinehealthcheck", "in-tree", "fence", "databases"} {
		content, err := manifests.ReadFile("manifests/" + name + ".yaml")
		if err != nil {
			return errors.WithStack(err)
		}
		_, manifest, _ := strings.Cut(string(content), "\n\n")
		if err := os.WriteFile(filepath.Join(d.Folder, name+".yaml"), []byte(manifest), 0o600); err != nil {
			return errors.WithStack(err)
		}
	}
	return nil
}

func (d *demonstration) haveNodes(ctx context.Context) (bool, error) {
	machines := &clusterv1.MachineList{}
	if err := d.world.API.List(ctx, machines, client.InNamespace(namespace)); err != nil {
		return false, errors.WithStack(err)
	}
	for i := range machines.Items {
		if machines.Items[i].Status.NodeRef.Name == "" {
			return false, errors.Errorf("Machine %s has no Node", machines.Items[i].Name)
		}
	}
	return len(machines.Items) == 2, nil
}

// explained adds the ends of all logs to an error.
func (d *demonstration) explained(err error) error {
	if err == nil || d.world == nil {
		return err
	}
	text := &strings.Builder{}
	for _, p := range d.world.Processes() {
		fmt.Fprintf(text, "\n\nThe log of %s ends with:\n%s", p.Name, p.Log().End(8))
	}
	for name, log := range d.world.Kubelets.Logs() {
		if log != "" {
			fmt.Fprintf(text, "\n\nThe log of Pod %s:\n%s", name, log)
		}
	}
	return errors.Errorf("%v%s", err, text)
}

// stop ends all processes.
func (d *demonstration) stop() {
	for _, t := range d.timelines {
		t.end()
		<-t.done
	}
	if d.world != nil {
		d.world.Stop()
		d.world = nil
	}
}
