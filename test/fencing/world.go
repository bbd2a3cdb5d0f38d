// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane/assets"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/fencing/bmc"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/fencing/kubelet"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/instance"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/procgroup"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// Namespace is that of the managers. Its NodeFences can fence Nodes of the cluster.
const Namespace = instance.Namespace

// bootTime is how long a machine takes from its power to its kubelet.
const bootTime = 1500 * time.Millisecond

// Admin may do everything.
var admin = controlplane.User{Name: "admin", Groups: []string{"system:masters"}}

// Options are the parts of a World.
type Options struct {
	// Manager is the path of the manager. Empty: no manager runs.
	Manager string
	// Checks runs the manager of checks, next to that of fencing.
	Checks bool
	// ClusterAPI installs the kinds of Cluster API, and runs its core manager.
	ClusterAPI bool
	// NodeGracePeriod is how long a kubelet can be silent until its Node is Unknown. The default is 6 seconds.
	NodeGracePeriod time.Duration
	// Progress is called with what is being done.
	Progress func(format string, args ...any)
}

// World is a cluster with machines that fence agents can switch off.
type World struct {
	*controlplane.ControlPlane
	API client.WithWatch
	// Kubeconfig is a file for an administrator, and Dir a folder that ends with the world.
	Kubeconfig, Dir string
	Rack            *bmc.Rack
	Kubelets        *kubelet.Cluster
	// ControllerManager, Fencing, Checks and Core are nil if they do not run.
	ControllerManager, Fencing, Checks, Core *Process
	// Tap counts the writes of the fencing manager, and can kill it.
	Tap *Tap

	options Options
	group   *procgroup.Group
	ports   []*controlplane.Port
	ending  []func()
}

// Start starts a cluster without machines, and its managers.
func Start(ctx context.Context, options Options) (*World, error) {
	w := &World{options: options}
	if w.options.NodeGracePeriod == 0 {
		w.options.NodeGracePeriod = 6 * time.Second
	}
	if w.options.Progress == nil {
		w.options.Progress = func(string, ...any) {}
	}
	if err := w.start(ctx); err != nil {
		w.Stop()
		return nil, err
	}
	return w, nil
}

// scheme has the kinds of Remedy, also those of fencing.
func scheme() *runtime.Scheme {
	s := testenv.NewScheme()
	utilruntime.Must(fencingv1.AddToScheme(s))
	return s
}

func (w *World) start(ctx context.Context) error {
	var err error
	if w.Rack, err = bmc.NewRack(); err != nil {
		return err
	}
	if w.group, err = procgroup.New(); err != nil {
		return err
	}
	w.Dir = w.group.Dir
	paths, err := assets.Find(ctx, assets.All()...)
	if err != nil {
		return err
	}
	w.options.Progress("Starting etcd, kube-apiserver and kube-controller-manager.")
	if w.ControlPlane, err = controlplane.Start(ctx); err != nil {
		return err
	}
	if w.API, err = client.NewWithWatch(w.Admin, client.Options{Scheme: scheme()}); err != nil {
		return errors.WithStack(err)
	}
	w.Kubeconfig = filepath.Join(w.Dir, "admin.kubeconfig")
	if err := w.WriteKubeconfig(admin, w.Kubeconfig); err != nil {
		return err
	}
	if err := w.startControllers(paths[assets.KubeControllerManager]); err != nil {
		return err
	}
	w.options.Progress("Installing Remedy: kinds, policies and permissions, as fencing-components.yaml has them.")
	if err := w.install(ctx); err != nil {
		return err
	}
	if w.Kubelets, err = kubelet.Start(ctx, w.API, bootTime); err != nil {
		return err
	}
	w.ending = append(w.ending, w.Kubelets.Stop)
	w.options.Progress("Starting the managers, each as its own ServiceAccount.")
	if w.options.ClusterAPI {
		if err := w.startCore(ctx); err != nil {
			return err
		}
	}
	if err := w.startManagers(); err != nil {
		return err
	}
	for _, p := range w.Processes() {
		if err := p.Ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// startControllers starts kube-controller-manager with what fencing depends on, and without what would run Deployments.
func (w *World) startControllers(path string) error {
	port, err := w.takePort()
	if err != nil {
		return err
	}
	authority := filepath.Join(w.Dir, "ca.crt")
	if err := os.WriteFile(authority, w.Admin.CAData, 0o600); err != nil {
		return errors.WithStack(err)
	}
	w.ControllerManager, err = w.newProcess("kube-controller-manager", path, nil,
		"--kubeconfig="+w.Kubeconfig, "--leader-elect=false", "--authentication-skip-lookup=true", "--use-service-account-credentials=false",
		"--bind-address=127.0.0.1", "--secure-port="+port.String(), "--cert-dir="+filepath.Join(w.Dir, "controller-manager"),
		"--controllers=job-controller,pod-garbage-collector-controller,taint-eviction-controller,node-lifecycle-controller,"+
			"garbage-collector-controller,namespace-controller,serviceaccount-controller,clusterrole-aggregation-controller,"+
			"statefulset-controller,disruption-controller,persistentvolume-attach-detach-controller",
		"--service-account-private-key-file="+filepath.Join(w.Certificates, "sa-signer.key"), "--root-ca-file="+authority,
		"--node-monitor-period=1s", "--node-monitor-grace-period="+w.options.NodeGracePeriod.String(),
		// By default, Pods are not evicted while most Nodes are Unknown. Scenarios in one cluster break many of its Nodes.
		"--unhealthy-zone-threshold=1", "--node-eviction-rate=10",
	)
	if err != nil {
		return err
	}
	w.ControllerManager.ReadyURL = "https://" + port.Address() + "/healthz"
	return w.ControllerManager.Start()
}

// newProcess adds a program. It does not start it.
func (w *World) newProcess(name, path string, env []string, args ...string) (*Process, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, errors.WithStack(err)
	}
	wrapped, err := w.group.Wrap(name, path)
	if err != nil {
		return nil, err
	}
	p := &Process{Name: name, path: wrapped, args: args, env: env, group: w.group}
	w.ending = append(w.ending, p.Kill)
	return p, nil
}

func (w *World) takePort() (*controlplane.Port, error) {
	port, err := controlplane.TakePort()
	if err == nil {
		w.ports = append(w.ports, port)
	}
	return port, err
}

// Processes are all processes with a log.
func (w *World) Processes() []*Process {
	var all []*Process
	for _, p := range []*Process{w.ControllerManager, w.Core, w.Checks, w.Fencing} {
		if p != nil {
			all = append(all, p)
		}
	}
	return all
}

// Stop ends everything. It can be called more than once.
func (w *World) Stop() {
	for i := len(w.ending) - 1; i >= 0; i-- {
		w.ending[i]()
	}
	w.ending = nil
	if w.Rack != nil {
		w.Rack.Stop()
		w.Rack = nil
	}
	if w.ControlPlane != nil {
		w.ControlPlane.Stop()
		w.ControlPlane = nil
	}
	for _, port := range w.ports {
		port.Release()
	}
	if w.group != nil {
		w.group.Release()
		w.group = nil
	}
}

// Machine is a machine with its Node.
type Machine struct {
	*bmc.Machine
	Kubelet *kubelet.Node
}

func providerID(machine string) string { return "rack://" + machine }

// AddMachine adds a machine, and returns when its Node is Ready.
func (w *World) AddMachine(ctx context.Context, name string, labels map[string]string) (*Machine, error) {
	controller, err := w.Rack.Add(ctx, name)
	if err != nil {
		return nil, err
	}
	node := newNode(name, labels)
	node.Spec.ProviderID = providerID(name)
	joined, err := w.Kubelets.Join(ctx, node, controller)
	return &Machine{Machine: controller, Kubelet: joined}, err
}

func newNode(name string, labels map[string]string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	maps.Copy(node.Labels, labels)
	return node
}

// AddNode adds a Node whose machine never loses its power, and has no management controller.
func (w *World) AddNode(ctx context.Context, name string, labels map[string]string) (*kubelet.Node, error) {
	return w.Kubelets.Join(ctx, newNode(name, labels), kubelet.AlwaysOn{})
}

// AddUtilityNode adds a Node for the Pods of Jobs, and for no others. Add it first.
func (w *World) AddUtilityNode(ctx context.Context) error {
	_, err := w.AddNode(ctx, "utility", map[string]string{kubelet.UtilityLabel: ""})
	return err
}
