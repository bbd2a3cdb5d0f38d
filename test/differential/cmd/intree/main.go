// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Command intree runs Cluster API's MachineHealthCheck reconciler, and no other one, in a process of its own: with the caches, the clients
// and the defaults of Cluster API's core manager. The benchmarks compare the manager of Remedy with it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/pkg/errors"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/controllers/remote"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinehealthcheck"
	"sigs.k8s.io/cluster-api/core/setup"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/cluster-api/util/flags"
	"sigs.k8s.io/cluster-api/util/index"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
)

const name = "cluster-api-controller-manager"

// The flags have the names and the defaults of the core manager.
var (
	diagnostics   flags.ManagerOptions
	qps           float32
	burst         int
	workloadQPS   float32
	workloadBurst int
	elect         bool
	lease         time.Duration
	renew         time.Duration
	retry         time.Duration
	concurrency   int
	healthAddr    string
	profilerAddr  string
)

func main() {
	fs := pflag.CommandLine
	flags.AddManagerOptions(fs, &diagnostics)
	fs.Float32Var(&qps, "kube-api-qps", 100, "Maximum queries per second to the management cluster.")
	fs.IntVar(&burst, "kube-api-burst", 200, "Maximum queries in one burst to the management cluster.")
	fs.Float32Var(&workloadQPS, "clustercache-client-qps", 20, "Maximum queries per second to each workload cluster.")
	fs.IntVar(&workloadBurst, "clustercache-client-burst", 30, "Maximum queries in one burst to each workload cluster.")
	fs.BoolVar(&elect, "leader-elect", false, "Whether only the leader reconciles.")
	fs.DurationVar(&lease, "leader-elect-lease-duration", 15*time.Second, "How long an instance remains the leader without a renewal.")
	fs.DurationVar(&renew, "leader-elect-renew-deadline", 10*time.Second, "How long the leader retries to renew.")
	fs.DurationVar(&retry, "leader-elect-retry-period", 2*time.Second, "How often instances try to acquire or to renew.")
	fs.IntVar(&concurrency, "machinehealthcheck-concurrency", 50, "Number of MachineHealthChecks to reconcile simultaneously.")
	fs.StringVar(&healthAddr, "health-addr", ":9440", "Address of the probes.")
	fs.StringVar(&profilerAddr, "profiler-address", "", "Address of a profiler; none if it is empty.")
	feature.MutableGates.AddFlag(fs)
	fs.AddGoFlagSet(flag.CommandLine)
	pflag.Parse()
	ctrl.SetLogger(klog.Background())
	if err := run(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return errors.Wrap(err, "failed to add types to the scheme")
		}
	}
	_, metrics, err := flags.GetManagerOptions(diagnostics)
	if err != nil {
		return errors.Wrap(err, "failed to read the flags")
	}
	rest := ctrl.GetConfigOrDie()
	rest.QPS, rest.Burst, rest.UserAgent = qps, burst, remote.DefaultClusterAPIUserAgent(name)
	mgr, err := ctrl.NewManager(rest, ctrl.Options{
		Controller: config.Controller{
			UsePriorityQueue: ptr.To(feature.Gates.Enabled(feature.PriorityQueue)), CacheSyncTimeout: 5 * time.Minute,
		},
		Scheme: scheme, Metrics: *metrics, HealthProbeBindAddress: healthAddr, PprofBindAddress: profilerAddr,
		LeaderElection: elect, LeaderElectionID: "controller-leader-election-capi", LeaderElectionNamespace: "default",
		LeaseDuration: &lease, RenewDeadline: &renew, RetryPeriod: &retry,
		Cache: setup.ManagerCacheOptions(scheme, name, "", 10*time.Minute), Client: setup.ManagerClientOptions(),
	})
	if err != nil {
		return errors.Wrap(err, "failed to create the manager")
	}
	if err := index.AddDefaultIndexes(ctx, mgr); err != nil {
		return errors.Wrap(err, "failed to add the indexes")
	}
	secrets, err := setup.CreateSecretCachingClient(mgr)
	if err != nil {
		return errors.Wrap(err, "failed to create the client for Secrets")
	}
	clusters, err := clustercache.SetupWithManager(ctx, mgr, clustercache.Options{
		SecretClient: secrets, Cache: setup.ClusterCacheCacheOptions(),
		Client: setup.ClusterCacheClientOptions(name, workloadQPS, workloadBurst),
	}, controller.Options{MaxConcurrentReconciles: 100})
	if err != nil {
		return errors.Wrap(err, "failed to set up the connections")
	}
	reconciler := &machinehealthcheck.Reconciler{Client: mgr.GetClient(), ClusterCache: clusters}
	if err := reconciler.SetupWithManager(ctx, mgr, controller.Options{MaxConcurrentReconciles: concurrency}); err != nil {
		return errors.Wrap(err, "failed to set up the reconciler")
	}
	return errors.Wrap(mgr.Start(ctx), "failed to run the manager")
}
