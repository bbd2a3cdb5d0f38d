// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
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
)

// What has failed is tried again ever more seldom, and whoever has a deadline before that is looked at in time.
func TestWhatHasFailedMakesNobodyElseLate(t *testing.T) {
	g := NewWithT(t)
	now := time.Date(2026, time.March, 14, 12, 0, 0, 0, time.UTC)
	counted, err := metrics.New(prometheus.NewPedanticRegistry())
	g.Expect(err).ToNot(HaveOccurred())
	e := &Environment{Clock: testingclock.NewFakePassiveClock(now), Metrics: counted}
	r := &Reconciler{Environment: e, Store: named{kind: "MachineHealthCheck"}}
	check, refused, started := &record{}, errors.New("refused"), now
	after := func(wakeUp time.Time, err error) time.Duration {
		result, err := r.result(t.Context(), check, started, wakeUp, err)
		g.Expect(err).ToNot(HaveOccurred(), "or the queue would decide when")
		return result.RequeueAfter
	}
	g.Expect(after(time.Time{}, nil)).To(BeZero(), "somebody wakes us")
	g.Expect(after(now, nil)).To(Equal(notes.Precision), "what is due is not never")
	started = now.Add(-time.Minute)
	g.Expect(after(now, nil)).To(Equal(conflictTime), "whoever takes long gives others a chance")
	started = now
	g.Expect(after(time.Time{}, refused)).To(Equal(firstRetry))
	g.Expect(after(time.Time{}, refused)).To(Equal(2 * firstRetry))
	for range 20 {
		g.Expect(after(now.Add(10*time.Second), refused)).To(BeNumerically("<=", 10*time.Second))
	}
	g.Expect(after(time.Time{}, refused)).To(Equal(lastRetry), "and never more seldom than that")
	conflict := apierrors.NewConflict(schema.GroupResource{}, "m", errors.New("changed"))
	g.Expect(after(now.Add(time.Hour), conflict)).To(Equal(conflictTime), "what somebody else wrote is on its way")
	g.Expect(after(now.Add(time.Hour), nil)).To(Equal(time.Hour))
	g.Expect(after(time.Time{}, refused)).To(Equal(firstRetry), "who has succeeded begins anew")
}

// named is a store of which only the kind is asked.
type named struct {
	Store
	kind string
}

func (n named) Kind() string { return n.kind }
