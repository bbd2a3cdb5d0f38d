// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// A kubeconfig may lead to another cluster than the Machines are of, or to one that was restored empty: swapped Secrets, a load balancer that
// points elsewhere. All Nodes are missing there, and nobody may conclude that they are gone. So that Nodes are missing is believed only of a cluster
// that is the right one:
//   - one that has a Node, as its Machine's own, that any Machine of the Cluster refers to; or
//   - one whose namespace kube-system is the one that was there when such a Node was seen last, since this program was started; or
//   - where no such Node has been seen since then: if no more than one is referred to. Of a cluster with a single Node nothing else can be told.
//
// What heals it is such a Node: it joins, or a new connection leads where it is, which is made when the kubeconfig has been mended (renew.go).
// What this cannot see: another cluster that has a Node of the same name, where either side has no provider ID; a backup of the right cluster, as some
// of its Nodes are there; and, where a single Node is referred to, any other one, when this program has not seen the right one before.
//
// The identity of a cluster is not kept over a restart. Where two Nodes are referred to it is not needed for protection: what it adds there is that Nodes
// are believed to be missing when all of them are. Only where there has ever been a single one it would protect from another cluster after a restart,
// and for that every check would have to carry a note that somebody has to correct when a cluster is restored or rebuilt.

// references is how many Nodes Machines refer to.
func (q *Question) references() int {
	names := map[string]bool{}
	for t := range q.referred {
		names[t.Name] = true
	}
	return len(names)
}

// referred goes through all targets with a Node, and those nobody asks about.
func (q *Question) referred(yield func(Target) bool) {
	for i := range q.Targets {
		if q.Targets[i].Name != "" && !yield(q.Targets[i]) {
			return
		}
	}
	if q.Known == nil {
		return
	}
	for t := range q.Known {
		if t.Name != "" && !yield(t) {
			return
		}
	}
}

// hasOne says whether any of the Nodes that Machines refer to is there, as its Machine's own.
func (l *listing) hasOne(q *Question) bool {
	for t := range q.referred {
		if node := l.byName[t.Name]; node != nil && !t.stranger(node) {
			return true
		}
	}
	return false
}

// hasOne says the same of what is known of Nodes over one connection.
func (r *roster) hasOne(q *Question) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return (&listing{byName: r.byName}).hasOne(q)
}

// missing says whether a reading would be held against its target, and be the same in any other cluster.
func (r *Reading) missing() bool {
	return r.State == health.Gone || r.State == health.NotJoined || r.Stranger
}

// challenge makes readings that Nodes are missing Unreadable, where this may be another cluster. The roster is nil if everything was read live.
func (c *cluster) challenge(ctx context.Context, q *Question, readings []Reading, cached *roster) {
	own := func(r Reading) bool { return r.State == health.Present && !r.Stranger }
	if !q.Initialized || !slices.ContainsFunc(readings, func(r Reading) bool { return r.missing() }) ||
		slices.ContainsFunc(readings, own) || cached != nil && cached.hasOne(q) {
		return
	}
	err := c.recognize(ctx, q)
	if err == nil {
		return
	}
	for i := range readings {
		if readings[i].missing() {
			readings[i] = unreadable(err)
		}
	}
}

// recognize asks whether this is the cluster that the Machines are of; nil if it is, as far as can be told.
func (c *cluster) recognize(ctx context.Context, q *Question) *ReadError {
	known := c.record.identity()
	if known == "" && q.references() < 2 {
		return nil
	}
	_, err := ask(ctx, c, func(ctx context.Context, api client.Client) (struct{}, error) {
		id, err := identityOf(ctx, api)
		if err != nil || id != "" && id == known {
			return struct{}{}, err
		}
		all, err := listNodes(ctx, api)
		if err != nil {
			return struct{}{}, err
		}
		if !all.hasOne(q) {
			return struct{}{}, errNoKnownNode
		}
		c.record.identify(id)
		return struct{}{}, nil
	})
	return err
}

// identityOf is what tells a cluster from others: the UID of a namespace that lasts as long as the cluster does. It is empty where that is not to be
// had: whoever may read Nodes may not always read that.
func identityOf(ctx context.Context, api client.Client) (types.UID, error) {
	namespace := &corev1.Namespace{}
	err := api.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, namespace)
	if apierrors.IsForbidden(err) || saysNotFound(err, "namespaces", metav1.NamespaceSystem) {
		return "", nil
	}
	return namespace.UID, err
}

// identity is that of the right cluster; empty if it is not known.
func (r *record) identity() types.UID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.id
}

// identify notes the identity of the right cluster.
func (r *record) identify(id types.UID) {
	if id == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.id = id
}

// saw notes a Node that a pass has found as its Machine's own, so that the cluster can be recognized by it.
func (r *roster) saw(q *Question, readings []Reading) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.own.Name != "" || r.remembered {
		return
	}
	for i := range readings {
		if readings[i].State == health.Present && !readings[i].Stranger {
			r.own = q.Targets[i]
			r.trust.hurry()
			return
		}
	}
}

// remember notes the identity of a cluster when one of the Nodes that Machines refer to is there, once for each connection. All of it is asked over
// one and the same connection, which need not be that of the roster any more.
func (c *cluster) remember(ctx context.Context, api client.Client, r *roster) error {
	r.mu.RLock()
	own, done := r.own, r.remembered
	r.mu.RUnlock()
	if done || own.Name == "" {
		return nil
	}
	id, err := identityOf(ctx, api)
	if err != nil {
		return err
	}
	node := &corev1.Node{}
	err = api.Get(ctx, client.ObjectKey{Name: own.Name}, node)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil || own.stranger(node) {
		// A pass will find another one.
		r.own = Target{}
		return nil
	}
	c.record.identify(id)
	r.remembered = true
	return nil
}
