// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FirstLook is how long Nodes and their controller may speak first when a cluster that was seen down is back: a kubelet renews its Lease every
// ten seconds, and the node controller gives it fifty before it calls the Node's status unknown.
const FirstLook = 50 * time.Second

// failuresUntilDown is how many probes in a row have to fail until a cluster counts as down. One may be bad luck. Cluster API's cache cuts the
// connection after five, which takes more than a minute; until then its Nodes would be judged by what was read before.
const failuresUntilDown = 2

// Connection is what is known of the connection to a cluster. It is nobody's opinion of its Nodes.
type Connection struct {
	// Up: the API server answers, as far as is known.
	Up bool
	// LastSeen is when it answered last; zero if it never has since this program was started.
	LastSeen time.Time
	// BackSince is when it was back after it had been seen down; zero if it has not been down since this program was started.
	BackSince time.Time
	// Err is why it is not up, a ReadError; nil if it is. Its text is fit to be shown.
	Err error
}

// FirstLookUntil is until when Nodes and their controller speak first; zero if the cluster has not been down.
func (c Connection) FirstLookUntil() time.Time {
	if c.BackSince.IsZero() {
		return time.Time{}
	}
	return c.BackSince.Add(FirstLook)
}

// record is what is remembered of one cluster.
type record struct {
	// number is its own: no other record, of this or another cluster, has it.
	number int
	mu     sync.Mutex
	Connection
	// down: it was seen down, and has not been up since.
	down bool
	// wavering: it is up, and the last probe failed.
	wavering bool
	// refused is why its kubeconfig is not used; nil if it is.
	refused *ReadError
	roster  *roster
	// exists: the watch of Clusters has delivered its Cluster.
	exists bool
	// orphaned: its Cluster is gone, or was never there. It is forgotten when there is no connection.
	orphaned bool
	live     liveState
}

// look brings the record up to date and says whether the cluster went down or came up. It asks the connector, which answers from memory.
func (c *Clusters) look(ctx context.Context, key client.ObjectKey, r *record) (turned bool) {
	connector, before := c.connectorOf(key), r.present()
	probes := connector.GetHealthCheckingState(ctx, key)
	_, err := connector.GetUncachedClient(ctx, key)
	up := err == nil && probes.ConsecutiveFailures < failuresUntilDown
	var unseen, orphaned bool
	if err != nil && !r.wasUp() {
		// A control plane that is not there yet has not gone down. One that is there, and cannot be reached since we were started, has.
		exists, initialized := c.known(ctx, connector, key)
		unseen, orphaned = initialized && probes.ConsecutiveFailures > 0, !exists
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	if probes.LastProbeSuccessTime.After(r.LastSeen) {
		r.LastSeen = probes.LastProbeSuccessTime
	}
	r.orphaned = r.orphaned || orphaned
	r.wavering = up && probes.ConsecutiveFailures > 0
	if err != nil && before != nil && r.roster == before {
		// It is of a connection that is over. If there is a new one by now, so is its roster, and that stays.
		before.end()
		r.roster = nil
	}
	turned = up != r.Up
	switch {
	case up && r.down:
		r.down, r.BackSince = false, c.clock.Now()
	case !up && (r.Up || unseen):
		turned = turned || !r.down
		r.down = true
	}
	r.Up, r.Err = up, r.obstacle(up, err)
	return turned
}

// present is the roster as it is now; nil if there is none.
func (r *record) present() *roster {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.roster
}

func (r *record) wasUp() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Up || r.down
}

// obstacle is why it is not up.
func (r *record) obstacle(up bool, err error) error {
	switch {
	case up:
		return nil
	case err == nil:
		return errNotAnswering
	case r.refused != nil:
		return r.refused
	default:
		return errNotConnected
	}
}

// known says whether there is such a Cluster, and whether it has a control plane. Where that cannot be found out, it is taken to have one.
func (c *Clusters) known(ctx context.Context, by connector, key client.ObjectKey) (exists, initialized bool) {
	if by == (nowhere{}) {
		return false, false
	}
	inTime, cancel := context.WithTimeout(ctx, c.answerTime)
	defer cancel()
	cluster := &clusterv1.Cluster{}
	// It is asked of a cache, which waits until it is filled: everybody else's cluster would wait with it.
	if err := c.management.Get(inTime, key, cluster); err != nil {
		cannotTell := client.IgnoreNotFound(err) != nil
		return cannotTell, cannotTell
	}
	return true, ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false)
}

// rosterOf is the roster of the present connection, which is made if there is none. It does not wait until it is filled.
func (c *Clusters) rosterOf(ctx context.Context, key client.ObjectKey, r *record) (*roster, *ReadError) {
	if err := c.connectorOf(key).Watch(ctx, key, &nodeWatch{clusters: c, key: key, record: r}); err != nil {
		return nil, readError(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.roster == nil {
		return nil, errNotReadYet
	}
	return r.roster, nil
}

// replaceRoster begins anew, as there is a new connection.
func (r *record) replaceRoster(next *roster) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.roster != nil {
		r.roster.end()
	}
	r.roster = next
}

// tellAbout returns what tells everybody about Nodes of a cluster.
func (c *Clusters) tellAbout(key client.ObjectKey) func(before, after *corev1.Node) {
	return func(before, after *corev1.Node) {
		known := after
		if known == nil {
			known = before
		}
		c.audience.tellNode(NodeChange{Cluster: key, Name: known.Name, Before: before, After: after})
	}
}
