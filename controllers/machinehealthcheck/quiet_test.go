// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"context"
	"slices"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// quiet waits until nothing is written any more, or the process has crashed.
func (c *controller) quiet(ctx context.Context) error {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		before, fresh := len(c.Writes()), c.upToDate() && c.hasHeard()
		c.pass()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if fresh && len(c.Writes()) == before && c.upToDate() {
			return nil
		}
	}
	return errors.New("it comes to no rest")
}

// hasReadKinds reports whether the manager has read the requests of every kind that a check names. A process that has just started does nothing before.
func (c *controller) hasReadKinds() bool {
	for _, check := range c.s.checks() {
		named := []*remedyv1.MachineTemplateReference{check.Spec.RemediationTemplate}
		for _, step := range check.Spec.EscalatingRemediations {
			named = append(named, step.RemediationTemplate)
		}
		for _, kind := range []remediator.Kind{remediator.FenceAgents, remediator.Metal3} {
			names := func(t *remedyv1.MachineTemplateReference) bool { return t != nil && t.Kind == kind.Template().Kind }
			if slices.ContainsFunc(named, names) && !c.requests.Known(kind.GroupVersionKind) {
				return false
			}
		}
	}
	return true
}

// hasHeard says whether all news of Nodes and of requests have arrived.
func (c *controller) hasHeard() bool {
	if !c.hasReadKinds() {
		return false
	}
	for _, m := range c.s.machines() {
		if !c.hasHeardOf(m.Name) {
			return false
		}
		for _, kind := range []remediator.Kind{remediator.FenceAgents, remediator.Metal3} {
			live := c.s.request(kind, m.Name)()
			seen, known := c.requests.Named(kind.GroupVersionKind, keyOf(m.Namespace, m.Name))
			if known && (live == nil) != (seen == nil) || known && live != nil && live.GetResourceVersion() != seen.ResourceVersion {
				return false
			}
		}
	}
	return true
}

// hasHeardOf says whether the Node of a Machine is known as it is.
func (c *controller) hasHeardOf(machine string) bool {
	live := &corev1.Node{}
	err := c.s.kubelet.Get(c.s.ctx, client.ObjectKey{Name: c.s.node(machine)}, live)
	known, failed := c.clusters.At(keyOf(c.s.namespace, "prod")).Nodes(c.s.ctx)
	if client.IgnoreNotFound(err) != nil || failed != nil {
		return false
	}
	at := slices.IndexFunc(known, func(n *corev1.Node) bool { return n.Name == c.s.node(machine) })
	return at < 0 && err != nil || at >= 0 && err == nil && known[at].ResourceVersion == live.ResourceVersion
}
