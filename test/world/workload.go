// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"text/template"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/manifests"
)

// Workload is a workload cluster whose API server is a real one: with Leases, server-side apply, subresources, RBAC and any definition that
// a test installs. Its Cluster and Machines are real, too, and Cluster API connects to it as to any other; machines and Nodes are played
// here, for every new Machine.
type Workload struct {
	Cluster

	// Plane is the workload cluster's etcd and API server. Its processes can crash, freeze and come back.
	Plane *controlplane.ControlPlane

	// rest ends the play.
	rest context.CancelFunc
	// held keeps machines from booting.
	held atomic.Bool
}

// Workload makes a workload cluster with an API server of its own, and does not wait for its Machines: see Ready.
// ClusterClass and Startup mean nothing here.
func (w *World) Workload(ctx context.Context, shape Shape) (*Workload, error) {
	shape, err := shape.complete()
	if err != nil {
		return nil, err
	}
	plane, err := controlplane.Start(ctx)
	if err != nil {
		return nil, err
	}
	l := newWorkload(w, shape, plane)
	w.keep(l)
	if err := w.installPuppets(); err != nil {
		return nil, err
	}
	objects, err := l.objects()
	if err != nil {
		return nil, err
	}
	if err := w.namespace(ctx, shape.Namespace); err != nil {
		return nil, err
	}
	for _, object := range objects {
		if err := w.Client.Create(ctx, object); err != nil {
			return nil, errors.Wrapf(err, "failed to make %s %s", object.GetKind(), object.GetName())
		}
	}
	l.play()
	return l, nil
}

func newWorkload(w *World, shape Shape, plane *controlplane.ControlPlane) *Workload {
	l := &Workload{Cluster: Cluster{Shape: shape, world: w}, Plane: plane}
	l.connect, l.real = l.Client, true
	return l
}

// play moves the puppets until rest is called, or the world ends.
func (l *Workload) play() {
	var life context.Context
	life, l.rest = context.WithCancel(l.world.life)
	l.world.background.Go(func() { l.pullStrings(life) })
}

// HoldBoots keeps new machines from booting, or lets them boot again.
func (l *Workload) HoldBoots(hold bool) { l.held.Store(hold) }

// installPuppets can be called again.
func (w *World) installPuppets() error { return w.Plane.InstallCRDs(w.put("puppets.yaml")) }

// keep notes that the processes of a workload cluster go with this world.
func (w *World) keep(l *Workload) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.workloads = append(w.workloads, l)
}

// release hands out the workload clusters of a namespace: they do not go with this world any more.
func (w *World) release(namespace string) []*Workload {
	w.lock.Lock()
	defer w.lock.Unlock()
	var released, kept []*Workload
	for _, l := range w.workloads {
		if l.Namespace == namespace {
			released = append(released, l)
		} else {
			kept = append(kept, l)
		}
	}
	w.workloads = kept
	return released
}

// put writes a manifest into the folder of the world and returns its path.
func (w *World) put(name string) string {
	content, err := files.ReadFile("manifests/" + name)
	if err == nil {
		err = os.WriteFile(filepath.Join(w.Dir, name), content, 0o600)
	}
	if err != nil {
		// Its controller reports if it does not exist.
		w.say("%s: %v", name, err)
	}
	return filepath.Join(w.Dir, name)
}

func (l *Workload) objects() ([]*unstructured.Unstructured, error) {
	kubeconfig := filepath.Join(l.world.Dir, l.Namespace+"-"+l.Name+".kubeconfig")
	if err := l.Plane.WriteKubeconfig(admin, kubeconfig); err != nil {
		return nil, err
	}
	content, err := os.ReadFile(kubeconfig)
	if err != nil {
		return nil, errors.WithStack(err)
	}
	address, err := url.Parse(l.Plane.Admin.Host)
	if err != nil {
		return nil, errors.WithStack(err)
	}
	names := make([]string, 0, l.ControlPlanes)
	for i := range l.ControlPlanes {
		names = append(names, fmt.Sprintf("%s-%d", l.Name, i))
	}
	text, err := template.ParseFS(files, "manifests/workload.yaml")
	if err != nil {
		return nil, errors.WithStack(err)
	}
	var filled bytes.Buffer
	err = text.Execute(&filled, struct {
		Shape
		Port, Kubeconfig  string
		ControlPlaneNames []string
	}{l.Shape, address.Port(), base64.StdEncoding.EncodeToString(content), names})
	if err != nil {
		return nil, errors.WithStack(err)
	}
	return manifests.Parse(filled.Bytes())
}

// Config goes straight to the API server.
func (l *Workload) Config(context.Context) (*rest.Config, error) { return l.Plane.Admin, nil }

// Client goes past the link.
func (l *Workload) Client(context.Context) (client.Client, error) {
	made, err := client.New(l.Plane.Admin, client.Options{Scheme: l.world.Client.Scheme()})
	return made, errors.Wrapf(err, "failed to make a client of %s", l.Name)
}
