// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/clusterapi"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/settings"
)

// CheckKubernetes is checkKubernetes.
var CheckKubernetes = checkKubernetes

// NewManager returns a manager with the reconcilers of all kinds, and the function that sets up those that can run.
func NewManager(
	ctx context.Context, config *rest.Config, s *settings.Settings,
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
	// Several managers run in one process.
	options.Controller.SkipNameValidation = ptr.To(true)
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, nil, err
	}
	all, err := newReconcilers(ctx, mgr, s, api)
	if err != nil {
		return nil, nil, err
	}
	return mgr, all.setUp, nil
}
