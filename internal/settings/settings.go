// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package settings holds everything that can be set when the manager is started: the flags, what they mean, and which values make sense.
package settings

import (
	"os"
	"strings"
	"time"

	"github.com/pkg/errors"
	"github.com/spf13/pflag"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsv1 "k8s.io/component-base/logs/api/v1"
	"sigs.k8s.io/cluster-api/util/flags"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/features"
)

// Mode is how far the manager may go.
type Mode string

// The modes. A check can ask for less than the manager's mode, never for more.
const (
	// Enforce remediates.
	Enforce Mode = "Enforce"
	// Observe computes and reports everything, and does nothing.
	Observe Mode = "Observe"
)

// CoreChecks is what happens to Cluster API's own MachineHealthChecks.
type CoreChecks string

// The ways to treat Cluster API's own MachineHealthChecks.
const (
	// Ignore leaves them to Cluster API.
	Ignore CoreChecks = "Ignore"
	// Annotated takes care of those that ask for it, by an annotation on the check or on its Cluster.
	Annotated CoreChecks = "Annotated"
	// All takes care of all of them.
	All CoreChecks = "All"
	// Exclusive takes care of all of them, where Cluster API's own controller does not run.
	Exclusive CoreChecks = "Exclusive"
)

// Settings is what the flags say. Validate tells whether it makes sense.
type Settings struct {
	Mode       Mode
	CoreChecks CoreChecks

	WatchNamespace string
	WatchFilter    string
	SyncPeriod     time.Duration

	QPS                           float32
	Burst                         int
	MachineHealthCheckConcurrency int
	NodeHealthCheckConcurrency    int

	LeaderElection LeaderElection

	HealthAddress       string
	ProfilerAddress     string
	ContentionProfiling bool

	Diagnostics flags.ManagerOptions
	Logging     *logs.Options
	Gates       featuregate.MutableFeatureGate
}

// LeaderElection decides which of several instances acts.
type LeaderElection struct {
	Enabled bool
	// Namespace is where the Lease is: our own, by POD_NAMESPACE or by what a cluster puts into every pod.
	Namespace     string
	LeaseDuration time.Duration
	RenewDeadline time.Duration
	RetryPeriod   time.Duration
}

// New returns the defaults, bound to flags in the set.
func New(fs *pflag.FlagSet) (*Settings, error) {
	gates, err := features.New()
	if err != nil {
		return nil, err
	}
	s := &Settings{Logging: logs.NewOptions(), Gates: gates, LeaderElection: LeaderElection{Namespace: ownNamespace()}}
	logsv1.AddFlags(s.Logging, fs)
	// As in every Cluster API provider; decisions are logged at every level.
	if err := fs.Set("v", "2"); err != nil {
		return nil, errors.Wrap(err, "failed to set the default log level")
	}
	s.addProductFlags(fs)
	s.addProviderFlags(fs)
	s.addLeaderElectionFlags(fs)
	flags.AddManagerOptions(fs, &s.Diagnostics)
	gates.AddFlag(fs)
	return s, nil
}

// namespaceFile is what a cluster puts into every pod.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// ownNamespace is the namespace that this process runs in, or empty if it does not run in a cluster and was not told.
func ownNamespace() string {
	if told := os.Getenv("POD_NAMESPACE"); told != "" {
		return told
	}
	content, err := os.ReadFile(namespaceFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}
