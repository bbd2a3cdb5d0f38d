// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/clusterapi"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/settings"
)

// CheckKubernetes is checkKubernetes.
var CheckKubernetes = checkKubernetes

// Manager is a manager with the reconcilers of all kinds.
type Manager struct {
	manager.Manager
	// SetUp sets up the reconcilers that can run.
	SetUp func(ctx context.Context, clusterAPI bool) error
	// AddRunnables adds the detection of Cluster API, which calls SetUp, and the probes.
	AddRunnables func(now clock.WithTicker) error
}

// NewManager returns a manager that logs to a logger.
func NewManager(ctx context.Context, config *rest.Config, s *settings.Settings, logger logr.Logger) (*Manager, error) {
	api, err := clusterapi.NewDiscoverer(config)
	if err != nil {
		return nil, err
	}
	scheme, err := newScheme(s)
	if err != nil {
		return nil, err
	}
	options, err := s.ManagerOptions(scheme)
	if err != nil {
		return nil, err
	}
	// Several managers run in one process.
	options.Controller.SkipNameValidation = ptr.To(true)
	options.Logger = logger
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, err
	}
	set, err := newControllers(ctx, mgr, s, api, nil)
	if err != nil {
		return nil, err
	}
	runnables := func(now clock.WithTicker) error { return addRunnables(mgr, s, api, set, now) }
	return &Manager{Manager: mgr, SetUp: set, AddRunnables: runnables}, nil
}
