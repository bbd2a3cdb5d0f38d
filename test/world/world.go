// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/pkg/errors"
	"k8s.io/client-go/rest"
	clusterctl "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/procgroup"
)

// patience is how long anything that should happen may take. It is generous, as these machines are shared.
const patience = 10 * time.Minute

// World is a management cluster with Cluster API in it.
type World struct {
	// Dir has everything the world writes. It goes with the world.
	Dir string
	// Logs is the folder of the logs of the processes.
	Logs string
	// Kubeconfig is a file, Admin the same, for a cluster admin. Client has no cache.
	Kubeconfig string
	Admin      *rest.Config
	Client     client.WithWatch
	// Plane is the management cluster's etcd and API server.
	Plane *controlplane.ControlPlane
	// Clusterctl is clusterctl's library or program, with the configuration that this world was installed with. clusterctl.yaml in Dir has the same.
	Clusterctl clusterctl.Client

	options     Options
	began       time.Time
	group       *procgroup.Group
	repository  repository
	certificate *certificate
	processes   map[string]*Process
	taps        map[string]*tap
	manager     string // the path of the manager that the world begins with.
	links       *links

	// By process: the namespace of its provider, and the port that its webhooks are called at.
	namespaces   map[string]string
	webhookPorts map[string]*controlplane.Port

	ports      []*controlplane.Port
	holding    func()
	background sync.WaitGroup
	life       context.Context //nolint:containedctx // it is the life of the world.
	end        context.CancelFunc
	stopOnce   sync.Once

	// lock guards what is below.
	lock      sync.Mutex
	workloads []*Workload
}

// Start makes a world. It takes seconds; the programs must have been built (make controlplane-all clusterapi).
func Start(ctx context.Context, options Options) (*World, error) {
	w := &World{
		options:      options,
		began:        time.Now(),
		processes:    map[string]*Process{},
		taps:         map[string]*tap{},
		namespaces:   map[string]string{},
		webhookPorts: map[string]*controlplane.Port{},
		holding:      func() {},
	}
	w.life, w.end = context.WithCancel(context.WithoutCancel(ctx))
	if w.options.Progress == nil {
		w.options.Progress = io.Discard
	}
	if err := w.start(ctx); err != nil {
		w.Stop()
		return nil, err
	}
	return w, nil
}

func (w *World) start(ctx context.Context) error {
	if err := w.options.check(); err != nil {
		return err
	}
	var err error
	if !w.options.WithoutInfrastructure {
		if w.holding, err = once(holdInfrastructure()); err != nil {
			return err
		}
	}
	if err := w.prepare(); err != nil {
		return err
	}
	programs, err := w.gather(ctx)
	if err != nil {
		return err
	}
	w.say("installing the providers with clusterctl")
	if err := w.install(ctx); err != nil {
		return err
	}
	w.say("starting the managers")
	if err := w.startManagers(ctx, programs); err != nil {
		return err
	}
	w.links = newLinks(w.Client)
	w.background.Go(func() { w.links.follow(w.life) })
	for _, p := range w.processes {
		w.background.Go(func() { p.keep(w.life) })
	}
	w.say("ready")
	return nil
}

// once lets a function be called more than once.
func once(release func(), err error) (func(), error) {
	if err != nil {
		return func() {}, err
	}
	return sync.OnceFunc(release), nil
}

// prepare makes the folders and the certificate.
func (w *World) prepare() error {
	var err error
	if w.group, err = procgroup.New(); err != nil {
		return err
	}
	w.Dir = w.group.Dir
	w.Kubeconfig = filepath.Join(w.Dir, "kubeconfig")
	w.Logs = filepath.Join(w.Dir, "logs")
	if w.options.Logs != "" {
		if w.Logs, err = filepath.Abs(w.options.Logs); err != nil {
			return errors.WithStack(err)
		}
	}
	if err := os.MkdirAll(w.Logs, 0o700); err != nil {
		return errors.Wrap(err, "failed to make the folder of logs")
	}
	w.certificate, err = newCertificate(filepath.Join(w.Dir, "certificates"))
	return err
}

// takePort reserves a port until the world ends.
func (w *World) takePort() (*controlplane.Port, error) {
	port, err := controlplane.TakePort()
	if err == nil {
		w.ports = append(w.ports, port)
	}
	return port, err
}

// Process is a process of the world by its name, or nil: kube-controller-manager and the managers, not etcd and the API server.
func (w *World) Process(name string) *Process { return w.processes[name] }

// Kill ends a process without a chance to clean up, as a lost machine does. What it had on disk stays.
func (w *World) Kill(name string) error {
	if name == Etcd || name == APIServer {
		return w.Plane.Crash(name)
	}
	p, err := w.process(name)
	if err != nil {
		return err
	}
	if err := p.Kill(); err != nil {
		return err
	}
	if name == Infrastructure {
		// Another world of this program may have the ports now.
		w.holding()
		w.options.WithoutInfrastructure = true
	}
	return nil
}

// Restart starts a process that was killed or stopped, or stops and starts one that runs, and waits until it is ready.
// Where etcd and the API server are both gone, neither is ready alone: Plane.Revive starts both.
func (w *World) Restart(ctx context.Context, name string) error {
	if name == Etcd || name == APIServer {
		return w.Plane.Revive(ctx, name)
	}
	p, err := w.process(name)
	if err != nil {
		return err
	}
	if p.Running() {
		if err := p.Stop(); err != nil {
			return err
		}
	}
	if name == Infrastructure {
		if err := w.holdAgain(); err != nil {
			return err
		}
	}
	if err := p.Start(); err != nil {
		return err
	}
	return p.Ready(ctx)
}

// holdAgain takes the ports of the in-memory infrastructure for a world that does not have them.
func (w *World) holdAgain() error {
	if !w.options.WithoutInfrastructure {
		return nil
	}
	release, err := once(holdInfrastructure())
	if err != nil {
		return err
	}
	w.holding, w.options.WithoutInfrastructure = release, false
	return nil
}

func (w *World) process(name string) (*Process, error) {
	if p := w.processes[name]; p != nil {
		return p, nil
	}
	return nil, errors.Errorf("there is no process %q in this world", name)
}

// Stop ends every process and removes what they wrote. It can be called more than once.
func (w *World) Stop() {
	w.stopOnce.Do(func() {
		w.end()
		if w.links != nil {
			w.links.close()
		}
		w.background.Wait()
		// Their last output does not matter: the managers only have to end.
		for _, p := range w.processes {
			if p.Running() {
				_ = p.Kill()
			}
		}
		for _, t := range w.taps {
			t.close()
		}
		for _, workload := range w.workloads {
			workload.Plane.Stop()
		}
		if w.Plane != nil {
			w.Plane.Stop()
		}
		if w.group != nil {
			w.group.Release()
		}
		for _, port := range w.ports {
			port.Release()
		}
		w.holding()
	})
}

func (w *World) say(format string, args ...any) {
	_, _ = fmt.Fprintf(w.options.Progress, "world: %4.1f s: "+format+"\n", append([]any{time.Since(w.began).Seconds()}, args...)...)
}
