// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"path/filepath"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane/assets"
)

// startManagers runs Cluster API's managers with what their Deployments say, and sends the API server to their webhooks.
func (w *World) startManagers(ctx context.Context, paths assets.Paths) error {
	var started []*Process
	for _, p := range upstream {
		process, err := w.upstreamProcess(ctx, p, paths[p.binary])
		if err != nil {
			return err
		}
		if p.process == Infrastructure && w.options.WithoutInfrastructure {
			continue
		}
		if err := process.Start(); err != nil {
			return err
		}
		started = append(started, process)
	}
	ready, readyContext := errgroup.WithContext(ctx)
	for _, process := range started {
		ready.Go(func() error { return process.Ready(readyContext) })
	}
	if err := ready.Wait(); err != nil {
		return err
	}
	if err := w.redirectWebhooks(ctx); err != nil {
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
	process, err := newProcess(w.leash, w.Logs, p.process, path)
	if err != nil {
		return nil, err
	}
	w.processes[p.process] = process
	kubeconfig := filepath.Join(w.Dir, p.process+".kubeconfig")
	if err := w.Plane.WriteKubeconfig(accountOf(deployment), kubeconfig); err != nil {
		return nil, err
	}
	webhooks, err := w.takePort()
	if err != nil {
		return nil, err
	}
	w.webhookPorts[p.process] = webhooks
	addresses, err := w.addresses(process, "--diagnostics-address", "--health-addr")
	if err != nil {
		return nil, err
	}
	flags := append(addresses,
		"--kubeconfig="+kubeconfig,
		"--webhook-port="+webhooks.String(), "--webhook-cert-dir="+w.certificate.Dir,
		// Outside of a pod it does not know in which namespace to elect.
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

// waitForWebhooks waits until the API server has heard of the redirection: it asks for a Cluster that is not kept.
func (w *World) waitForWebhooks(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		cluster := &clusterv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "is-anybody-there"},
			Spec:       clusterv1.ClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 1}},
		}
		err := w.Client.Create(ctx, cluster, client.DryRunAll)
		// A refusal is an answer, too.
		if err == nil || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Wrap(err, "the webhooks of Cluster API do not answer")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// startRemedy runs our manager with exactly what its Deployment says; only addresses differ. Its requests go through the tap.
func (w *World) startRemedy(ctx context.Context, path string) error {
	deployment, container, err := w.podOf(ctx, remedy)
	if err != nil {
		return err
	}
	if path, err = filepath.Abs(path); err != nil {
		return errors.WithStack(err)
	}
	process, err := newProcess(w.leash, w.Logs, Remedy, path)
	if err != nil {
		return err
	}
	w.processes[Remedy] = process
	account, err := w.Plane.Config(accountOf(deployment))
	if err != nil {
		return err
	}
	port, err := w.takePort()
	if err != nil {
		return err
	}
	if w.tap, err = newTap(account, port.Address(), w.certificate, process); err != nil {
		return err
	}
	kubeconfig := filepath.Join(w.Dir, Remedy+".kubeconfig")
	if err := writeKubeconfig(kubeconfig, "https://"+port.Address(), w.certificate.PEM); err != nil {
		return err
	}
	addresses, err := w.addresses(process, "--diagnostics-address", "--health-addr")
	if err != nil {
		return err
	}
	process.Args = override(override(container.Args, append(addresses, "--kubeconfig="+kubeconfig)), w.options.Flags[Remedy])
	if process.Env, err = environment(deployment, container, nil); err != nil {
		return err
	}
	if err := process.Start(); err != nil {
		return err
	}
	return process.Ready(ctx)
}

// writeKubeconfig writes a kubeconfig without a user: whoever answers there knows who asks.
func writeKubeconfig(path, server string, authority []byte) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["world"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: authority}
	config.AuthInfos["world"] = &clientcmdapi.AuthInfo{}
	config.Contexts["world"] = &clientcmdapi.Context{Cluster: "world", AuthInfo: "world"}
	config.CurrentContext = "world"
	return errors.Wrap(clientcmd.WriteToFile(*config, path), "failed to write a kubeconfig")
}
