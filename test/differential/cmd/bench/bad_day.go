// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// badDay is one way to lose many Nodes at once.
type badDay struct {
	name           string
	machines, lost int
	policy
	// onlyRemedy: the in-tree reconciler has no such policy.
	onlyRemedy bool
}

var badDays = []badDay{
	{name: "300", machines: 300, lost: 100},
	{name: "300 with maxInFlight 5", machines: 300, lost: 100, policy: policy{maxInFlight: 5}, onlyRemedy: true},
	{name: "300 with a template", machines: 300, lost: 100, policy: policy{template: true}},
	{name: "300 with a template, maxInFlight 5", machines: 300, lost: 100, policy: policy{template: true, maxInFlight: 5}, onlyRemedy: true},
	{name: "5000", machines: 5000, lost: 1000},
	{name: "5000 with a template", machines: 5000, lost: 1000, policy: policy{template: true}},
	{
		name: "5000 with a template, maxInFlight 20", machines: 5000, lost: 1000,
		policy: policy{template: true, maxInFlight: 20}, onlyRemedy: true,
	},
	{name: "5000 with maxInFlight 20", machines: 5000, lost: 1000, policy: policy{maxInFlight: 20}, onlyRemedy: true},
}

// badDayTime is how long a system has for all conditions or requests.
const badDayTime = 5 * time.Minute

// benchmarkBadDay lets a third or a fifth of the Nodes be lost at the same moment, in several ways.
func benchmarkBadDay(ctx context.Context, b *bench, s *system) {
	for i := range badDays {
		// Thousands of Machines take minutes, and what is measured is long, so one round is enough.
		isLarge := badDays[i].machines > 1000
		if badDays[i].onlyRemedy && !s.isRemedy || isLarge && (b.results.round > 0 || s.isSecondary) {
			continue
		}
		succeed(errors.Wrap(attempt(func() { b.badDay(ctx, s, &badDays[i]) }), badDays[i].name))
	}
	if s.isRemedy && b.results.round == 0 {
		b.limitExceeded(ctx, s)
		b.stormOfAZone(ctx, s)
	}
}

func (b *bench) badDay(ctx context.Context, s *system, d *badDay) {
	f := b.fleet(ctx, shape{clusters: 1, checks: 1, targets: d.machines, images: 10})
	lost := f.members[:d.lost]
	d.timeout = lostTimeout(d.lost)
	c := must(f.check(ctx, s, d.policy))
	defer c.finish(ctx)
	o := must(f.observe(ctx))
	defer o.stop()
	before := must(c.usage(ctx))
	b.shiftPhase(ctx, 3)
	since := time.Now().Truncate(time.Second)
	must(f.lose(ctx, lost, since))
	deadline := since.Add(d.timeout)
	if s.isRemedy {
		truthful := c.untilTruthful(ctx, d.lost, deadline)
		b.results.add(d.name+": status is true s", truthful.Sub(deadline).Seconds())
	}
	seen := c.addDecisions(ctx, d, o, deadline)
	if d.template && s.isRemedy {
		c.heal(ctx, d, o, seen)
	}
	// The reconcile that wrote the last one goes on.
	succeed(c.untilQuiet(ctx))
	used := must(c.usage(ctx))
	b.results.add(d.name+": longest reconcile s", used.longestReconcile(&before))
}

// addDecisions records when a check has decided about the lost Machines, or about as many as its policy allows.
func (c *checked) addDecisions(ctx context.Context, d *badDay, o *observer, deadline time.Time) map[string]time.Time {
	recorded, kind, count := o.marked, "condition s", d.lost
	if d.template {
		recorded, kind = o.requested, "request s"
	}
	if d.maxInFlight > 0 {
		count = d.maxInFlight
	}
	seen, err := o.until(ctx, recorded, count, badDayTime)
	if ctx.Err() != nil || c.isRemedy {
		succeed(err)
	}
	if c.isRemedy {
		c.untilTruthful(ctx, d.lost, deadline)
		succeed(c.untilQuiet(ctx))
	}
	succeed(o.verify(recorded, c.members[:d.lost], deadline, count))
	for i := range count - len(seen) {
		// The time of what is missing is a lower bound.
		seen[fmt.Sprintf("missing %d", i)] = deadline.Add(badDayTime)
	}
	c.addTimesOf(d.name, kind, seen, deadline)
	return seen
}

// addTimesOf records the first, the median and the last of the times after a deadline.
func (b *bench) addTimesOf(name, kind string, seen map[string]time.Time, deadline time.Time) {
	if name != "" {
		name += ": "
	}
	after := make([]float64, 0, len(seen))
	for _, at := range seen {
		after = append(after, at.Sub(deadline).Seconds())
	}
	b.results.add(name+"first "+kind, quantile(after, 0))
	b.results.add(name+"median "+kind, quantile(after, 0.5))
	b.results.add(name+"last "+kind, quantile(after, 1))
}

// untilTruthful waits until the status of a check of Remedy counts as many targets as were lost, and returns when it does.
func (c *checked) untilTruthful(ctx context.Context, lost int, deadline time.Time) time.Time {
	for {
		check := &remedyv1.MachineHealthCheck{}
		succeed(c.api.Get(ctx, client.ObjectKeyFromObject(c.checks[0]), check))
		if int(ptr.Deref(check.Status.Unhealthy, 0)) == lost {
			return time.Now()
		}
		if time.Since(deadline) > time.Minute {
			succeed(fmt.Errorf("the status counts %d unhealthy targets after a minute, and not %d", ptr.Deref(check.Status.Unhealthy, 0), lost))
		}
		sleep(ctx, 20*time.Millisecond)
	}
}

// untilAllowed waits until the check of Remedy does not allow remediation, in a storm, or allows it again.
func (c *checked) untilAllowed(ctx context.Context, status metav1.ConditionStatus) error {
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, settleTimeout, true, func(ctx context.Context) (bool, error) {
		check := &remedyv1.MachineHealthCheck{}
		err := c.api.Get(ctx, client.ObjectKeyFromObject(c.checks[0]), check)
		return meta.IsStatusConditionPresentAndEqual(check.Status.Conditions, remedyv1.RemediationAllowedCondition, status), err
	})
}

// heal lets the Nodes of five Machines that have a request be healthy again, and measures until their requests are deleted.
func (c *checked) heal(ctx context.Context, d *badDay, o *observer, requested map[string]time.Time) {
	var healed []member
	for _, m := range c.members[:d.lost] {
		if !requested[m.machine].IsZero() && len(healed) < 5 {
			healed = append(healed, m)
		}
	}
	succeed(each(healed, func(m member) error { return c.setReady(ctx, m, corev1.ConditionTrue, time.Now()) }))
	began := time.Now()
	seen := must(o.until(ctx, o.deleted, len(healed), 5*time.Minute))
	c.addTimesOf(d.name, "withdrawal s", seen, began)
}

// limitExceeded lets 39 % of 5,000 Machines be unhealthy under a limit of 40 %, and 60 % after the first condition. What is over the
// limit stops the rest: a preflight check is at most three seconds old when its action starts.
func (b *bench) limitExceeded(ctx context.Context, s *system) {
	f := b.fleet(ctx, shape{clusters: 1, checks: 1, targets: 5000, images: 10})
	under, limit, over := f.targets*39/100, f.targets*40/100, f.targets*60/100
	timeout := lostTimeout(under)
	c := must(f.check(ctx, s, policy{timeout: timeout, maxUnhealthy: "40%"}))
	defer c.finish(ctx)
	o := must(f.observe(ctx))
	defer o.stop()
	before := must(c.usage(ctx))
	must(f.lose(ctx, f.members[:under], time.Now()))
	must(o.until(ctx, o.marked, 1, 2*time.Minute))
	crossed := must(f.lose(ctx, f.members[under:limit+1], time.Now().Add(-time.Hour)))
	must(f.lose(ctx, f.members[limit+1:over], time.Now().Add(-time.Hour)))
	sleep(ctx, 15*time.Second)
	used := must(c.usage(ctx))
	succeed(o.verify(o.marked, f.members[:over], time.Time{}, over))
	o.mu.Lock()
	defer o.mu.Unlock()
	late := 0
	for _, at := range o.marked {
		if at.After(crossed.Add(3 * time.Second)) {
			late++
		}
	}
	b.results.add("over the limit: conditions in all", float64(len(o.marked)))
	b.results.add("over the limit: conditions later than 3 s", float64(late))
	b.results.add("over the limit: longest reconcile s", used.longestReconcile(&before))
}

// stormOfAZone lets 300 of 1,000 Nodes be lost under a limit of 20 % with a cool-down, and back, and counts what that costs.
func (b *bench) stormOfAZone(ctx context.Context, s *system) {
	p := policy{timeout: 5 * time.Second, maxUnhealthy: "20%", storm: 10 * time.Second}
	c := b.prepare(ctx, s, shape{clusters: 1, checks: 1, targets: 1000, images: 10}, p)
	defer c.finish(ctx)
	before := must(c.usage(ctx))
	zone := c.members[:300]
	o := must(c.observe(ctx))
	defer o.stop()
	must(c.lose(ctx, zone, time.Now()))
	succeed(c.untilAllowed(ctx, metav1.ConditionFalse))
	sleep(ctx, 5*time.Second)
	succeed(each(zone, func(m member) error { return c.setReady(ctx, m, corev1.ConditionTrue, time.Now()) }))
	began := time.Now()
	succeed(c.untilHealthy(ctx))
	b.results.add("zone of 300 of 1000: all healthy s", time.Since(began).Seconds())
	succeed(c.untilAllowed(ctx, metav1.ConditionTrue))
	calm := must(c.lastPatch(ctx))
	b.results.add("zone of 300 of 1000: last patch after the cool-down s", calm.Sub(began.Add(p.storm)).Seconds())
	after := must(c.usage(ctx))
	o.mu.Lock()
	b.results.add("zone of 300 of 1000: conditions", float64(len(o.marked)))
	o.mu.Unlock()
	b.results.add("zone of 300 of 1000: longest reconcile s", after.longestReconcile(&before))
	b.results.add("zone of 300 of 1000: API requests", after.since(before).requests)
	b.results.add("zone of 300 of 1000: API writes", after.since(before).writes)
	events := &corev1.EventList{}
	succeed(b.api.List(ctx, events, client.InNamespace(c.namespace)))
	// It runs once on this API server.
	b.results.add("zone of 300 of 1000: events", float64(len(events.Items)))
}
