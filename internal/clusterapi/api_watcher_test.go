// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterapi_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/clusterapi"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// api answers as an API server does. The embedded interface is nil, so other requests panic.
type api struct {
	clusterapi.Discoverer
	mu       sync.Mutex
	versions map[string][]string
	failure  error
	asked    int
}

func (a *api) set(versions map[string][]string, failure error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.versions, a.failure = versions, failure
}

func (a *api) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked
}

func (a *api) ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked++
	if a.failure != nil {
		return nil, a.failure
	}
	gv, err := schema.ParseGroupVersion(groupVersion)
	if err != nil {
		return nil, err
	}
	resources, found := a.versions[gv.Version]
	if !found {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: gv.Group}, "")
	}
	list := &metav1.APIResourceList{}
	for _, name := range resources {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
	}
	return list, nil
}

func (a *api) ServerGroups() (*metav1.APIGroupList, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failure != nil {
		return nil, a.failure
	}
	list := &metav1.APIGroupList{Groups: []metav1.APIGroup{{Name: "apps"}}}
	if len(a.versions) > 0 {
		group := metav1.APIGroup{Name: "cluster.x-k8s.io"}
		for served := range a.versions {
			group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{Version: served})
		}
		list.Groups = append(list.Groups, group)
	}
	return list, nil
}

var (
	complete = map[string][]string{"v1beta2": {
		"clusters", "machines", "machines/status", "machinesets", "machinedeployments", "machinehealthchecks",
	}}
	old     = map[string][]string{"v1beta1": {"clusters", "machines"}}
	partial = map[string][]string{"v1beta2": {"clusters", "machinesets", "machinedeployments", "machinehealthchecks"}}
)

func TestDetect_ServedResources_AvailabilityOrWhy(t *testing.T) {
	tests := []struct {
		reason   string
		versions map[string][]string
		served   bool
		why      string
	}{
		{"all resources are served", complete, true, ""},
		{"no Cluster API", nil, false, "not installed here"},
		{"an old Cluster API", old, false, "serves v1beta1 only, cluster.x-k8s.io/v1beta2 is needed"},
		{"an incomplete installation", partial, false, "does not serve machines in cluster.x-k8s.io/v1beta2"},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			g := NewWithT(t)
			detected, err := clusterapi.Detect(&api{versions: test.versions})
			g.Expect(err).ToNot(HaveOccurred())
			g.Expect(detected.Served).To(Equal(test.served))
			g.Expect(detected.Why).To(ContainSubstring(test.why))
			g.Expect(detected.Why == "").To(Equal(test.served))
		})
	}
	t.Run("a failed request", func(t *testing.T) {
		_, err := clusterapi.Detect(&api{versions: complete, failure: errors.New("connection refused")})
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring("connection refused")))
	})
}

// testWatcher is an APIWatcher with a fake clock.
type testWatcher struct {
	*clusterapi.APIWatcher
	api      *api
	clock    *clocktesting.FakeClock
	appeared int
	refuse   error
	mu       sync.Mutex
	lines    []string
}

func newTestWatcher(t *testing.T) *testWatcher {
	t.Helper()
	w := &testWatcher{api: &api{}, clock: clocktesting.NewFakeClock(time.Unix(0, 0))}
	log := funcr.New(func(_, line string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.lines = append(w.lines, line)
	}, funcr.Options{})
	w.APIWatcher = &clusterapi.APIWatcher{
		Name: "machinehealthcheck", What: "MachineHealthChecks", API: w.api, Clock: w.clock, Log: logr.New(log.GetSink()), SetUp: w.setUp,
	}
	return w
}

func (w *testWatcher) setUp(_ context.Context, served bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if served {
		w.appeared++
	}
	return w.refuse
}

func (w *testWatcher) setRefuse(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse = err
}

func (w *testWatcher) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		NewWithT(t).Expect(<-done).To(Succeed())
	})
	NewWithT(t).Eventually(w.api.count).Should(Equal(1))
	NewWithT(t).Eventually(w.clock.HasWaiters).Should(BeTrue())
}

func (w *testWatcher) nextDiscovery(g Gomega) {
	before := w.api.count()
	w.clock.Step(30 * time.Second)
	g.Eventually(w.api.count).Should(Equal(before + 1))
}

func (w *testWatcher) detail() string {
	detail, err := w.Check().Probe(context.Background())
	if err != nil {
		return "failed: " + err.Error()
	}
	return detail
}

func (w *testWatcher) timesAppeared() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.appeared
}

func (w *testWatcher) logged() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string{}, w.lines...)
}

func TestAPIWatcher_BeforeFirstDiscovery_ProbeFails(t *testing.T) {
	NewWithT(t).Expect(newTestWatcher(t).detail()).To(Equal("failed: Cluster API has not been detected yet"))
}

func TestAPIWatcher_InstallUpgradeRemove_ProbeFollows(t *testing.T) {
	g := NewWithT(t)
	w := newTestWatcher(t)
	w.start(t)
	g.Eventually(w.detail).Should(HavePrefix("off: Cluster API is not installed here"))

	w.api.set(old, nil)
	w.nextDiscovery(g)
	g.Eventually(w.detail).Should(ContainSubstring("upgrade its core provider"))

	w.api.set(complete, nil)
	w.nextDiscovery(g)
	g.Eventually(w.detail).Should(Equal("on"))

	w.api.set(nil, errors.New("connection refused"))
	w.nextDiscovery(g)
	g.Eventually(w.logged).Should(HaveLen(4))
	g.Expect(w.detail()).To(Equal("on (the last discovery failed)"),
		"a failed discovery does not change the result")

	w.api.set(nil, nil)
	w.nextDiscovery(g)
	g.Eventually(w.detail).Should(HavePrefix("off: "))

	w.api.set(complete, nil)
	w.nextDiscovery(g)
	g.Eventually(w.detail).Should(Equal("on"))
	g.Eventually(w.logged).Should(HaveLen(6))
}

func TestAPIWatcher_UnchangedResult_IsLoggedOnce(t *testing.T) {
	g := NewWithT(t)
	w := newTestWatcher(t)
	w.start(t)
	for range 5 {
		w.nextDiscovery(g)
	}
	g.Consistently(w.logged, "50ms").Should(HaveLen(1))
	g.Expect(w.logged()[0]).To(ContainSubstring("not installed here"))
}

// At first, and again when the custom resource definitions of the checks are deleted while the manager runs, and applied again.
func TestAPIWatcher_SetupFails_IsRetried(t *testing.T) {
	g := NewWithT(t)
	w := newTestWatcher(t)
	w.api.set(complete, nil)
	w.refuse = errors.New("no watch yet")
	w.start(t)
	g.Eventually(w.detail).Should(Equal("failed: no watch yet"))
	w.setRefuse(nil)
	w.nextDiscovery(g)
	g.Eventually(w.detail).Should(Equal("on"))
	g.Expect(w.timesAppeared()).To(Equal(2))

	w.setRefuse(errors.New("machinehealthchecks are not served"))
	w.nextDiscovery(g)
	g.Eventually(w.detail).Should(Equal("failed: machinehealthchecks are not served"))
	// A discovery begins when the one before it was logged.
	w.nextDiscovery(g)
	w.nextDiscovery(g)
	w.setRefuse(nil)
	w.nextDiscovery(g)
	g.Eventually(w.detail).Should(Equal("on"))
	w.nextDiscovery(g)
	g.Expect(w.logged()).To(HaveLen(4), "the same failure is logged once")
}

func TestAPIWatcher_HungAPIServer_StopsWithContext(t *testing.T) {
	g := NewWithT(t)
	w := newTestWatcher(t)
	w.API = hung{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Start(ctx) }()
	cancel()
	g.Eventually(done, time.Minute).Should(Receive(BeNil()))
	_, err := clusterapi.ServerVersion(ctx, hung{}, w.clock, logr.Discard())
	g.Expect(err).To(MatchError(context.Canceled))
}

// away is an API server that cannot be reached for some attempts.
type away struct{ attempts int }

func (a *away) ServerVersion() (*version.Info, error) {
	if a.attempts--; a.attempts < 0 {
		return &version.Info{}, nil
	}
	return nil, errors.New("connection refused")
}

// impatient is a clock that does not wait.
type impatient struct{ *clocktesting.FakeClock }

func (c impatient) After(d time.Duration) <-chan time.Time {
	after := c.FakeClock.After(d)
	c.Step(d)
	return after
}

func TestServerVersion_APIServerAway_IsRetriedForAWhile(t *testing.T) {
	for attempts, succeeds := range map[int]bool{5: true, 1000: false} {
		g := NewWithT(t)
		timer := impatient{clocktesting.NewFakeClock(time.Unix(0, 0))}
		_, err := clusterapi.ServerVersion(t.Context(), &away{attempts}, timer, logr.Discard())
		g.Expect(err == nil).To(Equal(succeeds))
		g.Expect(timer.Since(time.Unix(0, 0))).To(BeNumerically("<", 2*time.Minute))
	}
}

// hung is an API server that never answers.
type hung struct{ clusterapi.Discoverer }

func (hung) ServerResourcesForGroupVersion(string) (*metav1.APIResourceList, error) { select {} }
func (hung) ServerVersion() (*version.Info, error)                                  { select {} }

func TestAPIWatcher_Standby_RunsToo(t *testing.T) {
	NewWithT(t).Expect(newTestWatcher(t).NeedLeaderElection()).To(BeFalse())
}
