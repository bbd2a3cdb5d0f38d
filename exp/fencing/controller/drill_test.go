// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/checks"
)

// drill is a stage with what checks the devices of its profile.
type drill struct {
	*stage
	checks   *checks.Reconciler
	registry *prometheus.Registry
	// asked are the Nodes of the checks, in their order.
	asked []string
}

// newDrill is a stage whose Nodes are Ready, and whose profile is checked every hour.
func newDrill(t *testing.T, change ...func(*fencingv1.FenceProfile)) *drill {
	t.Helper()
	d := &drill{stage: newStage(t)}
	d.clock = clocktesting.NewFakeClock(time.Now())
	d.r.Clock = d.clock
	d.ready("worker-1", corev1.ConditionTrue, "boot-1")
	d.start()
	d.profile(append([]func(*fencingv1.FenceProfile){func(p *fencingv1.FenceProfile) {
		p.Spec.CheckInterval = &remedyv1.Duration{Duration: metav1.Duration{Duration: time.Hour}}
	}}, change...)...)
	return d
}

// start starts the manager of checks, which has no memory.
func (d *drill) start() {
	d.registry = prometheus.NewRegistry()
	counted, err := checks.NewMetrics(d.registry)
	d.Expect(err).ToNot(HaveOccurred())
	d.checks = &checks.Reconciler{
		Client: d.r.Client, Live: d.r.Live, Events: d.events, Metrics: counted, Clock: d.clock, OwnNodesNamespace: d.namespace,
		Nodes: func(ctx context.Context, cluster client.ObjectKey) (client.Client, error) {
			return d.r.Nodes(ctx, cluster)
		},
	}
}

func (d *drill) rack() *fencingv1.FenceProfile {
	p := &fencingv1.FenceProfile{}
	d.Expect(d.admin.Get(d.t.Context(), client.ObjectKey{Namespace: d.namespace, Name: "rack"}, p)).To(Succeed())
	return p
}

// change changes the spec of the profile.
func (d *drill) change(change func(*fencingv1.FenceProfileSpec)) {
	p := d.rack()
	change(&p.Spec)
	d.Expect(d.admin.Update(d.t.Context(), p)).To(Succeed())
}

// check is the present check; nil if there is none.
func (d *drill) check() *fencingv1.NodeFence {
	all := &fencingv1.NodeFenceList{}
	d.Expect(d.admin.List(d.t.Context(), all, client.InNamespace(d.namespace))).To(Succeed())
	var found *fencingv1.NodeFence
	for i := range all.Items {
		if all.Items[i].Spec.Mode == fencingv1.CheckDevices {
			d.Expect(found).To(BeNil(), "two checks at the same time")
			found = &all.Items[i]
		}
	}
	return found
}

// later lets the last checks be older.
func (d *drill) later(by time.Duration) {
	p := d.rack()
	for i := range p.Status.Nodes {
		p.Status.Nodes[i].CheckedAt.Time = p.Status.Nodes[i].CheckedAt.Add(-by)
	}
	d.Expect(d.r.Client.Status().Update(d.t.Context(), p)).To(Succeed())
}

// step reconciles the profile once, and returns when it is reconciled again.
func (d *drill) step() time.Duration {
	before := d.check()
	if before == nil {
		// The API server sets when a check is created.
		d.clock.SetTime(time.Now())
	}
	result, err := d.checks.Reconcile(d.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: d.namespace, Name: "rack"}})
	d.Expect(err).ToNot(HaveOccurred())
	if after := d.check(); after != nil && before == nil {
		d.asked = append(d.asked, after.Annotations[remedyv1.NodeNameAnnotation])
	}
	return result.RequeueAfter
}

// round checks until nothing is due, and returns for how long.
func (d *drill) round() time.Duration {
	for range 300 {
		wake := d.step()
		check := d.check()
		if check == nil && wake > 0 || check == nil && d.check() == nil && d.rack().Spec.CheckInterval.Duration.Duration == 0 {
			return wake
		}
		if check == nil {
			continue
		}
		d.reconcile(check)
		if !d.playJobs() {
			d.clock.Step(5 * time.Second)
		}
	}
	d.t.Fatalf("the checks do not end: %+v", d.rack().Status)
	return 0
}

// series returns the values of the metric.
func (d *drill) series() []string {
	families, err := d.registry.Gather()
	d.Expect(err).ToNot(HaveOccurred())
	all := []string{}
	for _, family := range families {
		for _, m := range family.Metric {
			all = append(all, m.String())
		}
	}
	return all
}

// reachable expects that the metric has only this value, for the method of the profile.
func (d *drill) reachable(value string) {
	d.t.Helper()
	d.Expect(d.series()).To(ConsistOf(And(
		ContainSubstring(`value:"ipmi"`), ContainSubstring(`value:"rack"`), ContainSubstring("gauge:{value:"+value+"}"))))
}
