// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// Cluster is the management cluster, read with the permissions of the user.
type Cluster struct {
	config *rest.Config
	client client.WithWatch
}

// requestTimeout limits one request to an API server.
const requestTimeout = 30 * time.Second

// NewCluster returns the management cluster that a kubeconfig selects.
func NewCluster(config *rest.Config) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 50, 100
	config.WarningHandler = rest.NoWarnings{}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme, remedyv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, errors.Wrap(err, "failed to register the API types")
		}
	}
	api, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	return &Cluster{config: config, client: api}, errors.Wrap(err, "failed to connect to the management cluster")
}

// Subject is what a question is about.
type Subject struct {
	// Node: Name is that of a Node, otherwise of a Machine.
	Node            bool
	Namespace, Name string
	// Cluster is the Cluster of the Node; empty for the only one with a Node of this name.
	Cluster string
}

// machineOf finds the Machine that a question is about.
func (c *Cluster) machineOf(ctx context.Context, s Subject) (*clusterv1.Machine, error) {
	ctx, done := context.WithTimeout(ctx, requestTimeout)
	defer done()
	if !s.Node {
		m := &clusterv1.Machine{}
		err := c.client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: s.Name}, m)
		if err == nil && s.Cluster != "" && m.Spec.ClusterName != s.Cluster {
			return nil, errors.Errorf("Machine %s/%s belongs to Cluster %s, not to %s", s.Namespace, s.Name, m.Spec.ClusterName, s.Cluster)
		}
		return m, readError(err, fmt.Sprintf("Machine %s/%s", s.Namespace, s.Name))
	}
	machines := &clusterv1.MachineList{}
	if err := c.client.List(ctx, machines, client.InNamespace(s.Namespace)); err != nil {
		return nil, readError(err, "the Machines of namespace "+s.Namespace)
	}
	var found *clusterv1.Machine
	for i := range machines.Items {
		m := &machines.Items[i]
		if m.Status.NodeRef.Name != s.Name || s.Cluster != "" && m.Spec.ClusterName != s.Cluster {
			continue
		}
		if found != nil && found.Spec.ClusterName != m.Spec.ClusterName {
			return nil, errors.Errorf("the Clusters %s and %s both have a Node %s: select one with --cluster",
				found.Spec.ClusterName, m.Spec.ClusterName, s.Name)
		}
		found = m
	}
	if found == nil {
		return nil, errors.Errorf("no Machine in namespace %s has the Node %s: select the namespace of its Cluster with -n. "+
			"Nodes without a Machine are not monitored by this version", s.Namespace, s.Name)
	}
	return found, nil
}

// readError returns what could not be read and what the user can do.
func readError(err error, what string) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		return errors.Errorf("failed to read %s: you are not allowed to. Ask an administrator for the permission", what)
	case apierrors.IsNotFound(err):
		return &notFoundError{what}
	}
	return errors.Wrap(err, "failed to read "+what)
}

// notFoundError is returned for an object that does not exist.
type notFoundError struct{ what string }

func (e *notFoundError) Error() string { return e.what + " not found" }

func notFound(err error) bool {
	var missing *notFoundError
	return errors.As(err, &missing)
}

// quiet drops the log lines of libraries: the command prints what could not be read.
func quiet() logr.Logger { return logr.Discard() }

// nodes is for the cache, which keeps only the fields of Nodes that are evaluated.
var nodes client.Object = &corev1.Node{}
