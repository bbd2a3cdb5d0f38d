// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/flags"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/features"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// The Leases that the instances of one namespace with the same --controllers compete for. Instances with other values of --namespace or
// --watch-filter run in other namespaces, as with every Cluster API provider.
const (
	LeaseName        = "controller-leader-election-remedy"
	FencingLeaseName = LeaseName + "-fencing"
)

// LeaseName is the name of the Lease of the controllers that this process runs.
func (s *Settings) LeaseName() string {
	if s.Controllers == Fencing {
		return FencingLeaseName
	}
	return LeaseName
}

// ManagerOptions returns the options of controller-runtime.
func (s *Settings) ManagerOptions(scheme *runtime.Scheme) (ctrl.Options, error) {
	_, metrics, err := flags.GetManagerOptions(s.Diagnostics)
	if err != nil {
		return ctrl.Options{}, errors.Wrap(err, "failed to parse the flags for TLS")
	}
	cacheOptions := cache.Options{
		SyncPeriod:       &s.SyncPeriod,
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject:         map[client.Object]cache.ByObject{&corev1.Node{}: workload.StrippedNodes()},
	}
	if s.WatchNamespace != "" {
		cacheOptions.DefaultNamespaces = map[string]cache.Config{s.WatchNamespace: {}}
	}
	return ctrl.Options{
		Scheme:  scheme,
		Cache:   cacheOptions,
		Metrics: *metrics,

		LeaderElection:                s.LeaderElection.Enabled,
		LeaderElectionID:              s.LeaseName(),
		LeaderElectionNamespace:       s.LeaderElection.Namespace,
		LeaderElectionResourceLock:    resourcelock.LeasesResourceLock,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &s.LeaderElection.LeaseDuration,
		RenewDeadline:                 &s.LeaderElection.RenewDeadline,
		RetryPeriod:                   &s.LeaderElection.RetryPeriod,

		// internal/probes serves them.
		HealthProbeBindAddress:  "0",
		PprofBindAddress:        s.ProfilerAddress,
		GracefulShutdownTimeout: ptr.To(20 * time.Second),

		Controller: config.Controller{
			GroupKindConcurrency: map[string]int{
				"MachineHealthCheck.remedy.cluster.x-k8s.io": s.MachineHealthCheckConcurrency,
				"MachineHealthCheck.cluster.x-k8s.io":        s.MachineHealthCheckConcurrency,
				"NodeHealthCheck.remedy.cluster.x-k8s.io":    s.NodeHealthCheckConcurrency,
			},
			// Large fleets take longer than the default of two minutes.
			CacheSyncTimeout: 5 * time.Minute,
			EnableWarmup:     ptr.To(s.Gates.Enabled(features.WarmStandby)),
			// The priority queue can keep a manager from stopping: see internal/fairqueue.
			UsePriorityQueue: ptr.To(false),
		},
	}, nil
}
