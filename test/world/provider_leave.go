// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"time"

	"github.com/pkg/errors"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterctl "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// remedyDeployment is the Deployment of the manager.
var remedyDeployment = client.ObjectKey{Namespace: "remedy-system", Name: "remedy-controller-manager"}

// UninstallRemedy is 'clusterctl delete --infrastructure remedy', with its library or its program. It leaves the CRDs.
func (w *World) UninstallRemedy(ctx context.Context) error {
	w.say("uninstalling Remedy with clusterctl")
	return errors.Wrap(w.Clusterctl.Delete(ctx, clusterctl.DeleteOptions{
		Kubeconfig: clusterctl.Kubeconfig{Path: w.Kubeconfig}, InfrastructureProviders: []string{remedy.name},
	}), "clusterctl delete failed")
}

// InstallRemedy is 'clusterctl init --infrastructure remedy' after an uninstall. Then the process runs again.
func (w *World) InstallRemedy(ctx context.Context) error {
	w.say("installing Remedy with clusterctl again")
	_, err := w.Clusterctl.Init(ctx, clusterctl.InitOptions{Kubeconfig: clusterctl.Kubeconfig{Path: w.Kubeconfig}, InfrastructureProviders: []string{remedy.name + ":" + remedy.version}})
	if err != nil {
		return errors.Wrap(err, "clusterctl init failed")
	}
	return w.Restart(ctx, Remedy)
}

// StopWithDeployment does what a kubelet does for the manager until the context ends: its process stops when its Deployment is scaled to
// zero, or deleted.
func (w *World) StopWithDeployment(ctx context.Context) {
	w.background.Go(func() {
		for ctx.Err() == nil && w.life.Err() == nil {
			d := &appsv1.Deployment{}
			err := w.Client.Get(ctx, remedyDeployment, d)
			if ends := apierrors.IsNotFound(err) || err == nil && d.Spec.Replicas != nil && *d.Spec.Replicas == 0; ends && w.processes[Remedy].Running() {
				// Nothing but that it has ended already can go wrong.
				_ = w.processes[Remedy].Stop()
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
}
