// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// Entry is one thing that has happened to a Machine or a Node, or will happen.
type Entry struct {
	Time    *metav1.Time `json:"time,omitempty"`
	Check   string       `json:"check,omitempty"`
	Message string       `json:"message"`
}

// HistoryOf returns what the checks of its cluster and the target itself record about its remediations, the oldest first. A Machine or a
// Node that was replaced no longer exists: its name is enough then. unread are what could not be read.
func (c *Cluster) HistoryOf(ctx context.Context, s Subject) (all []Entry, unread []string, err error) {
	t, missing := c.targetOf(ctx, s)
	if missing != nil && !notFound(missing) {
		return nil, nil, missing
	}
	if missing != nil {
		t = replaced(s)
	}
	if t.machine != nil {
		all = fromTarget("Machine", t.machine)
	}
	inTime, done := context.WithTimeout(ctx, requestTimeout)
	defer done()
	if namespace := t.capi().Namespace; namespace != "" && (t.machine != nil || !s.Node) {
		ours := &remedyv1.MachineHealthCheckList{}
		if err := c.client.List(inTime, ours, client.InNamespace(namespace)); err != nil {
			return nil, nil, readError(err, "the MachineHealthChecks of namespace "+namespace)
		}
		for i := range ours.Items {
			all = append(all, fromCheck(ourKind, &ours.Items[i], &ours.Items[i].Status.CheckStatus, t.machineName(s))...)
		}
	}
	if t.node != "" {
		more, lines, err := c.nodeHistory(ctx, t)
		if err != nil {
			return nil, nil, err
		}
		all, unread = append(all, more...), lines
	}
	if len(all) == 0 && missing != nil {
		return nil, unread, missing
	}
	slices.SortStableFunc(all, func(a, b Entry) int { return at(a.Time).Compare(at(b.Time)) })
	return all, unread, nil
}

// replaced is a target that no longer exists.
func replaced(s Subject) *target {
	t := &target{cluster: client.ObjectKey{Namespace: s.Namespace, Name: s.Cluster}}
	if s.Node {
		t.node = s.Name
	}
	if s.ThisCluster {
		t.cluster = workload.ManagementCluster
	}
	return t
}

func (t *target) machineName(s Subject) string {
	if t.machine != nil {
		return t.machine.Name
	}
	return s.Name
}

// nodeHistory returns what the NodeHealthChecks of the cluster of a Node and the Node itself record.
func (c *Cluster) nodeHistory(ctx context.Context, t *target) (all []Entry, unread []string, err error) {
	p := &permitted{unread: map[string]bool{}}
	err = c.permit(ctx, p, need{
		verbs: listAndWatch, resource: nodeChecks, without: "NodeHealthChecks were not read: what they record about the Node is missing",
	})
	if err != nil {
		return nil, nil, err
	}
	checks, err := c.nodeChecks(ctx, t, p)
	if err != nil {
		return nil, nil, err
	}
	for i := range checks {
		one := checks[i].object.(*remedyv1.NodeHealthCheck)
		all = append(all, fromCheck(nodeKind, one, &one.Status.CheckStatus, t.node)...)
	}
	// Only NodeHealthChecks write annotations of Nodes.
	if len(checks) > 0 {
		node, err := c.readNode(ctx, t, p)
		if err != nil {
			return nil, nil, err
		}
		if node != nil {
			all = append(all, fromTarget("Node", node)...)
		}
	}
	return all, p.lines(), nil
}

// readNode reads the Node of a target; nil if it does not exist or cannot be read, which it adds to the lines.
func (c *Cluster) readNode(ctx context.Context, t *target, p *permitted) (*corev1.Node, error) {
	if t.cluster == workload.ManagementCluster {
		node := &corev1.Node{}
		if err := c.client.Get(ctx, client.ObjectKey{Name: t.node}, node); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		return node, nil
	}
	needed := kubeconfigOf(t.cluster)
	needed.without = "the Node was not read: the failed attempts that it records are missing"
	if err := c.permit(ctx, p, needed); err != nil || p.unread[needed.resource.String()] {
		return nil, err
	}
	e, err := c.newEvaluator(ctx, t, p)
	if err != nil {
		return nil, err
	}
	defer e.stop()
	nodes, err := e.nodesOf(ctx, t.cluster)
	if err != nil {
		p.failed = append(p.failed, "The Nodes of "+t.clusterName()+" were not read: "+err.Error())
		return nil, nil
	}
	for _, node := range nodes {
		if node.Name == t.node {
			return node, nil
		}
	}
	return nil, nil
}

// fromCheck returns what the status of a check reports about a target.
func fromCheck(kind string, check client.Object, status *remedyv1.CheckStatus, target string) []Entry {
	title := titleOf(kind, check)
	var all []Entry
	for i := range status.RecentRemediations {
		r := &status.RecentRemediations[i]
		if r.Target != target {
			continue
		}
		step := ""
		if r.Step != nil {
			step = fmt.Sprintf(" of step %d", *r.Step)
		}
		all = append(all, Entry{&r.StartTime, title, "Remediation" + step + " started"},
			Entry{&r.CompletionTime, title, "Remediation" + step + " ended: " + string(r.Outcome)})
	}
	if t := reportedTarget(status, target); t != nil {
		all = append(all, Entry{t.SinceTime, title, string(t.Reason) + ": " + joined(string(t.Decision), string(t.BlockedReason), t.Message)})
	}
	return all
}

// fromTarget returns what the annotations of a Machine or a Node record.
func fromTarget(kind string, o client.Object) []Entry {
	var all []Entry
	by := notes.ResponsibleCheck(o.GetAnnotations())
	history := notes.History(o.GetAnnotations())
	if history.Failures > 0 {
		text := fmt.Sprintf("%d remediation attempts have failed since the %s was healthy", history.Failures, kind)
		if history.Failures == 1 {
			text = "1 remediation attempt has failed since the " + kind + " was healthy"
		}
		all = append(all, Entry{nil, by, text})
	}
	if !history.NotBefore.IsZero() {
		all = append(all, Entry{&metav1.Time{Time: history.NotBefore}, by, "The next attempt is possible from this time on"})
	}
	if deleted := o.GetDeletionTimestamp(); !deleted.IsZero() {
		all = append(all, Entry{deleted, "", "The deletion of the " + kind + " was requested"})
	}
	return all
}

// at orders entries: those without a time come first.
func at(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}
