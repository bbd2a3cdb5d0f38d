// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"encoding/json"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// Cluster is one whose objects are looked through.
type Cluster struct {
	// name is how people know it.
	name       string
	discoverer discovery.DiscoveryInterface
	metadata   metadata.Interface
	api        client.Client
}

// answerTime is how long one answer of an API server may take.
const answerTime = 30 * time.Second

// busy is how often an object is written to anew that others write to as well: for five seconds, all in all.
var busy = wait.Backoff{Steps: 10, Duration: 10 * time.Millisecond, Factor: 2, Jitter: 0.1}

// NewCluster is ready to ask the API server of a cluster.
func NewCluster(name string, config *rest.Config) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.Timeout = answerTime
	// By itself a client asks five times a second, which is long for a cluster with a hundred kinds.
	config.QPS, config.Burst = 50, 100
	// Every kind is looked at, also those that nobody should use any more.
	config.WarningHandler = rest.NoWarnings{}
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, clusterv1.AddToScheme, remedyv1.AddToScheme} {
		if err := add(known); err != nil {
			return nil, errors.WithStack(err)
		}
	}
	c := &Cluster{name: name}
	var err error
	if c.discoverer, err = discovery.NewDiscoveryClientForConfig(config); err != nil {
		return nil, errors.WithStack(err)
	}
	if c.metadata, err = metadata.NewForConfig(config); err != nil {
		return nil, errors.WithStack(err)
	}
	c.api, err = client.New(config, client.Options{Scheme: known})
	return c, errors.WithStack(err)
}

// tries is how often a write is tried where others write at the same time.
const tries = 5

// clean takes what is ours off an object, whatever it is by now.
func (c *Cluster) clean(ctx context.Context, f *found) error {
	api := c.metadata.Resource(f.resource).Namespace(f.Namespace)
	meta := f.ObjectMeta
	for range tries {
		now := f.at(&meta)
		if now.empty() {
			return nil
		}
		patch, err := json.Marshal(now.patch(&meta))
		if err != nil {
			return errors.WithStack(err)
		}
		_, err = api.Patch(ctx, f.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		if !apierrors.IsConflict(err) {
			return errors.WithStack(client.IgnoreNotFound(err))
		}
		later, err := api.Get(ctx, f.Name, metav1.GetOptions{})
		if err != nil || later.UID != f.UID {
			return errors.WithStack(client.IgnoreNotFound(err))
		}
		meta = later.ObjectMeta
	}
	return errors.Errorf("%s %s/%s is changed by somebody else all the time; try again", f.kind, f.Namespace, f.Name)
}

// kubeconfig is how a workload cluster is reached. What would start a program is refused.
func (c *Cluster) kubeconfig(ctx context.Context, cluster *clusterv1.Cluster) ([]byte, error) {
	secret := &corev1.Secret{}
	err := c.api.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Name + "-kubeconfig"}, secret)
	return secret.Data["value"], errors.WithStack(err)
}
