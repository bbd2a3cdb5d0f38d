// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctl "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// MoveTo is 'clusterctl move', with its library: every cluster of a namespace goes to another world of this program. What arrives is what a
// user would see arrive. Cluster.In and Workload.In give the clusters as seen from there.
//
// In-memory clusters have their API servers and Nodes in the infrastructure's process, and there can be one of it: it serves on until
// clusterctl is done, and then the target's process replaces it, on the same ports. It has no data of the workload clusters,
// and creates all Nodes again, Ready and under the same names: conditions, labels, annotations and UIDs of Nodes do not outlive the move, and
// the in-memory clusters of other namespaces are without an API server as long as the process is away. Where Nodes must outlive a move, use
// World.Workload: its API server is a process of its own.
func (w *World) MoveTo(ctx context.Context, target *World, namespace string) error {
	lent := w.processes[Infrastructure].Running() && !target.processes[Infrastructure].Running()
	mine, theirs := w.webhookPorts[Infrastructure], target.webhookPorts[Infrastructure]
	if lent {
		// clusterctl writes DevMachines on both sides: the same program in the same version answers the questions of both API servers.
		if err := target.leadAdmission(ctx, theirs, mine, w.certificate.PEM); err != nil {
			return err
		}
		if err := target.waitForDevMachines(ctx); err != nil {
			return err
		}
	}
	moveErr := w.move(ctx, target, namespace)
	if lent {
		if moveErr == nil {
			moveErr = w.handOverInfrastructure(ctx, target)
		}
		// Also when it failed: what was lent goes back.
		if err := target.leadAdmission(ctx, mine, theirs, target.certificate.PEM); moveErr == nil && err != nil {
			return err
		}
		if moveErr == nil {
			moveErr = target.waitForDevMachines(ctx)
		}
	}
	if moveErr != nil {
		return moveErr
	}
	return target.resumeDeleted(ctx, namespace)
}

// move lets clusterctl work, and then plays on the other side what was played here.
func (w *World) move(ctx context.Context, target *World, namespace string) error {
	if err := target.installPuppets(); err != nil {
		return err
	}
	w.say("moving namespace %s with clusterctl", namespace)
	err := w.Clusterctl.Move(ctx, clusterctl.MoveOptions{
		FromKubeconfig: clusterctl.Kubeconfig{Path: w.Kubeconfig},
		ToKubeconfig:   clusterctl.Kubeconfig{Path: target.Kubeconfig},
		Namespace:      namespace,
	})
	if err != nil {
		return errors.Wrapf(err, "clusterctl move of namespace %s failed", namespace)
	}
	for _, l := range w.release(namespace) {
		l.rest()
		there := newWorkload(target, l.Shape, l.Plane)
		target.keep(there)
		there.play()
	}
	w.say("namespace %s is there", namespace)
	return nil
}

// handOverInfrastructure ends the process here and starts the one there.
func (w *World) handOverInfrastructure(ctx context.Context, target *World) error {
	if err := w.Kill(Infrastructure); err != nil {
		return err
	}
	return target.Restart(ctx, Infrastructure)
}

// resumeDeleted monitors the DevMachines whose Nodes were deleted before the move.
func (w *World) resumeDeleted(ctx context.Context, namespace string) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(devMachine.GroupVersion().WithKind(devMachine.Kind + "List"))
	if err := w.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return errors.Wrap(err, "failed to list the DevMachines that have arrived")
	}
	for i := range list.Items {
		if name := list.Items[i].GetName(); list.Items[i].GetAnnotations()[clusterv1.PausedAnnotation] == nodeDeleted {
			w.background.Go(func() { w.resumeWhenDeleted(w.life, namespace, name) })
		}
	}
	return nil
}

// In is the same cluster in the world that it has been moved to.
func (c *Cluster) In(w *World) *Cluster {
	moved := &Cluster{Shape: c.Shape, world: w}
	moved.connect = moved.Client
	return moved
}

// In is the same cluster in the world that it has been moved to.
func (l *Workload) In(w *World) (*Workload, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, there := range w.workloads {
		if there.Plane == l.Plane {
			return there, nil
		}
	}
	return nil, errors.Errorf("cluster %s is not there: World.MoveTo brings it", l.Name)
}
