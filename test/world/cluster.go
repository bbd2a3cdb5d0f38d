// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cluster is a workload cluster. Its Nodes are simulated, everything about it in the management cluster is real.
type Cluster struct {
	Shape
	Nodes

	world *World
}

// Cluster makes a workload cluster, and does not wait for it: see Ready.
func (w *World) Cluster(ctx context.Context, shape Shape) (*Cluster, error) {
	shape, err := shape.complete()
	if err != nil {
		return nil, err
	}
	objects, err := shape.objects()
	if err != nil {
		return nil, err
	}
	if err := w.namespace(ctx, shape.Namespace); err != nil {
		return nil, err
	}
	for _, object := range objects {
		err := w.Client.Create(ctx, object)
		// Two clusters can have the same class.
		if apierrors.IsAlreadyExists(err) && object.GetName() == shape.ClassName() {
			continue
		}
		if err != nil {
			return nil, errors.Wrapf(err, "failed to make %s %s", object.GetKind(), object.GetName())
		}
	}
	c := &Cluster{Shape: shape, world: w}
	c.connect = c.Client
	return c, nil
}

// namespace makes a namespace if it is not there.
func (w *World) namespace(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return errors.Wrapf(client.IgnoreAlreadyExists(w.Client.Create(ctx, namespace)), "failed to make the namespace %s", name)
}

// Key is its name in the management cluster.
func (c *Cluster) Key() client.ObjectKey {
	return client.ObjectKey{Namespace: c.Namespace, Name: c.Name}
}

// Ready waits until all its Machines are Available and the Cluster reports that, too.
func (c *Cluster) Ready(ctx context.Context) error {
	return eventually(ctx, "cluster "+c.Name+" is not ready", func() error {
		machines, err := c.Machines(ctx)
		if err != nil {
			return err
		}
		available := 0
		for _, m := range machines {
			if meta.IsStatusConditionTrue(m.Status.Conditions, clusterv1.MachineAvailableCondition) {
				available++
			}
		}
		if len(machines) != c.machines() || available != len(machines) {
			return errors.Errorf("%d of %d Machines are there, %d are Available", len(machines), c.machines(), available)
		}
		cluster := &clusterv1.Cluster{}
		if err := c.world.Client.Get(ctx, c.Key(), cluster); err != nil {
			return errors.WithStack(err)
		}
		if !meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1.ClusterAvailableCondition) {
			return errors.Errorf("the Cluster is not Available: %v", meta.FindStatusCondition(cluster.Status.Conditions, clusterv1.ClusterAvailableCondition))
		}
		return nil
	})
}

// Machines are all its Machines, also those that are being deleted.
func (c *Cluster) Machines(ctx context.Context) ([]clusterv1.Machine, error) {
	list := &clusterv1.MachineList{}
	err := c.world.Client.List(ctx, list, client.InNamespace(c.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: c.Name})
	return list.Items, errors.Wrapf(err, "failed to list the Machines of %s", c.Name)
}

// PoolMachines are the Machines of one pool.
func (c *Cluster) PoolMachines(ctx context.Context, pool string) ([]clusterv1.Machine, error) {
	all, err := c.Machines(ctx)
	var found []clusterv1.Machine
	for _, m := range all {
		if m.Labels[PoolLabel] == pool {
			found = append(found, m)
		}
	}
	return found, err
}

// Kubeconfig is how this workload cluster is reached: through its link, as the managers do, or past it.
func (c *Cluster) Kubeconfig(ctx context.Context, throughLink bool) ([]byte, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: c.Namespace, Name: c.Name + kubeconfigSuffix}
	if err := c.world.Client.Get(ctx, key, secret); err != nil {
		return nil, errors.Wrapf(err, "no kubeconfig of %s", c.Name)
	}
	if throughLink {
		return secret.Data[kubeconfigKey], nil
	}
	config, err := clientcmd.Load(secret.Data[kubeconfigKey])
	if err != nil {
		return nil, errors.WithStack(err)
	}
	for _, cluster := range config.Clusters {
		cluster.ProxyURL = ""
	}
	written, err := clientcmd.Write(*config)
	return written, errors.WithStack(err)
}

// Config is for clients of the workload cluster that go past the link: the test sees the Nodes also when the managers do not.
func (c *Cluster) Config(ctx context.Context) (*rest.Config, error) {
	kubeconfig, err := c.Kubeconfig(ctx, false)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, errors.WithStack(err)
	}
	config.QPS, config.Burst = 1000, 2000
	return config, nil
}

// Client is a client of the workload cluster that goes past the link.
func (c *Cluster) Client(ctx context.Context) (client.Client, error) {
	config, err := c.Config(ctx)
	if err != nil {
		return nil, err
	}
	made, err := client.New(config, client.Options{Scheme: c.world.Client.Scheme()})
	return made, errors.Wrapf(err, "failed to make a client of %s", c.Name)
}

// Delete deletes it and waits until it does not exist any more.
func (c *Cluster) Delete(ctx context.Context) error {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name}}
	if err := client.IgnoreNotFound(c.world.Client.Delete(ctx, cluster)); err != nil {
		return errors.Wrapf(err, "failed to delete %s", c.Name)
	}
	return eventually(ctx, "cluster "+c.Name+" does not go away", func() error {
		err := c.world.Client.Get(ctx, c.Key(), cluster)
		if err == nil {
			return errors.New("it is still there")
		}
		return client.IgnoreNotFound(err)
	})
}

// eventually retries until it works, or returns the last error.
func eventually(ctx context.Context, what string, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Wrap(err, what)
		case <-time.After(250 * time.Millisecond):
		}
	}
}
