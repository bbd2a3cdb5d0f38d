// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/adoption"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// wakes makes each value of WakeAnnotation a new one.
var wakes atomic.Int64

// WakeAnnotation has no meaning. A change of it triggers reconciles.
const WakeAnnotation = "test.invalid/nudge"

// Wake triggers a reconcile of every check. It changes Clusters of the namespace, and the checks that have none of them.
func (s *Stage) Wake() {
	s.T.Helper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"%d"}}}`, WakeAnnotation, wakes.Add(1)))
	clusters := &clusterv1.ClusterList{}
	s.Expect(s.Admin.List(s.Ctx, clusters, client.InNamespace(s.Namespace))).To(Succeed())
	woken := map[string]bool{}
	for i := range clusters.Items {
		err := s.Admin.Patch(s.Ctx, &clusters.Items[i], patch)
		s.Expect(client.IgnoreNotFound(err)).To(Succeed())
		woken[clusters.Items[i].Name] = err == nil
	}
	for _, check := range s.Checks() {
		if !woken[check.Spec.ClusterName] {
			s.Expect(client.IgnoreNotFound(s.Admin.Patch(s.Ctx, &check, patch))).To(Succeed())
		}
	}
	for _, check := range s.NodeChecks() {
		if at := check.Spec.ClusterRef; at == nil || at.Namespace != s.Namespace || !woken[at.Name] {
			s.Expect(client.IgnoreNotFound(s.Admin.Patch(s.Ctx, &check, patch))).To(Succeed())
		}
	}
}

// exists reports whether a check still exists: a deleted one is not reconciled.
func (s *Stage) exists(check string) bool {
	s.T.Helper()
	o := client.Object(&remedyv1.MachineHealthCheck{})
	name, inTree := strings.CutPrefix(check, InTreeName(""))
	if inTree {
		o = &clusterv1.MachineHealthCheck{}
	}
	err := s.Admin.Get(s.Ctx, Key(s.Namespace, name), o)
	s.Expect(client.IgnoreNotFound(err)).To(Succeed())
	return err == nil || s.nodeCheckExists(check)
}

// Reconciles counts the reconciles of a check.
func (c *Instance) Reconciles(check string) *atomic.Int64 {
	n, _ := c.reconciles.LoadOrStore(check, &atomic.Int64{})
	return n.(*atomic.Int64)
}

// counts returns how many reconciles of each check have begun.
func (c *Instance) counts() map[string]int64 {
	all := map[string]int64{}
	c.reconciles.Range(func(check, n any) bool {
		all[check.(string)] = n.(*atomic.Int64).Load()
		return true
	})
	return all
}

// selects reports whether the instance is responsible for a check. It reconciles no others.
func (s *Stage) selects(check client.Object) bool {
	return s.WatchFilter == "" || check.GetLabels()[clusterv1.WatchLabel] == s.WatchFilter
}

// ReconcileAll waits until every check of the instance was reconciled once, from begin to end.
func (c *Instance) ReconcileAll() {
	c.Stage.T.Helper()
	// One worker at a time reconciles a check: when the second reconciles begin, the first are over.
	rounds, inTree := 2, c.Stage.InTreeChecks()
	if len(inTree) > 0 {
		rounds = 4
	}
	for range rounds {
		before := map[string]int64{}
		for _, check := range c.Stage.Checks() {
			if c.Stage.selects(&check) {
				before[check.Name] = c.Reconciles(check.Name).Load()
			}
		}
		for _, check := range c.Stage.reconciled() {
			before[check.Name] = c.Reconciles(check.Name).Load()
		}
		for _, check := range inTree {
			adopted := adoption.ParseMemory(check.Annotations[remedyv1.AdoptionIDAnnotation])
			if c.Stage.selects(&check) || adopted.ID != "" && adopted.Instance == c.Stage.WatchFilter {
				before[InTreeName(check.Name)] = c.Reconciles(InTreeName(check.Name)).Load()
			}
		}
		c.Stage.Wake()
		c.Stage.Eventually(func() bool {
			for name, n := range before {
				if c.Reconciles(name).Load() == n && c.Stage.exists(name) {
					return c.Context().Err() != nil
				}
			}
			return true
		}).Should(BeTrue())
	}
}

// WaitIdle waits until reconciles with current caches change nothing.
func (c *Instance) WaitIdle() {
	c.Stage.T.Helper()
	c.Stage.Eventually(func(g Gomega) {
		g.Expect(c.current()).To(BeTrue())
		before, versions := len(c.Writes()), c.versions()
		c.ReconcileAll()
		c.retryConflicts(before)
		g.Expect(c.Writes()[before:]).To(BeEmpty())
		g.Expect(c.versions()).To(Equal(versions))
	}).Should(Succeed(), "the reconcilers do not stop writing")
}

// retryConflicts lets the reconcilers retry the last write since that has conflicted. Wake changes some checks, so a reconcile that reads a
// lot before it writes to its check could conflict with each of many calls of Wake.
func (c *Instance) retryConflicts(since int) {
	c.Stage.T.Helper()
	conflicts := func(w faults.Write) bool { return w.Code == http.StatusConflict && w.Fault == "" }
	begun, at := c.counts(), time.Now()
	c.Stage.Eventually(func() bool {
		later := c.Writes()[since:]
		slices.Reverse(later)
		conflict := slices.IndexFunc(later, conflicts)
		if now := c.counts(); !maps.Equal(begun, now) {
			begun, at = now, time.Now()
		}
		retried := conflict < 0 || slices.ContainsFunc(later[:conflict], faults.Write.Landed)
		// Another instance may have made the write, so no reconcile has to follow.
		return retried || c.Context().Err() != nil || time.Since(at) > 10*time.Second
	}).Should(BeTrue())
}

// RunUntilIdle waits until nothing is written any more, or the process has crashed.
func (c *Instance) RunUntilIdle(ctx context.Context) error {
	last := time.Now()
	for end := last.Add(Timeout); time.Now().Before(end); {
		if waited := time.Since(last); c.Stage.Clock != nil && waited > stuckTime {
			// A call that took too long is repeated later, by a clock that stands still.
			last = time.Now()
			c.Stage.Clock.Step(waited)
		}
		before, fresh := len(c.Writes()), c.current() && c.hasCurrentRequests()
		c.ReconcileAll()
		c.retryConflicts(before)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if fresh && len(c.Writes()) == before && c.current() {
			return nil
		}
	}
	return errors.New("the reconcilers do not stop writing")
}

// WaitNoReconciles waits until no reconcile happens any more, without triggering one, and returns how many there were of each check.
func (c *Instance) WaitNoReconciles() map[string]int64 {
	c.Stage.T.Helper()
	before, writes, quiet := c.counts(), -1, 0
	c.Stage.Eventually(func() bool {
		now, written := c.counts(), len(c.Writes())
		if quiet++; !maps.Equal(before, now) || written != writes {
			quiet = 0
		}
		before, writes = now, written
		// A long reconcile counts when it begins, and a busy machine can stop all processes for some seconds.
		return quiet == 2
	}).WithPolling(2*time.Second).Should(BeTrue(), "the reconcilers do not stop writing")
	return before
}

// Evaluated reports whether this instance has evaluated a check. It evaluates none before it has read everything once.
func (c *Instance) Evaluated(check string) bool {
	families, err := c.Metrics.Gather()
	c.Stage.Expect(err).ToNot(HaveOccurred())
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "name" && label.GetValue() == check {
					return true
				}
			}
		}
	}
	return false
}

// current reports whether the instance has evaluated every check and its cache has the Machines as they are.
func (c *Instance) current() bool {
	// Without a connection, no check of the cluster has read a Node.
	if c.Stage.Proxy == nil && !c.Clusters.Get(Key(c.Stage.Namespace, "prod")).Connection(c.Stage.Ctx).Up {
		return false
	}
	for _, check := range c.Stage.Checks() {
		if paused := CheckCondition(remedyv1.PausedCondition)(&check) == "True Paused"; !paused && !c.Evaluated(check.Name) {
			return false
		}
	}
	for _, check := range c.Stage.reconciled() {
		if paused := OfNodes(CheckCondition(remedyv1.PausedCondition))(&check) == "True Paused"; !paused && !c.Evaluated(check.Name) {
			return false
		}
	}
	live, cached := &clusterv1.MachineList{}, &clusterv1.MachineList{}
	in := client.InNamespace(c.Stage.Namespace)
	if c.Stage.Admin.List(c.Stage.Ctx, live, in) != nil || c.Cache.List(c.Stage.Ctx, cached, in) != nil ||
		len(live.Items) != len(cached.Items) {
		return false
	}
	seen := map[string]string{}
	for i := range cached.Items {
		seen[cached.Items[i].Name] = cached.Items[i].ResourceVersion
	}
	for i := range live.Items {
		if seen[live.Items[i].Name] != live.Items[i].ResourceVersion {
			return false
		}
	}
	return true
}

// versions are the resource versions of all Machines.
func (c *Instance) versions() map[string]string {
	c.Stage.T.Helper()
	versions := map[string]string{}
	for _, m := range c.Stage.Machines() {
		versions[m.Name] = m.ResourceVersion
	}
	return versions
}

// hasReadKinds reports whether the requests of every kind that a check names were read. An instance starts nothing before.
func (c *Instance) hasReadKinds() bool {
	for _, check := range c.Stage.Checks() {
		named := func(kind string) bool {
			names := func(t *remedyv1.MachineTemplateReference) bool { return t != nil && t.Kind == kind }
			return names(check.Spec.RemediationTemplate) || slices.ContainsFunc(check.Spec.EscalatingRemediations,
				func(step remedyv1.MachineEscalationStep) bool { return names(step.RemediationTemplate) })
		}
		for _, kind := range remediator.Kinds() {
			if named(kind.Template().Kind) && !c.KnownRequests.WasListed(kind.GroupVersionKind) {
				return false
			}
		}
	}
	return true
}

// hasCurrentRequests reports whether the Nodes and requests are known as they are.
func (c *Instance) hasCurrentRequests() bool {
	if !c.hasReadKinds() || !c.hasReadNodeKinds() || !c.hasCurrentNodeRequests() {
		return false
	}
	for _, m := range c.Stage.Machines() {
		if !c.HasCurrentNode(m.Name) {
			return false
		}
		for _, kind := range remediator.Kinds() {
			live := c.Stage.Request(kind, m.Name)()
			seen, known := c.KnownRequests.Get(kind.GroupVersionKind, Key(m.Namespace, m.Name))
			if known && (live == nil) != (seen == nil) || known && live != nil && live.GetResourceVersion() != seen.ResourceVersion {
				return false
			}
		}
	}
	return true
}

// HasCurrentNode reports whether the Node of a Machine is known as it is.
func (c *Instance) HasCurrentNode(machine string) bool {
	live := &corev1.Node{}
	err := c.Stage.Workload.Get(c.Stage.Ctx, client.ObjectKey{Name: c.Stage.NodeName(machine)}, live)
	known, failed := c.Clusters.Get(Key(c.Stage.Namespace, "prod")).Nodes(c.Stage.Ctx)
	if client.IgnoreNotFound(err) != nil || failed != nil {
		return false
	}
	at := slices.IndexFunc(known, func(n *corev1.Node) bool { return n.Name == c.Stage.NodeName(machine) })
	return at < 0 && err != nil || at >= 0 && err == nil && known[at].ResourceVersion == live.ResourceVersion
}
