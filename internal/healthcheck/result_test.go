// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/pipeline"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// Errors are retried with backoff, but a deadline before that is kept.
func TestResult_AfterErrors_KeepsDeadlines(t *testing.T) {
	g := NewWithT(t)
	now := time.Date(2026, time.March, 14, 12, 0, 0, 0, time.UTC)
	registry := prometheus.NewPedanticRegistry()
	counted, err := metrics.New(registry)
	g.Expect(err).ToNot(HaveOccurred())
	e := &Environment{Clock: testingclock.NewFakePassiveClock(now), Metrics: counted}
	r := &Reconciler{Environment: e, Store: kindStore{kind: "MachineHealthCheck"}}
	check, rejected, started := &record{}, errors.New("rejected"), now
	after := func(wakeUp time.Time, err error) time.Duration {
		result, err := r.result(t.Context(), check, started, wakeUp, err)
		g.Expect(err).ToNot(HaveOccurred(), "an error would let the queue decide when to retry")
		return result.RequeueAfter
	}
	g.Expect(after(time.Time{}, nil)).To(BeZero(), "a watch event wakes the check")
	g.Expect(after(now, nil)).To(Equal(notes.Precision), "a deadline that has passed is not dropped")
	started = now.Add(-time.Minute)
	g.Expect(after(now, nil)).To(Equal(conflictTime), "after a long reconcile, other checks come first")
	started = now
	g.Expect(after(time.Time{}, rejected)).To(Equal(firstRetry))
	g.Expect(after(time.Time{}, rejected)).To(Equal(2 * firstRetry))
	for range 20 {
		g.Expect(after(now.Add(10*time.Second), rejected)).To(BeNumerically("<=", 10*time.Second))
	}
	g.Expect(after(time.Time{}, rejected)).To(Equal(lastRetry), "the maximum backoff")
	conflict := apierrors.NewConflict(schema.GroupResource{}, "m", errors.New("changed"))
	for range maxConflicts {
		g.Expect(after(now.Add(time.Hour), conflict)).To(Equal(conflictTime), "the cache will soon show the write of another controller")
	}
	failures := func() (sum float64) {
		families, err := registry.Gather()
		g.Expect(err).ToNot(HaveOccurred())
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() == "remedy_failed_evaluations_total" {
					sum += m.GetCounter().GetValue()
				}
			}
		}
		return sum
	}
	before := failures()
	check.failures = 0
	g.Expect(after(now.Add(time.Hour), conflict)).To(Equal(firstRetry))
	g.Expect(after(now.Add(time.Hour), conflict)).To(Equal(2*firstRetry), "conflicts that last are failures")
	g.Expect(failures()).To(Equal(before + 2))
	g.Expect(after(now.Add(time.Hour), nil)).To(Equal(time.Hour))
	g.Expect(after(time.Time{}, rejected)).To(Equal(firstRetry), "success resets the backoff")
}

// The status names the object and the cause, and nothing of the error: it may contain addresses and user names.
func TestWriteError_Causes_NameTheObject(t *testing.T) {
	g := NewWithT(t)
	leases, secret := schema.GroupResource{Resource: "leases"}, errors.New("User root at 10.0.0.1")
	for why, err := range map[string]error{
		"it has changed since it was read":                                           apierrors.NewConflict(leases, "l", secret),
		"the manager is not allowed to write it; apply the roles of its release":     apierrors.NewForbidden(leases, "l", secret),
		"the API server of the management cluster returned an error":                 errors.Wrap(secret, "failed"),
		"the API server of the cluster does not answer in time; check that it is up": context.DeadlineExceeded,
	} {
		causeOf := cause
		if errors.Is(err, context.DeadlineExceeded) {
			causeOf = workload.CauseOf
		}
		failed := writeError("Lease a/l", applyRoles, err, causeOf)
		var write *pipeline.WriteError
		g.Expect(errors.As(failed, &write)).To(BeTrue())
		g.Expect(write.Cause).To(And(HavePrefix("Lease a/l: "+why), Not(ContainSubstring("root"))))
		g.Expect(failed).To(And(MatchError(err), MatchError(err.Error())), "the log has the error, and a conflict is still one")
	}
	g.Expect(writeError("Lease a/l", applyRoles, nil, cause)).To(Succeed())
}

// kindStore is a store that has only a kind.
type kindStore struct {
	Store
	kind string
}

func (s kindStore) Kind() string { return s.kind }
