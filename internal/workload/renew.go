// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"crypto/sha256"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Cluster API's cache keeps a connection that works, wherever it leads. One that was made with a wrong kubeconfig, or for an earlier Cluster of the
// same name, would stay when that has been mended. So it is renewed here. Nobody watches Secrets for that: only where something was read that a wrong
// kubeconfig explains, one Secret is read again, as seldom as those are woken who could not read.

// renewal is how far a connection is on its way to be made anew.
type renewal int

const (
	// notNeeded means: nothing is wrong with it.
	notNeeded renewal = iota
	// wanted means: it is not the right one any more, and nothing that is read over it counts.
	wanted
	// begun means: it is being dropped; and dropped, that this has been agreed to.
	begun
	dropped
)

// wantRenewal has the connection made anew.
func (r *record) wantRenewal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.renewal == notNeeded {
		r.renewal = wanted
	}
}

// moves goes from one stage of a renewal to the next, if it is there.
func (r *record) moves(from, to renewal) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.renewal != from {
		return false
	}
	r.renewal = to
	return true
}

// keeps says whether a connection is kept. Cluster API's cache asks that whenever it looks after a Cluster, which is every ten seconds, and does not look
// after it again once it was told no. So a connection is dropped by a question within the question, which is told no; and then Cluster API's cache, which
// was told yes, finds that there is none, and makes one. It does all of that for one Cluster after the other, so nobody interferes.
func (c *Clusters) keeps(cluster *clusterv1.Cluster) bool {
	key := client.ObjectKeyFromObject(cluster)
	c.mu.RLock()
	r, remote := c.records[key], c.remote
	c.mu.RUnlock()
	looksAfter, can := remote.(reconcile.Reconciler)
	if r == nil || !can {
		return true
	}
	if r.moves(begun, dropped) {
		return false
	}
	if r.moves(wanted, begun) {
		// What becomes of it shows in whether it has asked.
		_, _ = looksAfter.Reconcile(context.Background(), reconcile.Request{NamespacedName: key})
		if !r.moves(dropped, notNeeded) {
			r.moves(begun, wanted)
		}
	}
	return true
}

// misleading says whether something that was read may be due to a kubeconfig that leads elsewhere, or whose user may do too little. What else a wrong
// kubeconfig causes ends the connection.
func misleading(obstacle Obstacle) bool {
	return obstacle == NoKnownNode || obstacle == Forbidden
}

// fingerprint tells one kubeconfig from another, and nothing else of it.
type fingerprint [sha256.Size]byte

// madeWith notes which kubeconfig the connection is made with.
func (r *record) madeWith(kubeconfig []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kubeconfig = sha256.Sum256(kubeconfig)
}

// compare has the connection made anew if its kubeconfig is another one by now. If that cannot be read, that is tried again the next time.
func (c *Clusters) compare(ctx context.Context, key client.ObjectKey, r *record) {
	c.mu.RLock()
	secrets := c.secrets
	c.mu.RUnlock()
	if secrets == nil {
		return
	}
	inTime, cancel := context.WithTimeout(ctx, secretTime)
	defer cancel()
	kubeconfig := &corev1.Secret{}
	at := client.ObjectKey{Namespace: key.Namespace, Name: secret.Name(key.Name, secret.Kubeconfig)}
	if err := secrets.Get(inTime, at, kubeconfig); err != nil {
		return
	}
	now := sha256.Sum256(kubeconfig.Data[secret.KubeconfigDataName])
	r.mu.Lock()
	another := r.kubeconfig != now
	r.mu.Unlock()
	if another {
		r.wantRenewal()
	}
}
