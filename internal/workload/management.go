// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ManagementAPI observes the answers of the API server of the management cluster: since when it can be reached, its clock, and whether this
// instance is the leader. It makes no request of its own: leader election makes one every two seconds, also on standby.
type ManagementAPI struct {
	clock clock.PassiveClock

	mu sync.Mutex
	// answered is when it answered last; zero if it has not since the manager started.
	answered time.Time
	failing  bool
	// restored is when it answered first, after the start or an outage.
	restored time.Time
	offset   time.Duration
	// leases is the path of the Leases with that of the leader, lease its name, and valid how long a renewal is; empty without leader election.
	// The last renewal was sent at renewed.
	leases  string
	lease   string
	valid   time.Duration
	renewed time.Time
}

// RequireLeadership rejects changes that this instance makes later than a time after it has renewed its Lease. client-go notices only with
// the next failed renewals that a process was frozen, and another instance can be the leader by then. Call it before any request.
func (m *ManagementAPI) RequireLeadership(lease client.ObjectKey, renewDeadline time.Duration) {
	m.leases, m.lease, m.valid = "/namespaces/"+lease.Namespace+"/leases", lease.Name, renewDeadline
}

// FenceChanges does so with the changes by all clients that are made from a config afterwards, for a workload cluster.
func (m *ManagementAPI) FenceChanges(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &fenced{next: next, api: m} })
}

// ObserveManagementAPI observes all clients that are made from a config afterwards.
func ObserveManagementAPI(config *rest.Config, clk clock.PassiveClock) *ManagementAPI {
	m := &ManagementAPI{clock: clk, failing: true}
	m.FenceChanges(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &observed{next: next, api: m} })
	return m
}

// KubeletsUntil is until when kubelets get time to reach the API server, after that or the manager has started.
func (m *ManagementAPI) KubeletsUntil() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.restored.IsZero() {
		return time.Time{}
	}
	return m.restored.Add(ReconnectGracePeriod)
}

// ClockOffset is by how much the clock of the manager is ahead of that of the API server, at least.
func (m *ManagementAPI) ClockOffset() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.offset
}

// observed is the transport of a client.
type observed struct {
	next http.RoundTripper
	api  *ManagementAPI
}

// unavailable are the answers of an API server that does not work, or of a load balancer in front of it. With other errors, it works.
var unavailable = map[int]bool{http.StatusBadGateway: true, http.StatusServiceUnavailable: true, http.StatusGatewayTimeout: true}

// RoundTrip implements http.RoundTripper.
func (o *observed) RoundTrip(request *http.Request) (*http.Response, error) {
	sent := o.api.clock.Now()
	response, err := o.next.RoundTrip(request)
	switch {
	case err == nil && !unavailable[response.StatusCode]:
		o.api.answer(sent, response.Header.Get("Date"))
		if response.StatusCode < http.StatusMultipleChoices && changes(request) && o.api.isElection(request) {
			o.api.setRenewed(sent)
		}
	// A request that runs out of time has no answer either.
	case !errors.Is(request.Context().Err(), context.Canceled):
		o.api.fail()
	}
	return response, err
}

// WrappedRoundTripper returns the transport that it observes, for client-go.
func (o *observed) WrappedRoundTripper() http.RoundTripper { return o.next }

// fenced is the transport of a client whose changes need the leadership.
type fenced struct {
	next http.RoundTripper
	api  *ManagementAPI
}

var errNotLeader = errors.New("another instance can be the leader: this one has not renewed its Lease in time")

// RoundTrip implements http.RoundTripper.
func (f *fenced) RoundTrip(request *http.Request) (*http.Response, error) {
	if changes(request) && !f.api.isElection(request) && !f.api.leads() {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, errNotLeader
	}
	return f.next.RoundTrip(request)
}

// WrappedRoundTripper returns the transport that it fences, for client-go.
func (f *fenced) WrappedRoundTripper() http.RoundTripper { return f.next }

// changes reports whether a request changes what a leader decides about. Reviews change nothing, and any instance may write events.
func changes(request *http.Request) bool {
	path := request.URL.Path
	return request.Method != http.MethodGet && !request.URL.Query().Has("dryRun") && !strings.HasSuffix(path, "/events") &&
		!strings.Contains(path, "/apis/authentication.k8s.io/") && !strings.Contains(path, "/apis/authorization.k8s.io/")
}

// isElection reports whether a request reads, renews or creates the Lease of the leader.
func (m *ManagementAPI) isElection(request *http.Request) bool {
	path := request.URL.Path
	return m.leases != "" && (strings.HasSuffix(path, m.leases) || strings.HasSuffix(path, m.leases+"/"+m.lease))
}

func (m *ManagementAPI) setRenewed(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.renewed = at
}

func (m *ManagementAPI) leads() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leases == "" || m.clock.Now().Sub(m.renewed) < m.valid
}

func (m *ManagementAPI) fail() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failing = true
}

// probeTime is how long a request may take that compares the clocks.
const probeTime = 5 * time.Second

// answer records an answer, and the clock of the API server, which answered in the second of its date.
func (m *ManagementAPI) answer(sent time.Time, date string) {
	now := m.clock.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	// With leader election, there is a request every few seconds: without one, this process or its machine was suspended. The monotonic clock
	// may stand still then.
	if (m.failing || m.leases != "") && now.Round(0).Sub(m.answered.Round(0)) >= ShortOutage {
		m.restored = now
	}
	m.answered, m.failing = now, false
	// A slow answer is no measure of the clock.
	if server, err := http.ParseTime(date); err == nil && now.Sub(sent) < probeTime {
		m.offset = max(sent.Sub(server.Add(time.Second)), 0) + min(now.Sub(server), 0)
	}
}
