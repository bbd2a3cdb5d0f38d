// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kubeconfigSuffix ends the name of the Secret with a workload cluster's kubeconfig, kubeconfigKey is its key.
const (
	kubeconfigSuffix = "-kubeconfig"
	kubeconfigKey    = "value"
)

// links puts a link before every workload cluster. The Secret is changed the moment it is made, long before the cluster's
// API server is up, so that no manager has a connection that goes past the link.
type links struct {
	client client.WithWatch

	lock   sync.Mutex
	byName map[client.ObjectKey]*Link
}

func newLinks(c client.WithWatch) *links {
	return &links{client: c, byName: map[client.ObjectKey]*Link{}}
}

// follow waits for Secrets until the context ends. It starts again after the API server did not answer.
func (l *links) follow(ctx context.Context) {
	for ctx.Err() == nil {
		_ = l.followOnce(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (l *links) followOnce(ctx context.Context) error {
	watch, err := l.client.Watch(ctx, &corev1.SecretList{}, client.HasLabels{clusterv1.ClusterNameLabel})
	if err != nil {
		return errors.WithStack(err)
	}
	defer watch.Stop()
	for event := range watch.ResultChan() {
		secret, is := event.Object.(*corev1.Secret)
		if !is || !strings.HasSuffix(secret.Name, kubeconfigSuffix) || secret.DeletionTimestamp != nil {
			continue
		}
		if err := l.lead(ctx, secret); err != nil {
			return err
		}
	}
	return nil
}

// lead makes the kubeconfig lead through the cluster's link.
func (l *links) lead(ctx context.Context, secret *corev1.Secret) error {
	config, err := clientcmd.Load(secret.Data[kubeconfigKey])
	if err != nil {
		return errors.Wrapf(err, "Secret %s holds no kubeconfig", secret.Name)
	}
	link, err := l.of(client.ObjectKey{Namespace: secret.Namespace, Name: strings.TrimSuffix(secret.Name, kubeconfigSuffix)}, true)
	if err != nil {
		return err
	}
	there := true
	for _, cluster := range config.Clusters {
		there = there && cluster.ProxyURL == link.URL()
		cluster.ProxyURL = link.URL()
	}
	if there {
		return nil
	}
	before := client.MergeFromWithOptions(secret.DeepCopy(), client.MergeFromWithOptimisticLock{})
	if secret.Data[kubeconfigKey], err = clientcmd.Write(*config); err != nil {
		return errors.WithStack(err)
	}
	return errors.Wrapf(l.client.Patch(ctx, secret, before), "failed to put a link into Secret %s", secret.Name)
}

// of returns the link of a cluster, and makes a missing one if asked to.
func (l *links) of(cluster client.ObjectKey, missing bool) (*Link, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if link := l.byName[cluster]; link != nil || !missing {
		return link, nil
	}
	link, err := newLink()
	if err != nil {
		return nil, err
	}
	l.byName[cluster] = link
	return link, nil
}

func (l *links) close() {
	l.lock.Lock()
	defer l.lock.Unlock()
	for _, link := range l.byName {
		link.close()
	}
}

// link waits until a cluster has its link.
func (w *World) link(ctx context.Context, namespace, name string) (*Link, error) {
	var found *Link
	err := eventually(ctx, "there is no link to cluster "+name, func() error {
		var err error
		found, err = w.links.of(client.ObjectKey{Namespace: namespace, Name: name}, false)
		if err == nil && found == nil {
			return errors.New("there is no kubeconfig yet")
		}
		return err
	})
	return found, err
}
