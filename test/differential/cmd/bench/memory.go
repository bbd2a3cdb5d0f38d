// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// moreNodes are the Nodes of benchmarkMemory. They are only cached, until a NodeHealthCheck selects them.
const moreNodes = 5000

// benchmarkMemory measures how much heap, after a garbage collection, each Node of a workload cluster needs.
func benchmarkMemory(ctx context.Context, b *bench, s *system) {
	c := b.prepare(ctx, s, shape{clusters: 1, checks: 1, targets: 10, images: 47}, policy{timeout: time.Hour})
	defer c.finish(ctx)
	before := must(c.heap(ctx))
	names := make([]string, moreNodes)
	for i := range names {
		names[i] = fmt.Sprintf("more-%d", i)
	}
	succeed(each(names, func(name string) error { return c.api.Create(ctx, newNode(name, c.images)) }))
	defer func() {
		_ = b.api.DeleteAllOf(ctx, &corev1.Node{}, client.MatchingLabels{"kubernetes.io/os": "linux"})
		_ = each(c.members, func(m member) error { return c.addNode(ctx, m.node) })
	}()
	sleep(ctx, 3*time.Second)
	after := must(c.heap(ctx))
	b.results.add("heap bytes/Node", (after-before)/moreNodes)
	if !s.isRemedy {
		return
	}
	c.addNodeCheckMemory(ctx, after)
}

// addNodeCheckMemory measures how much more heap each of these Nodes needs if a NodeHealthCheck selects all of them: the manager keeps the
// targets of its last reconcile.
func (c *checked) addNodeCheckMemory(ctx context.Context, before float64) {
	template := remediator.Metal3.NewTemplate(c.namespace, templateName, map[string]any{"strategy": "Reboot"})
	succeed(client.IgnoreAlreadyExists(c.api.Create(ctx, template)))
	check := &remedyv1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}
	check.Spec.ClusterRef = &remedyv1.ClusterReference{Namespace: c.namespace, Name: "cluster-0"}
	check.Spec.Selector = &remedyv1.Selector{MatchLabels: map[string]remedyv1.LabelValue{"kubernetes.io/os": "linux"}}
	check.Spec.RemediationTemplate = &remedyv1.NodeTemplateReference{Namespace: c.namespace, TemplateKind: remedyv1.TemplateKind{
		APIVersion: template.GetAPIVersion(), Kind: template.GetKind(), Name: templateName,
	}}
	succeed(c.api.Create(ctx, check))
	defer func() {
		_ = c.api.Delete(context.WithoutCancel(ctx), check)
	}()
	err := wait.PollUntilContextTimeout(ctx, time.Second, settleTimeout, true, func(ctx context.Context) (bool, error) {
		err := c.api.Get(ctx, client.ObjectKeyFromObject(check), check)
		return int(ptr.Deref(check.Status.HealthyNodes, 0)) == moreNodes+c.targets, err
	})
	succeed(errors.Wrapf(err, "NodeHealthCheck %s: status.healthyNodes is %d", check.Name, ptr.Deref(check.Status.HealthyNodes, 0)))
	succeed(c.untilQuiet(ctx))
	after := must(c.heap(ctx))
	c.results.add("heap bytes/Node of a NodeHealthCheck", (after-before)/float64(moreNodes+c.targets))
}

// benchmarkEvaluation changes the startup timeout of a check of 1,000 healthy Machines: each change is a reconcile without anything to do.
// Then it measures the evaluation of Remedy alone; that of the in-tree reconciler cannot be called from outside.
func benchmarkEvaluation(ctx context.Context, b *bench, s *system) {
	c := b.prepare(ctx, s, thousand, policy{timeout: time.Hour})
	defer c.finish(ctx)
	before := must(c.usage(ctx))
	for i := range 100 {
		succeed(c.touch(ctx, i))
		// A reconcile ends before the next one begins: otherwise two changes are one reconcile.
		sleep(ctx, 100*time.Millisecond)
	}
	after := must(c.usage(ctx))
	used := after.since(before)
	evaluations := used.reconciles * float64(c.targets)
	b.results.add("reconciles", used.reconciles)
	b.results.add("cpu µs/target", float64(used.cpu.Microseconds())/evaluations)
	b.results.add("allocated bytes/target", used.allocated/evaluations)
	b.results.add("allocations/target", used.mallocs/evaluations)
	if s.isRemedy {
		b.addEvaluation(c.targets)
	}
}

// addEvaluation measures the evaluation of healthy targets that were read before.
func (b *bench) addEvaluation(targets int) {
	now := time.Now()
	reached := health.Milestone{Reached: true, Since: now.Add(-time.Hour)}
	snapshot := health.Snapshot{Cluster: health.ClusterFacts{ControlPlaneInitialized: reached, InfrastructureReady: reached}}
	node := newNode("node-1", 0)
	for range targets {
		snapshot.Targets = append(snapshot.Targets, health.Target{
			Machine: &health.MachineFacts{CreatedAt: reached.Since, ProviderID: node.Spec.ProviderID, InfrastructureReady: reached},
			Node: health.NodeFacts{
				State: health.Present, Name: node.Name, CreatedAt: reached.Since, ProviderID: node.Spec.ProviderID,
				Conditions: node.Status.Conditions,
			},
		})
	}
	policy := health.Policy{NodeStartupTimeout: time.Hour, NodeConditions: []health.ConditionCheck{
		{Type: "Ready", Status: "Unknown", Lasting: time.Hour}, {Type: "Ready", Status: "False", Lasting: time.Hour},
	}}
	result := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if counts := health.Evaluate(&snapshot, &policy, now).Counts; counts.Healthy != targets {
				b.Fatal(counts)
			}
		}
	})
	b.results.add("evaluation: ns/target", float64(result.NsPerOp())/float64(targets))
	// The list of verdicts is one allocation for all targets.
	b.results.add("evaluation: allocations/target", float64(max(0, result.AllocsPerOp()-1))/float64(targets))
}

// touch changes the spec of the check in a way that changes no decision: annotations cause no reconcile.
func (c *checked) touch(ctx context.Context, i int) error {
	check := c.checks[0]
	field := `{"spec":{"checks":{"nodeStartupTimeoutSeconds":%d}}}`
	if c.isRemedy {
		field = `{"spec":{"nodeStartupTimeout":"%ds"}}`
	}
	return c.api.Patch(ctx, check, mergePatch(fmt.Sprintf(field, 1000+i)))
}
