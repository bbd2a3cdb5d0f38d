// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package settings_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/settings"
)

func parse(t *testing.T, args ...string) (*settings.Settings, error) {
	t.Helper()
	fs := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	s, err := settings.New(fs)
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	return s, s.Validate()
}

func TestTheDefaultsMakeSense(t *testing.T) {
	g := NewWithT(t)
	s, err := parse(t)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(s.Mode).To(Equal(settings.Enforce))
	g.Expect(s.CoreChecks).To(Equal(settings.Annotated))
	g.Expect(s.Logging.Verbosity).To(BeEquivalentTo(2))
}

func TestEveryFlagThatAClusterAPIUserKnowsIsThere(t *testing.T) {
	g := NewWithT(t)
	fs := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	_, err := settings.New(fs)
	g.Expect(err).ToNot(HaveOccurred())
	for _, flag := range []string{
		"namespace", "watch-filter", "sync-period", "kube-api-qps", "kube-api-burst", "feature-gates", "logging-format", "v",
		"leader-elect", "leader-elect-lease-duration", "leader-elect-renew-deadline", "leader-elect-retry-period",
		"health-addr", "profiler-address", "contention-profiling", "diagnostics-address", "insecure-diagnostics",
		"tls-min-version", "tls-cipher-suites", "machinehealthcheck-concurrency", "nodehealthcheck-concurrency",
		"core-machinehealthchecks", "mode",
	} {
		g.Expect(fs.Lookup(flag)).ToNot(BeNil(), flag)
	}
}

func TestEveryChoiceIsAccepted(t *testing.T) {
	for _, arg := range []string{
		"--mode=Enforce", "--mode=Observe",
		"--core-machinehealthchecks=Ignore", "--core-machinehealthchecks=Annotated", "--core-machinehealthchecks=All", "--core-machinehealthchecks=Exclusive",
		"--health-addr=0", "--health-addr=", "--profiler-address=:6060", "--feature-gates=WarmStandby=true", "--logging-format=json",
	} {
		_, err := parse(t, arg)
		NewWithT(t).Expect(err).ToNot(HaveOccurred(), arg)
	}
}

func TestAWrongFlagIsRefusedWithWhatToDo(t *testing.T) {
	tests := []struct {
		reason string
		args   []string
		says   []string
	}{
		{"a mode that does not exist", []string{"--mode=observe"}, []string{"must be one of Enforce, Observe"}},
		{"an unknown choice", []string{"--core-machinehealthchecks=None"}, []string{"must be one of Ignore, Annotated, All, Exclusive"}},
		{"an unknown gate", []string{"--feature-gates=Fencing=true"}, []string{"unrecognized feature gate: Fencing"}},
		{"never looking again", []string{"--sync-period=0s"}, []string{"--sync-period=0s", "at least 1s"}},
		{"no worker", []string{"--machinehealthcheck-concurrency=0"}, []string{"--machinehealthcheck-concurrency=0", "at least 1"}},
		{"no worker", []string{"--nodehealthcheck-concurrency=-1"}, []string{"--nodehealthcheck-concurrency=-1", "at least 1"}},
		{"no queries", []string{"--kube-api-qps=0"}, []string{"--kube-api-qps=0", "above 0"}},
		{"no burst", []string{"--kube-api-burst=0"}, []string{"--kube-api-burst=0", "at least 1"}},
		{"two namespaces in one flag", []string{"--namespace=a,b"}, []string{`--namespace="a,b"`, "not a namespace"}},
		{"no label value", []string{"--watch-filter=a b"}, []string{`--watch-filter="a b"`, "not the value of a label"}},
		{"an address without a port", []string{"--health-addr=localhost"}, []string{`--health-addr="localhost"`, "host:port"}},
		{"a port that does not exist", []string{"--diagnostics-address=:99999"}, []string{"--diagnostics-address", "host:port"}},
		{"a lead that outlasts its lease", []string{"--leader-elect", "--leader-elect-renew-deadline=20s"}, []string{"--leader-elect-lease-duration=15s", "two instances could lead"}},
		{"no second try", []string{"--leader-elect", "--leader-elect-retry-period=10s"}, []string{"--leader-elect-renew-deadline=10s", "1.2 times"}},
		{"a retry without a pause", []string{"--leader-elect", "--leader-elect-retry-period=0"}, []string{"--leader-elect-retry-period=0s", "above 0"}},
		{"several mistakes are all told", []string{"--sync-period=0", "--kube-api-burst=-1"}, []string{"--sync-period", "--kube-api-burst"}},
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

func TestTheSettingsReachControllerRuntime(t *testing.T) {
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
		"MachineHealthCheck.remedy.cluster.x-k8s.io": 7, "NodeHealthCheck.remedy.cluster.x-k8s.io": 8,
	}))
	g.Expect(*options.Controller.EnableWarmup).To(BeTrue())
}
