// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A watch that is refused goes on trying in silence, and what it had read before stays as it was: a Node that falls sick would be called healthy for
// ever. The probes of a connection do not tell, as they ask for no Node. So the API server is asked now and then whether it still lets us list
// Nodes. Where it does, a watch that is broken begins anew by itself, and the roster with it.
const (
	// examineTime is how often a roster is examined.
	examineTime = 30 * time.Second
	// doubtTime is how long it takes until the next time where something is wrong.
	doubtTime = 10 * time.Second
	// refusalsUntilDoubt is how many examinations in a row have to fail until a roster is not believed. One may be bad luck.
	refusalsUntilDoubt = 2
)

// trust is whether a roster is believed.
type trust struct {
	mu sync.Mutex
	// asking: it is being examined, and next is when it is examined again.
	asking bool
	next   time.Time
	// failures are those in a row.
	failures int
	// doubt is why it is not believed; nil if it is.
	doubt *ReadError
	// stood is how far the watch was when that began.
	stood string
}

// due says whether it is to be examined now, which is then done.
func (t *trust) due(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.asking || now.Before(t.next) {
		return false
	}
	t.asking, t.next = true, now.Add(examineTime)
	return true
}

// doubted is why it is not believed; nil if it is.
func (t *trust) doubted() *ReadError {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.doubt
}

// judge notes what an examination has found, with how far the watch is by now, and says whether that changes what is believed. What was not
// believed is believed again when the watch has gone on since: until then it holds what was there before.
func (t *trust) judge(failure *ReadError, stands string, now time.Time) (turned bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asking = false
	before := t.doubt
	if failure == nil {
		t.failures = 0
		if t.doubt != nil && (stands == "" || stands != t.stood) {
			t.doubt = nil
		}
	} else if t.failures++; t.failures >= refusalsUntilDoubt {
		// How far it is by now: it may have gone on for a while before it was refused as well.
		t.doubt, t.stood = failure, stands
	}
	if failure != nil || t.doubt != nil {
		t.next = now.Add(doubtTime)
	}
	return ObstacleOf(asError(before)) != ObstacleOf(asError(t.doubt))
}

// putOff notes that nobody could be asked.
func (t *trust) putOff() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asking = false
}

// asError makes an error of what may be none.
func asError(err *ReadError) error {
	_, opened := opened(struct{}{}, err)
	return opened
}

// examine asks whether the roster of a cluster can still be believed. It waits for an answer, so nobody should wait for it.
func (c *cluster) examine(ctx context.Context, r *roster) {
	_, err := ask(ctx, c, func(ctx context.Context, api client.Client) (struct{}, error) {
		return struct{}{}, api.List(ctx, &corev1.NodeList{}, client.Limit(1))
	})
	// Without a connection nothing is believed anyway, and when there is one again there is another roster.
	if err != nil && (err.Obstacle == Stopped || !c.Connection(ctx).Up) {
		r.trust.putOff()
		return
	}
	if r.trust.judge(err, r.stands(), c.clusters.clock.Now()) {
		c.clusters.audience.tellConnection(c.key)
	}
}

// toExamine is the roster of the present connection, and whether it is to be examined now.
func (r *record) toExamine(now time.Time) (*roster, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.roster, r.Up && r.roster != nil && r.roster.trust.due(now)
}
