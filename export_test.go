// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/clusterapi"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/settings"
)

// NewManager returns a manager with the reconcilers of all kinds, and with one more unless that is nil, and the function that sets up those that can run.
func NewManager(
	ctx context.Context, config *rest.Config, s *settings.Settings, more func(*healthcheck.Environment) controllers.Kind,
) (manager.Manager, func(ctx context.Context, clusterAPI bool) error, error) {
	api, err := clusterapi.NewDiscoverer(config)
	if err != nil {
		return nil, nil, err
	}
	scheme, err := newScheme()
	if err != nil {
		return nil, nil, err
	}
	options, err := s.ManagerOptions(scheme)
	if err != nil {
		return nil, nil, err
	}
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, nil, err
	}
	all, err := newReconcilers(ctx, mgr, s, api)
	if err != nil {
		return nil, nil, err
	}
	if more != nil {
		all.kinds = append(all.kinds, more(all.Environment))
	}
	return mgr, all.setUp, nil
}
