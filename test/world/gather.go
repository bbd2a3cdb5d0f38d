// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"cmp"
	"context"
	"os"
	"path/filepath"

	"github.com/pkg/errors"
	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane/assets"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/instance"
)

// All cluster admins: people, and what would run on a control-plane node.
var admin = controlplane.User{Name: "admin", Groups: []string{"system:masters"}}

// builtManager is the environment variable with the path of the manager: to link it takes seconds of a start.
const builtManager = "REMEDY_WORLD_MANAGER"

// programs are the managers: those of Cluster API, and that of Remedy.
type programs struct {
	upstream assets.Paths
	remedy   string
}

// gather gets ready what does not depend on each other: the control plane, the files of the providers, and the managers.
func (w *World) gather(ctx context.Context) (programs, error) {
	found := programs{remedy: cmp.Or(w.options.Manager, os.Getenv(builtManager))}
	paths, err := assets.Find(ctx, assets.All()...)
	if err != nil {
		return found, err
	}
	w.repository = repository{
		dir: filepath.Join(w.Dir, "repository"), kubectl: paths[assets.Kubectl],
		providers: w.options.installed(), variables: w.options.variables(), authority: w.certificate.PEM, webhooks: w.webhookPorts,
	}
	for _, p := range upstream {
		if w.webhookPorts[p.process], err = w.takePort(); err != nil {
			return found, err
		}
	}
	w.say("starting etcd and kube-apiserver; making the components of %d providers", len(w.repository.providers))
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error {
		// The processes of the control plane do not end with this context.
		return w.startPlane(context.WithoutCancel(ctx), paths)
	})
	work.Go(func() error { return w.repository.write(ctx) })
	work.Go(func() error {
		var err error
		found.upstream, err = assets.FindClusterAPI(ctx)
		return err
	})
	if found.remedy == "" && !w.options.WithoutRemedy {
		work.Go(func() error {
			var err error
			found.remedy, err = instance.Build(ctx, w.Dir)
			return err
		})
	}
	err = work.Wait()
	return found, err
}

// startPlane starts the management cluster, and the few controllers that those of Cluster API rely on.
func (w *World) startPlane(ctx context.Context, paths assets.Paths) error {
	var err error
	if w.Plane, err = controlplane.Start(ctx); err != nil {
		return err
	}
	w.Admin = w.Plane.Admin
	if err := w.Plane.WriteKubeconfig(admin, w.Kubeconfig); err != nil {
		return err
	}
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	if w.Client, err = client.NewWithWatch(w.Admin, client.Options{Scheme: scheme}); err != nil {
		return errors.Wrap(err, "failed to make a client")
	}
	if err := w.startControllers(paths[assets.KubeControllerManager]); err != nil {
		return err
	}
	// clusterctl would install them itself, and check once a second whether they work. At this point no process waits for that.
	return w.Plane.InstallCRDs(w.put("cert-manager.yaml"))
}

// newScheme has every kind that tests use. DevClusters and DevMachines are written as YAML.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, clusterv1.AddToScheme, bootstrapv1.AddToScheme, controlplanev1.AddToScheme, remedyv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, errors.Wrap(err, "failed to register the API types")
		}
	}
	return scheme, nil
}

// startControllers starts kube-controller-manager with an explicit list: garbage collection, namespaces and aggregated roles are needed,
// while Deployments must stay what they are: no kubelet runs Pods here.
func (w *World) startControllers(path string) error {
	port, err := w.takePort()
	if err != nil {
		return err
	}
	authority := filepath.Join(w.Dir, "apiserver-ca.crt")
	if err := os.WriteFile(authority, w.Admin.CAData, 0o600); err != nil {
		return errors.Wrap(err, "failed to write the API server's certificate")
	}
	p, err := newProcess(w.group, w.Logs, ControllerManager, path)
	if err != nil {
		return err
	}
	p.ReadyURL = "https://" + port.Address() + "/healthz"
	p.Args = override([]string{
		"--kubeconfig=" + w.Kubeconfig,
		"--bind-address=127.0.0.1", "--secure-port=" + port.String(), "--cert-dir=" + filepath.Join(w.Dir, ControllerManager+"-certificates"),
		"--controllers=garbage-collector-controller,namespace-controller,serviceaccount-controller,serviceaccount-token-controller," +
			"root-ca-certificate-publisher-controller,clusterrole-aggregation-controller",
		"--service-account-private-key-file=" + filepath.Join(w.Plane.Certificates, "sa-signer.key"),
		"--root-ca-file=" + authority,
		"--use-service-account-credentials=false", "--authentication-skip-lookup=true", "--leader-elect=false",
	}, w.options.Flags[ControllerManager])
	w.processes[ControllerManager] = p
	// It is waited for with the managers: clusterctl does not need it.
	return p.Start()
}
