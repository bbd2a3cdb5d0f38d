// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"time"

	"github.com/pkg/errors"
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
