// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package settings defines and validates the flags of the manager.
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
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	"sigs.k8s.io/cluster-api/util/flags"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/features"
)

// Mode is the mode of the manager. A check can be set to Observe where the manager enforces; the reverse has no effect.
type Mode string

// The modes.
const (
	// Enforce remediates.
	Enforce Mode = "Enforce"
	// Observe computes and reports everything, and remediates nothing.
	Observe Mode = "Observe"
)

// Controllers selects which controllers a process runs.
type Controllers string

// The sets of controllers.
const (
	// Checks are the controllers of MachineHealthChecks and NodeHealthChecks.
	Checks Controllers = "checks"
	// Fencing is the controller of NodeFences.
	Fencing Controllers = "fencing"
)

// InTreeChecks selects which in-tree MachineHealthChecks are adopted.
type InTreeChecks string

// The selections.
const (
	// Ignore adopts none.
	Ignore InTreeChecks = "Ignore"
	// OptIn adopts those with an annotation, and those that a topology generates for a Cluster with it.
	OptIn InTreeChecks = "OptIn"
	// All adopts all of them.
	All InTreeChecks = "All"
	// Replace adopts all of them, where the in-tree controller does not run.
	Replace InTreeChecks = "Replace"
)

// InsecureKubeconfigs is what happens with insecure kubeconfigs of workload clusters.
type InsecureKubeconfigs string

const (
	// Allow connects, and reports what is insecure.
	Allow InsecureKubeconfigs = "Allow"
	// Refuse does not connect.
	Refuse InsecureKubeconfigs = "Refuse"
)

// Settings are the values of the flags. Parse parses and validates them.
type Settings struct {
	Mode         Mode
	Controllers  Controllers
	InTreeChecks InTreeChecks
	// InsecureKubeconfigs is what happens with insecure kubeconfigs of workload clusters.
	InsecureKubeconfigs InsecureKubeconfigs
	// NodeLeaseNamespace is that of the Leases of Nodes which operators of medik8s use.
	NodeLeaseNamespace string
	// OwnNodesNamespace is that of the NodeFences which can fence Nodes of the management cluster; empty for none.
	OwnNodesNamespace string

	WatchNamespace string
	WatchFilter    string
	SyncPeriod     time.Duration

	QPS                           float32
	Burst                         int
	WorkloadQPS                   float32
	WorkloadBurst                 int
	MachineHealthCheckConcurrency int
	NodeHealthCheckConcurrency    int

	LeaderElection LeaderElection

	HealthAddress       string
	ProfilerAddress     string
	ContentionProfiling bool

	Diagnostics flags.ManagerOptions
	Logging     *logs.Options
	Gates       featuregate.MutableFeatureGate

	// unparsed are the names of the flags whose values could not be parsed. They have their defaults, which are not compared with others.
	unparsed []string
}

// LeaderElection are the flags of leader election.
type LeaderElection struct {
	Enabled bool
	// Namespace is that of the Lease, from POD_NAMESPACE or from the ServiceAccount of the Pod.
	Namespace     string
	LeaseDuration time.Duration
	RenewDeadline time.Duration
	RetryPeriod   time.Duration
}

// New returns the defaults, and adds the flags to the set.
func New(fs *pflag.FlagSet) (*Settings, error) {
	gates, err := features.New()
	if err != nil {
		return nil, err
	}
	s := &Settings{Logging: logs.NewOptions(), Gates: gates, LeaderElection: LeaderElection{Namespace: ownNamespace()}}
	logsv1.AddFlags(s.Logging, fs)
	// The default of Cluster API providers. Decisions are logged at every level.
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

// namespaceFile exists in every Pod.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// ownNamespace is the namespace of this process; empty if it does not run in a Pod and POD_NAMESPACE is not set.
func ownNamespace() string {
	if namespace := os.Getenv("POD_NAMESPACE"); namespace != "" {
		return namespace
	}
	content, err := os.ReadFile(namespaceFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}
