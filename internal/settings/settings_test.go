// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package settings_test

import (
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"pgregory.net/rapid"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/settings"
)

func parse(t *testing.T, args ...string) (*settings.Settings, error) {
	t.Helper()
	if os.Getenv("POD_NAMESPACE") == "" {
		t.Setenv("POD_NAMESPACE", "remedy-system")
	}
	fs := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	s, err := settings.New(fs)
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	return s, s.Parse(fs, args)
}

func TestSettings_Defaults_AreValid(t *testing.T) {
	g := NewWithT(t)
	s, err := parse(t)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(s.Mode).To(Equal(settings.Enforce))
	g.Expect(s.InTreeChecks).To(Equal(settings.OptIn))
	g.Expect(s.Logging.Verbosity).To(BeEquivalentTo(2))
}

func TestSettings_FlagsOfClusterAPI_Exist(t *testing.T) {
	g := NewWithT(t)
	fs := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	_, err := settings.New(fs)
	g.Expect(err).ToNot(HaveOccurred())
	for _, flag := range []string{
		"namespace", "watch-filter", "sync-period", "kube-api-qps", "kube-api-burst", "feature-gates", "logging-format", "v",
		"clustercache-client-qps", "clustercache-client-burst",
		"leader-elect", "leader-elect-lease-duration", "leader-elect-renew-deadline", "leader-elect-retry-period",
		"health-addr", "profiler-address", "contention-profiling", "diagnostics-address", "insecure-diagnostics",
		"tls-min-version", "tls-cipher-suites", "machinehealthcheck-concurrency", "nodehealthcheck-concurrency",
		"in-tree-machinehealthchecks", "insecure-kubeconfigs", "medik8s-lease-namespace", "mode", "controllers", "own-nodes-namespace",
	} {
		g.Expect(fs.Lookup(flag)).ToNot(BeNil(), flag)
	}
}

func TestSettings_ValidFlags_AreAccepted(t *testing.T) {
	for _, arg := range []string{
		"--mode=Enforce", "--mode=Observe",
		"--in-tree-machinehealthchecks=Ignore", "--in-tree-machinehealthchecks=OptIn",
		"--in-tree-machinehealthchecks=All", "--in-tree-machinehealthchecks=Replace",
		"--insecure-kubeconfigs=Allow", "--insecure-kubeconfigs=Refuse",
		"--health-addr=0", "--diagnostics-address=0", "--profiler-address=", "--profiler-address=:6060",
		"--feature-gates=WarmStandby=true", "--logging-format=json",
	} {
		_, err := parse(t, arg)
		NewWithT(t).Expect(err).ToNot(HaveOccurred(), arg)
	}
}

func TestSettings_InvalidFlag_IsExplained(t *testing.T) {
	tests := []struct {
		reason string
		args   []string
		says   []string
	}{
		{"a mode that does not exist", []string{"--mode=observe"}, []string{"must be one of Enforce, Observe"}},
		{"an unknown choice", []string{"--in-tree-machinehealthchecks=None"}, []string{"must be one of Ignore, OptIn, All, Replace"}},
		{"an unknown answer", []string{"--insecure-kubeconfigs=Deny"}, []string{"must be one of Allow, Refuse"}},
		{"an unknown gate", []string{"--feature-gates=Fencing=true"}, []string{"unrecognized feature gate: Fencing"}},
		{"controllers that do not exist", []string{"--controllers=all"}, []string{"must be one of checks, fencing"}},
		{"fencing without its gate", []string{"--controllers=fencing"}, []string{"alpha feature", "--feature-gates=NodeFencing=true"}},
		{"no namespace", []string{"--own-nodes-namespace=A"}, []string{`--own-nodes-namespace="A"`, "must be the name of a namespace"}},
		{"no resync", []string{"--sync-period=0s"}, []string{"--sync-period=0s", "at least 1s"}},
		{"no worker", []string{"--machinehealthcheck-concurrency=0"}, []string{"--machinehealthcheck-concurrency=0", "at least 1"}},
		{"no worker", []string{"--nodehealthcheck-concurrency=-1"}, []string{"--nodehealthcheck-concurrency=-1", "at least 1"}},
		{"no queries", []string{"--kube-api-qps=0"}, []string{"--kube-api-qps=0", "above 0"}},
		{"not a number", []string{"--kube-api-qps=NaN"}, []string{"--kube-api-qps=NaN", "a number above 0"}},
		{
			"an address that the system would choose",
			[]string{"--diagnostics-address="},
			[]string{`--diagnostics-address=""`, "0 to serve nothing"},
		},
		{"a TLS version that does not exist", []string{"--tls-min-version=TLS9"}, []string{"--tls-min-version", "TLS9"}},
		{"a cipher that does not exist", []string{"--tls-cipher-suites=FOO"}, []string{"--tls-cipher-suites", "FOO"}},
		{"no burst", []string{"--kube-api-burst=0"}, []string{"--kube-api-burst=0", "at least 1"}},
		{"no queries of workload clusters", []string{"--clustercache-client-qps=0"}, []string{"--clustercache-client-qps=0", "above 0"}},
		{"no burst to workload clusters", []string{"--clustercache-client-burst=0"}, []string{"--clustercache-client-burst=0", "at least 1"}},
		{"two namespaces in one flag", []string{"--namespace=a,b"}, []string{`--namespace="a,b"`, "must be the name of one namespace"}},
		{"no namespace of Leases", []string{"--medik8s-lease-namespace="}, []string{`--medik8s-lease-namespace=""`, "the name of a namespace"}},
		{"no label value", []string{"--watch-filter=a b"}, []string{`--watch-filter="a b"`, "must be the value of a label"}},
		{"an address without a port", []string{"--health-addr=localhost"}, []string{`--health-addr="localhost"`, "host:port"}},
		{"a port that does not exist", []string{"--diagnostics-address=:99999"}, []string{"--diagnostics-address", "host:port"}},
		{
			"a deadline that is longer than the lease",
			[]string{"--leader-elect", "--leader-elect-renew-deadline=20s"},
			[]string{"--leader-elect-lease-duration=15s", "two instances could be the leader"},
		},
		{
			"no second try",
			[]string{"--leader-elect", "--leader-elect-retry-period=10s"},
			[]string{"--leader-elect-renew-deadline=10s", "1.2 times"},
		},
		{
			"a retry without a pause",
			[]string{"--leader-elect", "--leader-elect-retry-period=0"},
			[]string{"--leader-elect-retry-period=0s", "above 0"},
		},
		{"several errors are all reported", []string{"--sync-period=0", "--kube-api-burst=-1"}, []string{"--sync-period", "--kube-api-burst"}},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			_, err := parse(t, test.args...)
			for _, words := range test.says {
				NewWithT(t).Expect(err).To(MatchError(ContainSubstring(words)), "%v", test.args)
			}
		})
	}
}

// The manager prints a line for each error of the aggregate.
func TestSettings_AllErrors_AreReturned(t *testing.T) {
	tests := []struct {
		name   string
		args   []string
		errors []string
	}{
		{
			"errors of all kinds",
			[]string{
				"--in-tree-machinehealthchecks=Foo", "--machinehealthcheck-concurrency=abc", "--unknown=1", "--sync-period", "soon",
				"--kube-api-qps=", "--leader-elect=perhaps", "--mode", "Observe", "--kube-api-burst=0", "--logging-format=yaml", "left",
				"--feature-gates=Fencing=true",
			},
			[]string{
				"--in-tree-machinehealthchecks=Foo: must be one of Ignore, OptIn, All, Replace",
				"--machinehealthcheck-concurrency=abc: must be an integer",
				"unknown flag: --unknown",
				"--sync-period=soon: must be a duration, for example 15m or 30s",
				`--kube-api-qps="": must be a number`,
				"--leader-elect=perhaps: must be true or false",
				`unexpected argument "left": set flags as --flag=value`,
				"--feature-gates=Fencing=true: unrecognized feature gate: Fencing",
				"--kube-api-burst=0: must be at least 1",
				`--logging-format: Invalid value: "yaml": Unsupported log format`,
			},
		},
		{"unknown flag with a value", []string{"--unknown", "1", "--kube-api-burst=0"}, []string{
			"unknown flag: --unknown", "--kube-api-burst=0: must be at least 1",
		}},
		{"unknown shorthand", []string{"-x"}, []string{"unknown shorthand flag: 'x' in -x"}},
		{"no value", []string{"--sync-period"}, []string{"flag needs an argument: --sync-period"}},
		{"bad syntax", []string{"---sync-period=1m"}, []string{"bad flag syntax: ---sync-period=1m"}},
		{"terminator", []string{"--", "--mode=Observe"}, []string{`unexpected argument "--mode=Observe": set flags as --flag=value`}},
		{
			"default is not compared",
			[]string{"--leader-elect", "--leader-elect-lease-duration=long", "--leader-elect-renew-deadline=20s"},
			[]string{"--leader-elect-lease-duration=long: must be a duration, for example 15m or 30s"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := parse(t, test.args...)
			var all utilerrors.Aggregate
			g.Expect(errors.As(err, &all)).To(BeTrue())
			lines := make([]string, 0, len(all.Errors()))
			for _, each := range all.Errors() {
				lines = append(lines, each.Error())
			}
			g.Expect(lines).To(Equal(test.errors))
		})
	}
}

func TestSettings_ValueAsNextArgument_IsParsed(t *testing.T) {
	g := NewWithT(t)
	s, err := parse(t, "--mode", "Observe", "-v", "4", "--leader-elect", "--sync-period", "3m", "--")
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(s.Mode).To(Equal(settings.Observe))
	g.Expect(s.Logging.Verbosity).To(BeEquivalentTo(4))
	g.Expect(s.LeaderElection.Enabled).To(BeTrue())
	g.Expect(s.SyncPeriod).To(Equal(3 * time.Minute))
}

func TestSettings_Help_IsNoError(t *testing.T) {
	_, err := parse(t, "--kube-api-burst=0", "--help")
	NewWithT(t).Expect(err).To(MatchError(pflag.ErrHelp))
}

func TestManagerOptions_Flags_AreSet(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("POD_NAMESPACE", "remedy-system")
	s, err := parse(t, "--leader-elect", "--namespace=team-a", "--sync-period=3m", "--profiler-address=:6060",
		"--machinehealthcheck-concurrency=7", "--nodehealthcheck-concurrency=8", "--feature-gates=WarmStandby=true",
		"--diagnostics-address=:9999", "--insecure-diagnostics")
	g.Expect(err).ToNot(HaveOccurred())
	options, err := s.ManagerOptions(runtime.NewScheme())
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(options.LeaderElection).To(BeTrue())
	g.Expect(options.LeaderElectionReleaseOnCancel).To(BeTrue())
	g.Expect(options.LeaderElectionNamespace).To(Equal("remedy-system"))
	g.Expect(*options.LeaseDuration).To(Equal(15 * time.Second))
	g.Expect(options.Cache.DefaultNamespaces).To(HaveKey("team-a"))
	g.Expect(*options.Cache.SyncPeriod).To(Equal(3 * time.Minute))
	g.Expect(options.PprofBindAddress).To(Equal(":6060"))
	g.Expect(options.Metrics.BindAddress).To(Equal(":9999"))
	g.Expect(options.Metrics.SecureServing).To(BeFalse())
	g.Expect(options.Controller.GroupKindConcurrency).To(Equal(map[string]int{
		"MachineHealthCheck.remedy.cluster.x-k8s.io": 7, "MachineHealthCheck.cluster.x-k8s.io": 7, "NodeHealthCheck.remedy.cluster.x-k8s.io": 8,
	}))
	g.Expect(*options.Controller.EnableWarmup).To(BeTrue())
	g.Expect(*options.Controller.UsePriorityQueue).To(BeFalse())
}

func TestSettings_LeaderElection_NeedsNamespace(t *testing.T) {
	g := NewWithT(t)
	s, err := parse(t, "--leader-elect")
	g.Expect(err).ToNot(HaveOccurred())
	s.LeaderElection.Namespace = ""
	g.Expect(s.Validate()).To(MatchError(ContainSubstring("set the environment variable POD_NAMESPACE")))
}

// Both sets of controllers can run in one namespace.
func TestManagerOptions_Controllers_HaveLeases(t *testing.T) {
	for _, test := range []struct{ lease, arg string }{
		{"controller-leader-election-remedy", "--controllers=checks"},
		{"controller-leader-election-remedy-fencing", "--controllers=fencing"},
	} {
		g := NewWithT(t)
		s, err := parse(t, "--feature-gates=NodeFencing=true", test.arg)
		g.Expect(err).ToNot(HaveOccurred())
		options, err := s.ManagerOptions(runtime.NewScheme())
		g.Expect(err).ToNot(HaveOccurred())
		g.Expect(options.LeaderElectionID).To(Equal(test.lease))
		g.Expect(s.OwnNodesNamespace).To(Equal("remedy-system"), "that of the manager")
	}
}

// Two instances never lead at once: the leader that cannot renew the Lease exits before another one acquires it, after several retries.
func TestSettings_AcceptedLeaseTimes_AreSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := func(name string) time.Duration {
			return time.Duration(rapid.Int64Range(-int64(time.Second), int64(time.Minute)).Draw(t, name))
		}
		fs := pflag.NewFlagSet("manager", pflag.ContinueOnError)
		s, err := settings.New(fs)
		if err != nil {
			t.Fatal(err)
		}
		s.LeaderElection = settings.LeaderElection{
			Enabled: true, Namespace: "remedy-system",
			LeaseDuration: times("lease"), RenewDeadline: times("renew"), RetryPeriod: times("retry"),
		}
		l := s.LeaderElection
		// client-go has the same rules, and exits with an error that does not name the flags.
		safe := l.LeaseDuration > l.RenewDeadline && float64(l.RenewDeadline) > 1.2*float64(l.RetryPeriod) && l.RetryPeriod > 0 &&
			l.LeaseDuration >= time.Second
		if accepted := s.Validate() == nil; accepted != safe {
			t.Fatalf("accepted %v, safe %v: %+v", accepted, safe, l)
		}
	})
}
