// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// addProductFlags adds the flags that no other provider has.
func (s *Settings) addProductFlags(fs *pflag.FlagSet) {
	s.Mode, s.CoreChecks = Enforce, Annotated
	fs.Var(&choice[Mode]{value: &s.Mode, among: []Mode{Enforce, Observe}}, "mode",
		"How far every check may go: Enforce, or Observe: everything is computed and reported, and nothing is done. "+
			"A check can only ask for less than this.")
	fs.Var(&choice[CoreChecks]{value: &s.CoreChecks, among: []CoreChecks{Ignore, Annotated, All, Exclusive}}, "core-machinehealthchecks",
		"Which of Cluster API's own MachineHealthChecks to take care of: Ignore (none), Annotated (those with the take-over annotation on the check or on its Cluster), "+
			"All, or Exclusive (all, where Cluster API's own controller does not run).")
}

// addProviderFlags adds the flags that users know from Cluster API and its providers.
func (s *Settings) addProviderFlags(fs *pflag.FlagSet) {
	fs.StringVar(&s.WatchNamespace, "namespace", "",
		"Namespace whose objects are taken care of. If unspecified, those of all namespaces.")
	fs.StringVar(&s.WatchFilter, "watch-filter", "",
		fmt.Sprintf("Value of the label %s that an object must have to be taken care of. If unspecified, the label plays no role.", clusterv1.WatchLabel))
	fs.DurationVar(&s.SyncPeriod, "sync-period", 10*time.Minute,
		"How often every object is looked at again, even if nothing has changed (e.g. 15m).")
	fs.Float32Var(&s.QPS, "kube-api-qps", 100,
		"Maximum queries per second to the Kubernetes API server of the management cluster.")
	fs.IntVar(&s.Burst, "kube-api-burst", 200,
		"Maximum queries in one burst to the Kubernetes API server of the management cluster.")
	fs.IntVar(&s.MachineHealthCheckConcurrency, "machinehealthcheck-concurrency", 50,
		"Number of MachineHealthChecks to look at simultaneously.")
	fs.IntVar(&s.NodeHealthCheckConcurrency, "nodehealthcheck-concurrency", 50,
		"Number of NodeHealthChecks to look at simultaneously.")
	fs.StringVar(&s.HealthAddress, "health-addr", ":9440",
		"Address of the probes /healthz and /readyz.")
	fs.StringVar(&s.ProfilerAddress, "profiler-address", "",
		"Address of an unprotected pprof profiler (e.g. localhost:6060). The diagnostics address serves the profiler too, protected.")
	fs.BoolVar(&s.ContentionProfiling, "contention-profiling", false,
		"Let the profiler show where goroutines wait for each other.")
}

func (s *Settings) addLeaderElectionFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&s.LeaderElection.Enabled, "leader-elect", false,
		"Let only one of several instances act. The one that stops hands over at once.")
	fs.DurationVar(&s.LeaderElection.LeaseDuration, "leader-elect-lease-duration", 15*time.Second,
		"How long an instance that went silent keeps the lead.")
	fs.DurationVar(&s.LeaderElection.RenewDeadline, "leader-elect-renew-deadline", 10*time.Second,
		"How long the leader tries to renew its lead before it gives up.")
	fs.DurationVar(&s.LeaderElection.RetryPeriod, "leader-elect-retry-period", 2*time.Second,
		"How often instances try to take or to renew the lead.")
}

// choice is a flag that takes one of a few words, and says which if it gets another.
type choice[T ~string] struct {
	value *T
	among []T
}

// String is the word that was chosen.
func (c *choice[T]) String() string {
	if c.value == nil {
		return ""
	}
	return string(*c.value)
}

// Type is what the list of flags shows.
func (c *choice[T]) Type() string { return "string" }

// Set takes one of the words.
func (c *choice[T]) Set(text string) error {
	words := make([]string, 0, len(c.among))
	for _, word := range c.among {
		if string(word) == text {
			*c.value = word
			return nil
		}
		words = append(words, string(word))
	}
	return fmt.Errorf("must be one of %s", strings.Join(words, ", "))
}
