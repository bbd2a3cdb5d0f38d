// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Command manager runs the controllers of cluster-api-provider-remedy. This package only wires packages of internal and controllers.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	goruntime "runtime"
	"slices"

	"github.com/pkg/errors"
	"github.com/spf13/pflag"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	logsv1 "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/intree"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	fencing "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/controller"
	fencingsetup "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/setup"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/clusterapi"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/eventqueue"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/features"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/probes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/settings"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/version"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// minimumKubernetes is the oldest supported version of the management cluster: docs/support.md. In it, an object that was valid under an
// older schema stays editable.
const minimumKubernetes = "v1.33.0"

// Exit codes. A supervisor can retry after a failure, but not after invalid flags.
const (
	exitFailed       = 1
	exitInvalidFlags = 2
)

func main() {
	os.Exit(run(os.Args[1:]))
}

// run returns the exit code.
func run(args []string) int {
	s, err := parse(args)
	if errors.Is(err, pflag.ErrHelp) {
		return 0
	}
	if err != nil {
		for _, problem := range problems(err) {
			fmt.Fprintf(os.Stderr, "manager: %v\n", problem)
		}
		fmt.Fprintln(os.Stderr, "manager --help lists the flags.")
		return exitInvalidFlags
	}
	if err := logsv1.ValidateAndApply(s.Logging, nil); err != nil {
		fmt.Fprintf(os.Stderr, "manager: failed to configure logging: %v\n", err)
		return exitInvalidFlags
	}
	ctrl.SetLogger(klog.Background())
	if err := serve(ctrl.SetupSignalHandler(), s); err != nil {
		ctrl.Log.WithName("setup").Error(err, "Manager stopped")
		klog.Flush()
		return exitFailed
	}
	klog.Flush()
	return 0
}

func parse(args []string) (*settings.Settings, error) {
	fs := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	fs.SortFlags = false
	fs.SetOutput(os.Stdout)
	fs.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	s, err := settings.New(fs)
	if err != nil {
		return nil, err
	}
	// The flag --kubeconfig of controller-runtime.
	fs.AddGoFlagSet(flag.CommandLine)
	return s, s.Parse(fs, args)
}

// problems returns the errors of an aggregate, so that each gets a line of its own.
func problems(err error) []error {
	var list utilerrors.Aggregate
	if errors.As(err, &list) {
		return list.Errors()
	}
	return []error{err}
}

// The process needs a Lease in its own namespace for leader election, events, and reviews of requests for the diagnostics.
//
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=remedy-system,resources=leases,verbs=create;get;update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// serve runs until the context ends.
func serve(ctx context.Context, s *settings.Settings) error {
	setupLog := ctrl.Log.WithName("setup")
	setupLog.Info("Starting manager", "version", version.String(), "controllers", s.Controllers, "mode", s.Mode,
		"inTreeMachineHealthChecks", s.InTreeChecks, "namespace", s.WatchNamespace, "watchFilter", s.WatchFilter)
	if s.ContentionProfiling {
		goruntime.SetBlockProfileRate(1)
	}
	config, err := restConfig(s)
	if err != nil {
		return err
	}
	management := workload.ObserveManagementAPI(config, clock.RealClock{})
	if s.LeaderElection.Enabled {
		lease := client.ObjectKey{Namespace: s.LeaderElection.Namespace, Name: s.LeaseName()}
		management.RequireLeadership(lease, s.LeaderElection.RenewDeadline)
	}
	api, err := clusterapi.NewDiscoverer(config)
	if err != nil {
		return err
	}
	err = checkKubernetes(ctx, api)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // A requested shutdown is no failure.
	}
	if err != nil {
		return err
	}
	scheme, err := newScheme(s)
	if err != nil {
		return err
	}
	options, err := s.ManagerOptions(scheme)
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return errors.Wrap(err, "failed to set up the manager")
	}
	setUp, err := newControllers(ctx, mgr, s, api, management)
	if err != nil {
		return err
	}
	if err := addRunnables(mgr, s, api, setUp, clock.RealClock{}); err != nil {
		return err
	}
	if err := mgr.Start(ctx); err != nil {
		return errors.Wrap(err, "failed to run the manager")
	}
	setupLog.Info("Stopped")
	return nil
}

// checkKubernetes returns an error if the management cluster is too old, or does not answer in time.
func checkKubernetes(ctx context.Context, api discovery.ServerVersionInterface) error {
	served, err := clusterapi.ServerVersion(ctx, api, clock.RealClock{}, ctrl.Log.WithName("setup"))
	if err != nil {
		return errors.Wrap(err, "failed to read the version of the management cluster")
	}
	parsed, err := utilversion.ParseGeneric(served.GitVersion)
	if err != nil {
		return errors.Wrapf(err, "failed to parse the version %q of the management cluster", served.GitVersion)
	}
	if parsed.LessThan(utilversion.MustParseGeneric(minimumKubernetes)) {
		return errors.Errorf("the management cluster has Kubernetes %s, and Remedy needs %s or later: upgrade the management cluster",
			served.GitVersion, minimumKubernetes)
	}
	return nil
}

func restConfig(s *settings.Settings) (*rest.Config, error) {
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, errors.Wrap(err, "failed to find the management cluster: run the manager in it, or set --kubeconfig or KUBECONFIG")
	}
	config.QPS, config.Burst = s.QPS, s.Burst
	config.UserAgent = "cluster-api-provider-remedy/" + version.String()
	return config, nil
}

func newScheme(s *settings.Settings) (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	types := []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme, remedyv1.AddToScheme}
	if s.Controllers == settings.Fencing {
		types = append(types, fencingv1.AddToScheme)
	}
	for _, add := range types {
		if err := add(scheme); err != nil {
			return nil, errors.Wrap(err, "failed to register the API types")
		}
	}
	return scheme, nil
}

// addRunnables adds what runs on every instance, leading or not: what detects Cluster API and sets up the reconcilers, and the probes.
func addRunnables(mgr manager.Manager, s *settings.Settings, api clusterapi.Discoverer, set setUp, now clock.WithTicker) error {
	watcher := &clusterapi.APIWatcher{
		Name: "machinehealthcheck", What: "MachineHealthChecks",
		API: api, Clock: now, Log: mgr.GetLogger().WithName("clusterapi"), SetUp: set,
	}
	policies := probes.PoliciesOfChecks()
	if s.Controllers == settings.Fencing {
		watcher.Name, watcher.What = "workloadclusters", "NodeFences of workload clusters"
		policies = probes.PoliciesOfFencing()
	}
	if err := mgr.Add(watcher); err != nil {
		return errors.Wrap(err, "failed to add the detection of Cluster API")
	}
	if s.HealthAddress == "0" {
		return nil
	}
	leader := probes.Fixed("leader", "this instance acts (no leader election)")
	if s.LeaderElection.Enabled {
		leader = probes.Leader(mgr.Elected(), leaseHolder(mgr.GetAPIReader(), s))
	}
	policies.Reader, policies.Client, policies.Clock = mgr.GetAPIReader(), mgr.GetClient(), now
	policies.Log, policies.Namespace = mgr.GetLogger().WithName("policies"), s.WatchNamespace
	if err := mgr.Add(policies); err != nil {
		return errors.Wrap(err, "failed to add the verification of the policies")
	}
	live := []probes.Check{probes.Fixed("process", "version "+version.String())}
	ready := []probes.Check{
		probes.Caches(mgr.GetCache()),
		leader,
		probes.Fixed("mode", string(s.Mode)),
		watcher.Check(),
		policies.Check(),
	}
	handler := probes.Handler(mgr.GetLogger().WithName("probes"), live, ready)
	server := &manager.Server{Name: "probes", Server: probes.Server(s.HealthAddress, handler)}
	return errors.Wrap(mgr.Add(server), "failed to add the probes")
}

// setUp sets up the reconcilers that can run now, on a manager that runs already, and checks that their own kinds are still served. It is
// called after each discovery, and changes nothing the second time.
type setUp = func(ctx context.Context, clusterAPI bool) error

// parts are what the controllers of checks and of fencing both need.
type parts struct {
	mgr       manager.Manager
	settings  *settings.Settings
	api       clusterapi.Discoverer
	clusters  *workload.Clusters
	metrics   *metrics.Metrics
	events    *eventqueue.Recorder
	connected bool
}

// newControllers prepares what needs no Cluster API. It calls no API server.
func newControllers(
	ctx context.Context, mgr manager.Manager, s *settings.Settings, api clusterapi.Discoverer, management *workload.ManagementAPI,
) (setUp, error) {
	clusters, err := workload.New(mgr, clock.RealClock{})
	if err != nil {
		return nil, errors.Wrap(err, "failed to set up the clients for Nodes")
	}
	counted, err := metrics.New(ctrlmetrics.Registry)
	if err != nil {
		return nil, errors.Wrap(err, "failed to register the metrics")
	}
	clusters.CountIgnoredUpdates(counted.HeartbeatIgnored)
	clusters.UseNodeLeasesOf(s.NodeLeaseNamespace)
	clusters.Observe(management)
	recorder, err := eventqueue.New(mgr, clock.RealClock{}, counted.EventDropped)
	if err != nil {
		return nil, err
	}
	p := &parts{mgr: mgr, settings: s, api: api, clusters: clusters, metrics: counted, events: recorder}
	if s.Controllers == settings.Fencing {
		return (&fences{parts: p}).setUp, nil
	}
	checks, err := newReconcilers(ctx, p)
	if err != nil {
		return nil, err
	}
	return checks.setUp, nil
}

// connect connects workload clusters, once Cluster API is served.
func (p *parts) connect(ctx context.Context, clusterAPI bool) error {
	if !clusterAPI || p.connected {
		return nil
	}
	err := p.clusters.Connect(ctx, p.mgr, workload.Options{
		UserAgent: p.mgr.GetConfig().UserAgent, SyncPeriod: p.settings.SyncPeriod, OnStandby: p.settings.Gates.Enabled(features.WarmStandby),
		QPS: p.settings.WorkloadQPS, Burst: p.settings.WorkloadBurst, RefuseInsecure: p.settings.InsecureKubeconfigs == settings.Refuse,
	})
	p.connected = err == nil
	return errors.Wrap(err, "failed to connect workload clusters")
}

// reconcilers are those of all kinds of checks.
type reconcilers struct {
	*parts
	environment *healthcheck.Environment
	kinds       []controllers.Kind
	// notReconciled reports on checks that no other reconciler reconciles.
	notReconciled *controllers.NotReconciled
}

func newReconcilers(ctx context.Context, p *parts) (*reconcilers, error) {
	mgr, s := p.mgr, p.settings
	remediationRequests, err := requests.New(ctx, requests.Options{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Config: mgr.GetConfig(), Clock: clock.RealClock{}, Namespace: s.WatchNamespace,
	})
	if err != nil {
		return nil, errors.Wrap(err, "failed to set up the remediation requests")
	}
	e := &healthcheck.Environment{
		Cache: mgr.GetCache(), Live: mgr.GetAPIReader(), Client: mgr.GetClient(), Clusters: p.clusters, Requests: remediationRequests,
		Events: p.events, Metrics: p.metrics, Clock: clock.RealClock{},
		Observe: s.Mode == settings.Observe, WatchFilter: s.WatchFilter, Namespace: s.WatchNamespace,
	}
	kinds := controllers.Reconcilers(e, intree.AdoptionPolicy{
		OptIn: s.InTreeChecks == settings.OptIn, All: s.InTreeChecks == settings.All, Replace: s.InTreeChecks == settings.Replace,
	})
	e.NoClusterAPI.Store(true)
	return &reconcilers{parts: p, environment: e, kinds: kinds, notReconciled: &controllers.NotReconciled{Environment: e}}, nil
}

func (r *reconcilers) setUp(ctx context.Context, clusterAPI bool) error {
	if clusterAPI {
		r.environment.NoClusterAPI.Store(false)
	}
	kinds := slices.DeleteFunc(slices.Clone(r.kinds), func(kind controllers.Kind) bool { return kind.NeedsClusterAPI && !clusterAPI })
	if err := clusterapi.OwnKinds(r.api, "machinehealthchecks", "nodehealthchecks"); err != nil {
		return err
	}
	if err := r.notReconciled.SetupWithManager(r.mgr); err != nil {
		return err
	}
	if err := r.connect(ctx, clusterAPI); err != nil {
		return err
	}
	for _, kind := range kinds {
		if err := kind.SetupWithManager(ctx, r.mgr); err != nil {
			return err
		}
	}
	return nil
}

// fences are the controllers of fencing. Without Cluster API, they fence Nodes of their own cluster.
type fences struct {
	*parts
	reconcilers fencingsetup.Reconcilers
}

func (f *fences) setUp(ctx context.Context, clusterAPI bool) error {
	if err := clusterapi.OwnKinds(f.api, "nodefences", "fenceprofiles"); err != nil {
		return err
	}
	if err := f.connect(ctx, clusterAPI); err != nil {
		return err
	}
	return f.reconcilers.SetUp(f.mgr, f.api, fencing.Options{
		Clusters: f.clusters, Events: f.events, Clock: clock.RealClock{}, Observe: f.settings.Mode == settings.Observe,
		WatchFilter: f.settings.WatchFilter, OwnNodesNamespace: f.settings.OwnNodesNamespace,
	})
}

// leaseHolder reads live which instance leads, because a cache would hide a missing permission.
func leaseHolder(reader client.Reader, s *settings.Settings) func(ctx context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		lease := &coordinationv1.Lease{}
		err := reader.Get(ctx, client.ObjectKey{Namespace: s.LeaderElection.Namespace, Name: s.LeaseName()}, lease)
		return ptr.Deref(lease.Spec.HolderIdentity, ""), client.IgnoreNotFound(err)
	}
}
