// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// addProductFlags adds the flags that no other provider has.
func (s *Settings) addProductFlags(fs *pflag.FlagSet) {
	s.Mode, s.Controllers, s.InTreeChecks, s.InsecureKubeconfigs = Enforce, Checks, OptIn, Allow
	fs.Var(&choice[Mode]{value: &s.Mode, among: []Mode{Enforce, Observe}}, "mode",
		"Mode of the manager. Enforce remediates. Observe computes and reports everything, and remediates nothing. "+
			"A check can be set to Observe while this flag is Enforce; the reverse has no effect.")
	fs.Var(&choice[Controllers]{value: &s.Controllers, among: []Controllers{Checks, Fencing}}, "controllers",
		"Which controllers this process runs. checks: those of MachineHealthChecks and NodeHealthChecks. "+
			"fencing: that of NodeFences, which needs the feature gate NodeFencing.")
	fs.Var(&choice[InTreeChecks]{value: &s.InTreeChecks, among: []InTreeChecks{Ignore, OptIn, All, Replace}}, "in-tree-machinehealthchecks",
		fmt.Sprintf("Which in-tree MachineHealthChecks the manager adopts. Ignore: none. "+
			"OptIn: those with the annotation %s, and those that a topology generates for a Cluster with this annotation. "+
			"All: all of them. Replace: all of them, where the in-tree controller does not run.", remedyv1.AdoptAnnotation))
	fs.Var(&choice[InsecureKubeconfigs]{value: &s.InsecureKubeconfigs, among: []InsecureKubeconfigs{Allow, Refuse}}, "insecure-kubeconfigs",
		"What the manager does with an insecure kubeconfig of a workload cluster: one that has insecure-skip-tls-verify, "+
			"a server without https://, proxy-url or impersonation. Allow connects, and reports these fields in the condition "+
			"ClusterReachable. Refuse does not connect.")
	fs.StringVar(&s.NodeLeaseNamespace, "medik8s-lease-namespace", workload.NodeLeaseNamespace,
		"Namespace of the Leases of Nodes, in each cluster. If operators of medik8s run with the environment variable LEASE_NAMESPACE, "+
			"set its value.")
	fs.StringVar(&s.OwnNodesNamespace, "own-nodes-namespace", s.LeaderElection.Namespace,
		"With --controllers=fencing, the namespace whose NodeFences can fence Nodes of the management cluster. "+
			"By default, it is the namespace of the manager. If empty, no NodeFence can.")
}

// selection is a string flag for which * is the same as no value: a variable of clusterctl cannot have an empty default.
type selection string

// String returns the value.
func (s *selection) String() string { return string(*s) }

// Type is that of a string flag.
func (*selection) Type() string { return "string" }

// Set stores the value.
func (s *selection) Set(value string) error {
	*s = selection(value)
	if value == "*" {
		*s = ""
	}
	return nil
}

// addProviderFlags adds the flags that Cluster API and its providers have, too.
func (s *Settings) addProviderFlags(fs *pflag.FlagSet) {
	fs.Var((*selection)(&s.WatchNamespace), "namespace",
		"Namespace whose objects the manager reconciles. If unspecified or *, the manager reconciles the objects of all namespaces.")
	fs.Var((*selection)(&s.WatchFilter), "watch-filter",
		fmt.Sprintf("Value of the label %s that the objects to reconcile have. If unspecified or *, the label has no effect.",
			clusterv1.WatchLabel))
	fs.DurationVar(&s.SyncPeriod, "sync-period", 10*time.Minute,
		"How often the manager reconciles every object again, even if nothing has changed (e.g. 15m).")
	fs.Float32Var(&s.QPS, "kube-api-qps", 200,
		"Maximum queries per second to the Kubernetes API server of the management cluster.")
	fs.IntVar(&s.Burst, "kube-api-burst", 400,
		"Maximum queries in one burst to the Kubernetes API server of the management cluster.")
	fs.Float32Var(&s.WorkloadQPS, "clustercache-client-qps", 20,
		"Maximum queries per second to the Kubernetes API server of each workload cluster.")
	fs.IntVar(&s.WorkloadBurst, "clustercache-client-burst", 30,
		"Maximum queries in one burst to the Kubernetes API server of each workload cluster.")
	fs.IntVar(&s.MachineHealthCheckConcurrency, "machinehealthcheck-concurrency", 50,
		"Number of MachineHealthChecks to reconcile simultaneously.")
	fs.IntVar(&s.NodeHealthCheckConcurrency, "nodehealthcheck-concurrency", 50,
		"Number of NodeHealthChecks to reconcile simultaneously.")
	fs.StringVar(&s.HealthAddress, "health-addr", ":9440",
		"Address of the probes /healthz and /readyz; 0 serves none.")
	fs.StringVar(&s.ProfilerAddress, "profiler-address", "",
		"Address of a pprof profiler without authentication (e.g. localhost:6060). If unspecified, there is none. "+
			"The diagnostics address serves a profiler with authentication.")
	fs.BoolVar(&s.ContentionProfiling, "contention-profiling", false,
		"Whether the profiler reports where goroutines wait for each other.")
}

func (s *Settings) addLeaderElectionFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&s.LeaderElection.Enabled, "leader-elect", false,
		"Whether only one of several instances reconciles: the leader. A leader that stops releases the Lease at once.")
	fs.DurationVar(&s.LeaderElection.LeaseDuration, "leader-elect-lease-duration", 15*time.Second,
		"How long an instance remains the leader without renewing the Lease.")
	fs.DurationVar(&s.LeaderElection.RenewDeadline, "leader-elect-renew-deadline", 10*time.Second,
		"How long the leader retries to renew the Lease before it exits.")
	// A standby waits for 1 to 2.2 of these periods between two tries. With the 2s of other controllers, it acquires a released Lease up to
	// 4.4 seconds later.
	fs.DurationVar(&s.LeaderElection.RetryPeriod, "leader-elect-retry-period", time.Second,
		"How often instances try to acquire or to renew the Lease.")
}

// choice is a flag that has one of a few values.
type choice[T ~string] struct {
	value *T
	among []T
}

// String implements pflag.Value.
func (c *choice[T]) String() string { return string(*c.value) }

// Type implements pflag.Value.
func (c *choice[T]) Type() string { return "string" }

// Set implements pflag.Value.
func (c *choice[T]) Set(text string) error {
	if !slices.Contains(c.among, T(text)) {
		return fmt.Errorf("must be one of %s", strings.Trim(strings.ReplaceAll(fmt.Sprint(c.among), " ", ", "), "[]"))
	}
	*c.value = T(text)
	return nil
}
