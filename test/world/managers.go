// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/pkg/errors"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
)

// startManagers runs the managers of Cluster API and of Remedy with the arguments of their Deployments, and waits until all of them are ready.
func (w *World) startManagers(ctx context.Context, managers programs) error {
	var started []*Process
	for _, p := range upstream {
		process, err := w.upstreamProcess(ctx, p, managers.upstream[p.binary])
		if err != nil {
			return err
		}
		if p.process == Infrastructure && w.options.WithoutInfrastructure {
			continue
		}
		started = append(started, process)
	}
	if !w.options.WithoutRemedy {
		process, err := w.remedyProcess(ctx, Remedy, managers.remedy)
		if err != nil {
			return err
		}
		started = append(started, process)
	}
	for _, process := range started {
		if err := process.Start(); err != nil {
			return err
		}
	}
	ready, readyContext := errgroup.WithContext(ctx)
	for _, process := range started {
		if process.Name == Remedy {
			ready.Go(func() error { return process.Ready(readyContext) })
			continue
		}
		ready.Go(func() error { return process.startsUntilReady(readyContext) })
	}
	ready.Go(func() error { return w.processes[ControllerManager].Ready(readyContext) })
	if err := ready.Wait(); err != nil {
		return err
	}
	return w.waitForWebhooks(ctx)
}

// upstreamProcess is what the Deployment of one of Cluster API's providers would run.
func (w *World) upstreamProcess(ctx context.Context, p provider, path string) (*Process, error) {
	deployment, container, err := w.podOf(ctx, p)
	if err != nil {
		return nil, err
	}
	process, err := newProcess(w.group, w.Logs, p.process, path)
	if err != nil {
		return nil, err
	}
	w.processes[p.process] = process
	kubeconfig, err := w.kubeconfigOf(process, accountOf(deployment), slices.Contains(w.options.Tapped, p.process))
	if err != nil {
		return nil, err
	}
	addresses, err := w.addresses(process, "--diagnostics-address", "--health-addr")
	if err != nil {
		return nil, err
	}
	flags := append(addresses,
		"--kubeconfig="+kubeconfig,
		"--webhook-port="+w.webhookPorts[p.process].String(), "--webhook-cert-dir="+w.certificate.Dir,
		// Outside of a Pod it has no namespace for leader election.
		"--leader-elect=false",
	)
	flags = append(flags, p.flags...)
	process.Args = override(override(container.Args, flags), w.options.Flags[p.process])
	process.Env, err = environment(deployment, container, p.env)
	return process, err
}

// addresses gives a manager its ports: flags of the Deployment that name an address are moved to loopback.
func (w *World) addresses(process *Process, diagnosticsFlag, healthFlag string) ([]string, error) {
	diagnostics, err := w.takePort()
	if err != nil {
		return nil, err
	}
	health, err := w.takePort()
	if err != nil {
		return nil, err
	}
	process.ReadyURL = "http://" + health.Address() + "/readyz"
	process.Diagnostics = diagnostics.Address()
	return []string{diagnosticsFlag + "=" + diagnostics.Address(), healthFlag + "=" + health.Address()}, nil
}

// accountOf is the user that the pods of a Deployment would be.
func accountOf(d *appsv1.Deployment) controlplane.User {
	return controlplane.ServiceAccount(d.Namespace, d.Spec.Template.Spec.ServiceAccountName)
}

// remedyProcess is the manager with exactly the arguments of its Deployment; only addresses differ. Its requests go through a tap.
func (w *World) remedyProcess(ctx context.Context, name, path string) (*Process, error) {
	deployment, _, err := w.podOf(ctx, remedy)
	if err != nil {
		return nil, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, errors.WithStack(err)
	}
	w.manager = path
	process, err := newProcess(w.group, w.Logs, name, path)
	if err != nil {
		return nil, err
	}
	w.processes[name] = process
	kubeconfig, err := w.kubeconfigOf(process, accountOf(deployment), true)
	if err != nil {
		return nil, err
	}
	addresses, err := w.addresses(process, "--diagnostics-address", "--health-addr")
	if err != nil {
		return nil, err
	}
	process.own = append(addresses, "--kubeconfig="+kubeconfig)
	return process, w.readRemedyDeployment(ctx, process)
}

// readRemedyDeployment gives the process the arguments and the environment of the Deployment; they count from the next start on.
func (w *World) readRemedyDeployment(ctx context.Context, process *Process) error {
	deployment, container, err := w.podOf(ctx, remedy)
	if err != nil {
		return err
	}
	process.Args = override(override(container.Args, process.own), w.options.Flags[Remedy])
	process.Env, err = environment(deployment, container, nil)
	return err
}

// kubeconfigOf writes the kubeconfig of a manager: it is its ServiceAccount for the API server, by itself or by its tap.
func (w *World) kubeconfigOf(process *Process, account controlplane.User, tapped bool) (string, error) {
	kubeconfig := filepath.Join(w.Dir, process.Name+".kubeconfig")
	if !tapped {
		return kubeconfig, w.Plane.WriteKubeconfig(account, kubeconfig)
	}
	config, err := w.Plane.Config(account)
	if err != nil {
		return "", err
	}
	port, err := w.takePort()
	if err != nil {
		return "", err
	}
	if w.taps[process.Name], err = newTap(config, port.Address(), w.certificate, process); err != nil {
		return "", err
	}
	return kubeconfig, writeKubeconfig(kubeconfig, "https://"+port.Address(), w.certificate.PEM)
}

// writeKubeconfig writes a kubeconfig without a user: the server has the user of each port.
func writeKubeconfig(path, server string, authority []byte) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["world"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: authority}
	config.AuthInfos["world"] = &clientcmdapi.AuthInfo{}
	config.Contexts["world"] = &clientcmdapi.Context{Cluster: "world", AuthInfo: "world"}
	config.CurrentContext = "world"
	return errors.Wrap(clientcmd.WriteToFile(*config, path), "failed to write a kubeconfig")
}
