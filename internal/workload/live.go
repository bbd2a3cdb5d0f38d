// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The limits of asking an API server. A fleet has hundreds of them, and a hung one must not hold up the others.
const (
	// answerTime is how long one answer may take.
	answerTime = 5 * time.Second
	// questionsAtOnce is how many questions one cluster is asked at once.
	questionsAtOnce = 4
	// restTime is how long a cluster that did not answer in time is not asked again: all other questions of the same pass would wait as long.
	restTime = 5 * time.Second
	// firstRetry and lastRetry are how long it takes until those who could not read are woken, first and at most.
	firstRetry = 10 * time.Second
	lastRetry  = 2 * time.Minute
	// listAge is how long a list tells, in a pass, that a Node has not joined. It is never used for an act, nor for a Node that was there.
	listAge = 10 * time.Second
)

// liveState is what is remembered of asking a cluster.
type liveState struct {
	mu sync.Mutex
	// slots are filled by questions that are being asked.
	slots chan struct{}
	// restUntil is until when it is not asked, as it did not answer in time.
	restUntil time.Time
	// wait is how long it took until the last retry, which was at retriedAt, and retryAt when the next is due; zero if none is.
	wait               time.Duration
	retriedAt, retryAt time.Time
	// listed is the last list since anything failed, and listedAt when it was asked for.
	listed   *listing
	listedAt time.Time
}

// ask puts a question to the API server of a cluster. It ends when the context does or its time is over, whatever the question does: not
// everything that a client does on its way knows a context.
func ask[T any](ctx context.Context, c *cluster, question func(ctx context.Context, api client.Client) (T, error)) (T, *ReadError) {
	var none T
	api, err := c.client(ctx)
	if err != nil {
		return none, err
	}
	inTime, cancel := context.WithTimeout(ctx, c.clusters.answerTime)
	defer cancel()
	release, err := c.record.live.enter(inTime, c.clusters.clock.Now())
	if err != nil {
		return none, c.noted(ctx, err)
	}
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		defer release()
		value, failure := question(inTime, api)
		answers <- answer{value, failure}
	}()
	select {
	case got := <-answers:
		if got.err != nil {
			return none, c.noted(ctx, readError(got.err))
		}
		c.record.live.answered()
		return got.value, nil
	case <-inTime.Done():
		return none, c.noted(ctx, errNotAnswering)
	}
}

// noted remembers that a question was not answered. Where it was us who stopped, that says nothing about the cluster.
func (c *cluster) noted(ctx context.Context, err *ReadError) *ReadError {
	if ctx.Err() != nil {
		return errStopped
	}
	c.record.live.failed(c.clusters.clock.Now(), err.Obstacle)
	return err.namingSecret(c.key)
}

// enter waits for a slot.
func (l *liveState) enter(ctx context.Context, now time.Time) (release func(), err *ReadError) {
	l.mu.Lock()
	resting := now.Before(l.restUntil)
	if l.slots == nil {
		l.slots = make(chan struct{}, questionsAtOnce)
	}
	slots := l.slots
	l.mu.Unlock()
	if resting {
		return nil, errNotAnswering
	}
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, errNotAnswering
	}
}

func (l *liveState) answered() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.restUntil = time.Time{}
}

// failed lets the cluster rest, and makes sure that those who could not read are woken some time. What was listed before does not count any more.
// The time until then grows with each retry that something fails after, whatever was answered meanwhile: one question may well fail each time that
// others succeed.
func (l *liveState) failed(now time.Time, obstacle Obstacle) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listed = nil
	if obstacle == NotAnswering && !now.Before(l.restUntil) {
		l.restUntil = now.Add(restTime)
	}
	if !l.retryAt.IsZero() {
		return
	}
	if now.After(l.retriedAt.Add(lastRetry)) {
		l.wait = 0
	}
	l.wait = min(max(2*l.wait, firstRetry), lastRetry)
	l.retryAt = now.Add(l.wait)
}

// retry says whether those who could not read are to be woken now, which is then done.
func (l *liveState) retry(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.retryAt.IsZero() || now.Before(l.retryAt) {
		return false
	}
	l.retriedAt, l.retryAt = now, time.Time{}
	return true
}

// recent is the last list, if it is young enough.
func (l *liveState) recent(now time.Time) *listing {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listed == nil || !now.Before(l.listedAt.Add(listAge)) {
		return nil
	}
	return l.listed
}

func (l *liveState) keep(list *listing, asked time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listed, l.listedAt = list, asked
}

// due says whether those who could not read have to be woken.
func (l *liveState) due(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.retryAt.IsZero() && !now.Before(l.retryAt)
}
