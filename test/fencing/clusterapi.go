// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane/assets"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/manifests"
)

// The kinds of a provider without a controller: the world writes their status.
var (
	puppetCluster      = schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1", Kind: "PuppetCluster"}
	puppetMachine      = schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1", Kind: "PuppetMachine"}
	puppetControlPlane = schema.GroupVersionKind{Group: "controlplane.cluster.x-k8s.io", Version: "v1", Kind: "PuppetControlPlane"}
)

// installedOfClusterAPI are what is installed of Cluster API's core: its kinds and its permissions. Without its webhooks, objects must have
// what those would set.
var installedOfClusterAPI = []string{
	"CustomResourceDefinition", "Namespace", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding",
}

// installClusterAPI installs the kinds and permissions of Cluster API's core, and the kinds of a provider.
func (w *World) installClusterAPI(ctx context.Context) error {
	upstream, _, err := assets.ClusterAPIModules(ctx)
	if err != nil {
		return err
	}
	rendered, err := exec.CommandContext(ctx, w.Kubectl, "kustomize", filepath.Join(upstream, "core", "config", "default")).Output()
	if err != nil {
		return errors.Wrap(err, "failed to render the components of Cluster API")
	}
	objects, err := manifests.Parse(rendered)
	if err != nil {
		return err
	}
	objects = slices.DeleteFunc(objects, func(object *unstructured.Unstructured) bool {
		return !slices.Contains(installedOfClusterAPI, object.GetKind())
	})
	for _, object := range objects {
		// All clients use the stored version, so nothing is converted.
		unstructured.RemoveNestedField(object.Object, "spec", "conversion")
	}
	root, err := assets.ModuleDir(ctx, assets.ModulePath)
	if err != nil {
		return err
	}
	puppets, err := manifests.Read(filepath.Join(root, "test", "world", "manifests", "puppets.yaml"))
	if err != nil {
		return err
	}
	return w.apply(ctx, append(objects, puppets...))
}

// startCore starts the core manager of Cluster API, as its own ServiceAccount.
func (w *World) startCore(ctx context.Context) error {
	paths, err := assets.FindClusterAPI(ctx)
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(w.Dir, "core.kubeconfig")
	if err := w.WriteKubeconfig(controlplane.ServiceAccount("capi-system", "capi-manager"), kubeconfig); err != nil {
		return err
	}
	// Its webhook server needs a certificate, although no API server calls it.
	certificates := filepath.Join(w.Dir, "core-certificates")
	if err := os.Mkdir(certificates, 0o700); err != nil {
		return errors.WithStack(err)
	}
	for _, suffix := range []string{"crt", "key"} {
		if err := os.Symlink(filepath.Join(w.Certificates, "apiserver."+suffix), filepath.Join(certificates, "tls."+suffix)); err != nil {
			return errors.WithStack(err)
		}
	}
	var ports []*controlplane.Port
	for range 3 {
		port, err := w.takePort()
		if err != nil {
			return err
		}
		ports = append(ports, port)
	}
	environment := []string{"POD_NAMESPACE=capi-system", "POD_NAME=core", "POD_UID=core"}
	w.Core, err = w.newProcess("cluster-api", paths[assets.CoreManager], environment,
		"--kubeconfig="+kubeconfig, "--leader-elect=false", "--insecure-diagnostics=true",
		"--diagnostics-address="+ports[0].Address(), "--health-addr="+ports[1].Address(), "--webhook-port="+ports[2].String(),
		"--webhook-cert-dir="+certificates,
		// With the limiter, its MachineHealthCheck acts up to 15 seconds later.
		"--feature-gates=ReconcilerRateLimiting=false",
		"--machine-concurrency=5", "--machineset-concurrency=1", "--machinedeployment-concurrency=1", "--cluster-concurrency=2",
		"--clustercache-concurrency=2", "--machinehealthcheck-concurrency=2",
	)
	if err != nil {
		return err
	}
	w.Core.ReadyURL = "http://" + ports[1].Address() + "/readyz"
	return w.Core.Start()
}

// AddCluster adds a Cluster that is its own management cluster, with a Machine for each machine. The label "machine" of a Machine is its
// name.
func (w *World) AddCluster(ctx context.Context, namespace, name string, machines ...*Machine) error {
	kubeconfig, err := os.ReadFile(w.Kubeconfig)
	if err != nil {
		return errors.WithStack(err)
	}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: name}}
	secret := &corev1.Secret{ObjectMeta: meta, Type: clusterv1.ClusterSecretType, Data: map[string][]byte{"value": kubeconfig}}
	secret.Name += "-kubeconfig"
	cluster := &clusterv1.Cluster{ObjectMeta: meta}
	cluster.Spec.InfrastructureRef = puppet(puppetCluster, name)
	cluster.Spec.ControlPlaneRef = puppet(puppetControlPlane, name)
	if err := w.API.Create(ctx, secret); err != nil {
		return errors.WithStack(err)
	}
	provisioned := map[string]any{"initialization": map[string]any{"provisioned": true}}
	endpoint := map[string]any{"controlPlaneEndpoint": map[string]any{"host": "127.0.0.1", "port": int64(6443)}}
	initialized := map[string]any{"initialization": map[string]any{"controlPlaneInitialized": true}, "externalManagedControlPlane": true}
	if err := w.addPuppet(ctx, puppetCluster, meta, endpoint, provisioned); err != nil {
		return err
	}
	if err := w.addPuppet(ctx, puppetControlPlane, meta, map[string]any{}, initialized); err != nil {
		return err
	}
	if err := w.API.Create(ctx, cluster); err != nil {
		return errors.WithStack(err)
	}
	for _, m := range machines {
		meta := *meta.DeepCopy()
		meta.Name, meta.Labels["machine"] = m.Name, m.Name
		if err := w.addPuppet(ctx, puppetMachine, meta, map[string]any{"providerID": providerID(m.Name)}, provisioned); err != nil {
			return err
		}
		machine := &clusterv1.Machine{ObjectMeta: meta}
		machine.Spec.ClusterName, machine.Spec.Bootstrap.DataSecretName = name, ptr.To("none")
		machine.Spec.InfrastructureRef = puppet(puppetMachine, m.Name)
		if err := w.API.Create(ctx, machine); err != nil {
			return errors.WithStack(err)
		}
	}
	return nil
}

func puppet(kind schema.GroupVersionKind, name string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: kind.Group, Kind: kind.Kind, Name: name}
}

func (w *World) addPuppet(ctx context.Context, kind schema.GroupVersionKind, meta metav1.ObjectMeta, spec, status map[string]any) error {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(meta.Namespace)
	object.SetName(meta.Name)
	object.SetLabels(meta.Labels)
	if err := w.API.Create(ctx, object); err != nil {
		return errors.WithStack(err)
	}
	before := client.MergeFrom(object.DeepCopy())
	object.Object["status"] = status
	return errors.Wrapf(w.API.Status().Patch(ctx, object, before), "failed to write the status of %s %s", kind.Kind, meta.Name)
}
