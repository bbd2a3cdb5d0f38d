// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterapi detects whether the management cluster serves the Cluster API that MachineHealthChecks need: start at APIWatcher. It
// also has what several packages need of the objects of Cluster API: RemoveConditions and StatusPatch for in-tree checks, RemediatingOwner
// for Machines. It reads and writes no object itself.
package clusterapi

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// needed are the resources of Cluster API that MachineHealthChecks need.
var needed = []string{"clusters", "machinedeployments", "machinehealthchecks", "machines", "machinesets"}

// Availability reports whether MachineHealthChecks can be reconciled, and if not, why and what to do about it.
type Availability struct {
	Served bool
	// Why is a message for the user; empty if Served.
	Why string
}

// Discoverer is the part of a discovery client that this package uses.
type Discoverer interface {
	discovery.ServerGroupsInterface
	discovery.ServerResourcesInterface
}

// Detect reads the served resources. After an error it is unknown whether they are served.
func Detect(api Discoverer) (Availability, error) {
	list, err := api.ServerResourcesForGroupVersion(clusterv1.GroupVersion.String())
	if err != nil && !apierrors.IsNotFound(err) {
		return Availability{}, errors.Wrapf(err, "failed to discover %s", clusterv1.GroupVersion)
	}
	if apierrors.IsNotFound(err) {
		return withoutNeededVersion(api)
	}
	missing := lacking(list, needed)
	if len(missing) > 0 {
		return Availability{Why: fmt.Sprintf(
			"Cluster API is installed, but does not serve %s in %s; complete the installation of its core provider",
			strings.Join(missing, ", "), clusterv1.GroupVersion)}, nil
	}
	return Availability{Served: true}, nil
}

// OwnKinds returns an error that names which of these resources of this project are not served. Without them the caches of the reconcilers
// never sync.
func OwnKinds(api Discoverer, resources ...string) error {
	version := remedyv1.GroupVersion.String()
	list, err := api.ServerResourcesForGroupVersion(version)
	if err != nil && !apierrors.IsNotFound(err) {
		return errors.Wrapf(err, "failed to discover %s", version)
	}
	missing := resources
	if err == nil {
		missing = lacking(list, resources)
	}
	if len(missing) > 0 {
		return errors.Errorf("%s of %s are not served: apply the custom resource definitions of this release",
			strings.Join(missing, " and "), version)
	}
	return nil
}

// lacking returns the resources that a version does not serve.
func lacking(list *metav1.APIResourceList, resources []string) []string {
	missing := slices.Clone(resources)
	for i := range list.APIResources {
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == list.APIResources[i].Name })
	}
	return missing
}

// withoutNeededVersion distinguishes a missing Cluster API from an old one.
func withoutNeededVersion(api Discoverer) (Availability, error) {
	groups, err := api.ServerGroups()
	if err != nil {
		return Availability{}, errors.Wrap(err, "failed to discover the API groups")
	}
	for _, group := range groups.Groups {
		if group.Name != clusterv1.GroupVersion.Group {
			continue
		}
		served := make([]string, 0, len(group.Versions))
		for _, version := range group.Versions {
			served = append(served, version.Version)
		}
		return Availability{Why: fmt.Sprintf("Cluster API serves %s only, %s is needed; upgrade its core provider to v1.11 or later",
			strings.Join(served, ", "), clusterv1.GroupVersion)}, nil
	}
	return Availability{Why: fmt.Sprintf("Cluster API is not installed here (no API group %s); NodeHealthChecks work without it",
		clusterv1.GroupVersion.Group)}, nil
}

// requestTimeout is the timeout of one request. Without it, an API server that does not answer would delay a shutdown and the probes.
const requestTimeout = 5 * time.Second

// NewDiscoverer returns a discovery client whose requests time out after a few seconds.
func NewDiscoverer(config *rest.Config) (*discovery.DiscoveryClient, error) {
	limited := rest.CopyConfig(config)
	limited.Timeout = requestTimeout
	client, err := discovery.NewDiscoveryClientForConfig(limited)
	return client, errors.Wrap(err, "failed to make a discovery client")
}

// How long a start waits for an API server that is away, and the time between two attempts. The startup probe of the Deployment allows
// 120 s.
const (
	startTimeout = 100 * time.Second
	startRetry   = 2 * time.Second
)

// ServerVersion reads the version of the API server. It retries for a while: a manager that exits instead is delayed by the kubelet.
func ServerVersion(
	ctx context.Context, api discovery.ServerVersionInterface, timer clock.Clock, log logr.Logger,
) (*apiversion.Info, error) {
	end := timer.Now().Add(startTimeout)
	for {
		served, err := ask(ctx, api.ServerVersion)
		if err == nil || ctx.Err() != nil || !timer.Now().Before(end) {
			return served, err
		}
		log.Info("Waiting for the API server of the management cluster", "reason", err.Error())
		select {
		case <-ctx.Done():
		case <-timer.After(startRetry):
		}
	}
}

// ask calls a function that takes no context, and stops waiting when the context ends. The function itself ends by the timeout of its
// client.
func ask[T any](ctx context.Context, request func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		value, err := request()
		answers <- answer{value, err}
	}()
	select {
	case got := <-answers:
		return got.value, got.err
	case <-ctx.Done():
		var none T
		return none, errors.Wrap(ctx.Err(), "stopped waiting for the API server")
	}
}
