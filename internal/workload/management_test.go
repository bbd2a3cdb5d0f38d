// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	"k8s.io/client-go/rest"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// played answers requests as a test plays the API server.
type played func() (*http.Response, error)

func (p played) RoundTrip(*http.Request) (*http.Response, error) { return p() }

func TestManagementAPI_Answers_TellOutagesAndClock(t *testing.T) {
	now := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	clk := testingclock.NewFakePassiveClock(now)
	config := &rest.Config{}
	m := ObserveManagementAPI(config, clk)
	var status int
	var fails error
	var ahead time.Duration
	transport := config.WrapTransport(played(func() (*http.Response, error) {
		if fails != nil {
			return nil, fails
		}
		date := clk.Now().Add(-ahead).Format(http.TimeFormat)
		return &http.Response{StatusCode: status, Body: http.NoBody, Header: http.Header{"Date": {date}}}, nil
	}))
	call := func(t *testing.T, wait time.Duration, code int, err error) {
		t.Helper()
		clk.SetTime(clk.Now().Add(wait))
		status, fails = code, err
		ctx := t.Context()
		if errors.Is(err, context.DeadlineExceeded) {
			over, cancel := context.WithDeadline(ctx, time.Unix(0, 0))
			defer cancel()
			ctx = over
		}
		request, created := http.NewRequestWithContext(ctx, http.MethodGet, "https://127.0.0.1", http.NoBody)
		NewWithT(t).Expect(created).ToNot(HaveOccurred())
		response, _ := transport.RoundTrip(request)
		if response != nil {
			_ = response.Body.Close()
		}
	}
	down := errors.New("connection refused")
	for _, test := range []struct {
		name   string
		wait   time.Duration
		status int
		err    error
		ahead  time.Duration
		// begins: the grace period begins with this answer. offset is by how much the clock is ahead then.
		begins bool
		offset time.Duration
	}{
		{name: "not reached yet", err: down},
		{name: "the first answer", wait: time.Minute, status: http.StatusOK, begins: true},
		{name: "nothing is asked for a while", wait: time.Hour, status: http.StatusOK},
		{name: "an error of one resource", wait: time.Second, status: http.StatusInternalServerError},
		{name: "is an answer", wait: ShortOutage, status: http.StatusNotFound},
		{name: "requests run out of time in an outage", wait: 2 * time.Second, err: context.DeadlineExceeded},
		{name: "that lasts", wait: ShortOutage, status: http.StatusServiceUnavailable},
		{name: "and ends", wait: time.Second, status: http.StatusForbidden, begins: true},
		{name: "clocks differ by less than a second", status: http.StatusOK, ahead: time.Second},
		{name: "the manager is ahead", status: http.StatusOK, ahead: time.Minute, offset: 59 * time.Second},
		{name: "it is behind", status: http.StatusOK, ahead: -time.Minute, offset: -time.Minute},
	} {
		before := m.KubeletsUntil()
		ahead = test.ahead
		call(t, test.wait, test.status, test.err)
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			if test.begins {
				before = clk.Now().Add(ReconnectGracePeriod)
			}
			g.Expect(m.KubeletsUntil()).To(Equal(before))
			g.Expect(m.ClockOffset()).To(Equal(test.offset))
		})
	}
}

// With leader election, a process that makes no request for a while was suspended, perhaps with the API server.
func TestManagementAPI_SuspendedLeader_IsAnOutage(t *testing.T) {
	g := NewWithT(t)
	clk := testingclock.NewFakePassiveClock(time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC))
	for _, elects := range []bool{false, true} {
		m := &ManagementAPI{clock: clk, failing: true}
		if elects {
			m.RequireLeadership(client.ObjectKey{Namespace: "remedy-system", Name: "leader"}, 10*time.Second)
		}
		m.answer(clk.Now(), "")
		first := m.KubeletsUntil()
		clk.SetTime(clk.Now().Add(ShortOutage))
		m.answer(clk.Now(), "")
		g.Expect(m.KubeletsUntil().After(first)).To(Equal(elects))
	}
}

// Leader election renews a Lease. Later than its deadline after that, nothing is changed: not in a workload cluster either.
func TestManagementAPI_LeaseNotRenewed_RejectsChanges(t *testing.T) {
	g := NewWithT(t)
	clk := testingclock.NewFakePassiveClock(time.Now())
	config, remote := &rest.Config{}, &rest.Config{}
	m := ObserveManagementAPI(config, clk)
	m.FenceChanges(remote)
	status := http.StatusOK
	answers := played(func() (*http.Response, error) {
		return &http.Response{StatusCode: status, Body: http.NoBody}, nil
	})
	management, workload := config.WrapTransport(answers), remote.WrapTransport(answers)
	send := func(to http.RoundTripper, method, path string) error {
		request, err := http.NewRequestWithContext(t.Context(), method, "https://127.0.0.1"+path, http.NoBody)
		g.Expect(err).ToNot(HaveOccurred())
		response, err := to.RoundTrip(request)
		if err == nil {
			g.Expect(response.Body.Close()).To(Succeed())
		}
		return err
	}
	const node, lease = "/api/v1/nodes/a", "/apis/coordination.k8s.io/v1/namespaces/own/leases"
	changes := func() error {
		there := send(workload, http.MethodPatch, node)
		g.Expect(errors.Is(send(management, http.MethodPatch, node), there)).To(BeTrue(), "both clusters alike")
		return there
	}
	g.Expect(changes()).To(Succeed(), "no leader is elected")
	m.RequireLeadership(client.ObjectKey{Namespace: "own", Name: "leader"}, time.Minute)
	g.Expect(changes()).ToNot(Succeed(), "the Lease was not acquired yet")
	g.Expect(send(management, http.MethodPost, lease)).To(Succeed())
	g.Expect(changes()).To(Succeed())
	clk.SetTime(clk.Now().Add(time.Minute))
	g.Expect(changes()).ToNot(Succeed())
	for method, path := range map[string]string{
		http.MethodGet: node, http.MethodPost: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", http.MethodPut: "/apis/events.k8s.io/v1/namespaces/a/events",
		http.MethodPatch: node + "?dryRun=All",
	} {
		g.Expect(send(management, method, path)).To(Succeed(), path)
	}
	status = http.StatusConflict
	g.Expect(send(management, http.MethodPut, lease+"/leader")).To(Succeed())
	g.Expect(changes()).ToNot(Succeed(), "another instance has acquired it")
	status = http.StatusOK
	g.Expect(send(management, http.MethodGet, lease+"/leader")).To(Succeed())
	g.Expect(changes()).ToNot(Succeed(), "to read it is not to renew it")
	g.Expect(send(management, http.MethodPut, lease+"/leader")).To(Succeed())
	g.Expect(changes()).To(Succeed())
}
