// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"iter"

	corev1 "k8s.io/api/core/v1"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// Question is about the Nodes of some targets of one cluster.
type Question struct {
	// Initialized: the cluster has a control plane. Without one nothing is read, and nothing that was there is gone.
	Initialized bool
	Targets     []Target
	// Known are Nodes that Machines of the same Cluster refer to, whether they are targets or not. None of them is read: that one of them is there
	// shows that it is the right cluster. Nil if there are none.
	Known iter.Seq[Target]
}

// Target is what is known of a Node before it is read.
type Target struct {
	// Name is what the Machine's nodeRef says, or that of a bare Node. Empty if the Machine has no Node yet.
	Name string
	// ProviderID is that of the Machine; empty if there is no Machine, or it has none yet.
	ProviderID string
}

// Reading is the answer for one target. The zero value says that nothing can be said.
type Reading struct {
	State health.NodeState
	// Node is set if State is Present. It has what Strip leaves, and nobody may change it: it may be that of the cache.
	Node *corev1.Node
	// Stranger: the Node has the name, but another provider ID. It is there, and it is not the Machine's. That was read live.
	Stranger bool
	// Live: an API server said so just now. Otherwise it is from the cache, or nothing was read.
	Live bool
	// Err is why the Node is Unreadable, a ReadError; nil if it is not. Its text is fit to be shown.
	Err error
}

// Facts are what rules see of it.
func (r *Reading) Facts(t *Target) health.NodeFacts {
	facts := health.NodeFacts{State: r.State, Name: t.Name}
	if r.Node != nil {
		facts.CreatedAt = r.Node.CreationTimestamp.Time
		facts.ProviderID = r.Node.Spec.ProviderID
		facts.Conditions = r.Node.Status.Conditions
	}
	return facts
}

func unreadable(err *ReadError) Reading { return Reading{State: health.Unreadable, Err: err} }

// stranger says whether a Node with the target's name is of another server. Where either side does not know its provider ID, it is not said.
func (t *Target) stranger(node *corev1.Node) bool {
	return t.ProviderID != "" && node.Spec.ProviderID != "" && t.ProviderID != node.Spec.ProviderID
}

// unread are answers that need no reading at all.
func (q *Question) unread(t *Target) (Reading, bool) {
	switch {
	case q.Initialized:
		return Reading{}, false
	case t.Name == "":
		return Reading{State: health.NotJoined}, true
	default:
		return unreadable(errNotInitialized), true
	}
}

// allUnreadable answers everything that needs reading with why that is not possible.
func (q *Question) allUnreadable(err *ReadError) []Reading {
	readings := make([]Reading, len(q.Targets))
	for i := range q.Targets {
		known, is := q.unread(&q.Targets[i])
		if !is {
			known = unreadable(err)
		}
		readings[i] = known
	}
	return readings
}
