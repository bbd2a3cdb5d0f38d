// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

const (
	// A status may be as old as statusTime.
	statusTime = 2 * time.Second
	// The status is followed for statusAfter after the last Machine is marked.
	statusAfter = 10 * time.Second
)

// badDayCounts are the numbers of a status.
type badDayCounts struct{ unhealthy, remediating, blocked int }

// badDayView is what the watches of a run have shown.
type badDayView struct {
	// lost are the Machines of lost Nodes that exist, and marked those with OwnerRemediated=False.
	lost, marked map[string]bool
	// deadline is when they are unhealthy.
	deadline time.Time
	// truths are the numbers that were true, each since a time.
	truths []badDayTruth
	status *remedyv1.CheckStatus
	// wrong is for how long the status was wrong, and errors are the kinds of errors.
	wrong  time.Duration
	last   time.Time
	errors map[string]int
}

type badDayTruth struct {
	since time.Time
	badDayCounts
}

// follow returns, in order, after how many seconds each lost Machine got OwnerRemediated=False. It compares the status of a check of Remedy
// with the Machines all the time.
func (v *badDayView) follow(b *testing.B, w *world.World, c *world.Workload, check client.Object) (times []float64) {
	b.Helper()
	g := NewWithT(b)
	ctx, cancel := context.WithTimeout(b.Context(), badDayTimeout)
	defer cancel()
	machines, err := w.Client.Watch(ctx, &clusterv1.MachineList{}, client.InNamespace(c.Namespace))
	g.Expect(err).ToNot(HaveOccurred())
	defer machines.Stop()
	checks, err := w.Client.Watch(ctx, &remedyv1.MachineHealthCheckList{}, client.InNamespace(c.Namespace))
	g.Expect(err).ToNot(HaveOccurred())
	defer checks.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	v.errors = map[string]int{}
	for end := (time.Time{}); end.IsZero() || time.Now().Before(end); {
		select {
		case event, open := <-machines.ResultChan():
			g.Expect(open).To(BeTrue(), "%.0f s after the deadline, only %d of %d Machines are remediated: status %+v",
				time.Since(v.deadline).Seconds(), len(times), badDayLost, v.status)
			if v.machine(event) {
				times = append(times, time.Since(v.deadline).Seconds())
			}
		case event, open := <-checks.ResultChan():
			g.Expect(open).To(BeTrue())
			if found, is := event.Object.(*remedyv1.MachineHealthCheck); is && found.Name == check.GetName() {
				v.status = &found.Status.CheckStatus
			}
		case <-tick.C:
		}
		v.compare(time.Now())
		if end.IsZero() && len(times) == badDayLost {
			end = time.Now().Add(statusAfter)
		}
	}
	return times
}

// machine records an event of a Machine, and reports whether it is marked now and was not before.
func (v *badDayView) machine(event watch.Event) bool {
	m, is := event.Object.(*clusterv1.Machine)
	if !is || !v.lost[m.Name] {
		return false
	}
	if event.Type == watch.Deleted {
		delete(v.lost, m.Name)
		return false
	}
	before := v.marked[m.Name]
	v.marked[m.Name] = before || conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedCondition)
	return !before && v.marked[m.Name]
}

// compare compares the status with what was true within statusTime.
func (v *badDayView) compare(now time.Time) {
	elapsed := now.Sub(v.last)
	first := v.last.IsZero()
	v.last = now
	truth := badDayCounts{}
	if !now.Before(v.deadline) {
		truth.unhealthy = len(v.lost)
		for name := range v.lost {
			if v.marked[name] {
				truth.remediating++
			}
		}
		truth.blocked = truth.unhealthy - truth.remediating
	}
	if len(v.truths) == 0 || v.truths[len(v.truths)-1].badDayCounts != truth {
		v.truths = append(v.truths, badDayTruth{now, truth})
	}
	for len(v.truths) > 1 && now.Sub(v.truths[1].since) > statusTime {
		v.truths = v.truths[1:]
	}
	if v.status == nil || first {
		return
	}
	if found := v.whatIsWrong(); found != "" {
		v.errors[found]++
		v.wrong += elapsed
	}
}

// whatIsWrong returns the first number or condition of the status that was not true within statusTime; empty if there is none.
func (v *badDayView) whatIsWrong() string {
	reported := badDayCounts{
		int(ptr.Deref(v.status.Unhealthy, 0)), int(ptr.Deref(v.status.Remediating, 0)), int(ptr.Deref(v.status.Blocked, 0)),
	}
	right := badDayCounts{}
	for _, t := range v.truths {
		right.unhealthy |= same(t.unhealthy, reported.unhealthy)
		right.remediating |= same(t.remediating, reported.remediating)
		right.blocked |= same(t.blocked, reported.blocked)
	}
	if right != (badDayCounts{1, 1, 1}) {
		return fmt.Sprintf("%+v of %+v", reported, v.truths[len(v.truths)-1].badDayCounts)
	}
	for _, kind := range []string{remedyv1.RemediationAllowedCondition, remedyv1.ReadyCondition} {
		if !meta.IsStatusConditionTrue(v.status.Conditions, kind) {
			return kind
		}
	}
	return ""
}

func same(a, b int) int {
	if a == b {
		return 1
	}
	return 0
}
