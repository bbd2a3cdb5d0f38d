// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
)

// kinds remembers what has to be known of kinds of requests.
type kinds struct {
	mu sync.Mutex
	// all are those that an earlier process may have made requests of, as far as they were found out, and trouble is why there may be more. It is
	// worth another try then.
	all     []schema.GroupVersionKind
	known   bool
	trouble error
	again   time.Time
	// asking is closed when the one who finds them out is done; nil if nobody does.
	asking chan struct{}
	// stays is why finalizers of checks stay that have nothing else to wait for.
	stays map[types.NamespacedName]string
	// ours are checks whose finalizer this process has put there: whatever they have requests of is known here.
	ours map[types.NamespacedName]bool
}

// begins notes that this process has put the finalizer on a check.
func (k *kinds) begins(check types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ours == nil {
		k.ours = map[types.NamespacedName]bool{}
	}
	k.ours[check] = true
}

// inherits says whether a check had something to clean up before this process began.
func (k *kinds) inherits(check types.NamespacedName) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.ours[check]
}

func (k *kinds) forget(check types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.ours, check)
	delete(k.stays, check)
}

// staying notes why the finalizer of a check stays; nothing if it does not. It says whether that is news.
func (k *kinds) staying(check types.NamespacedName, why string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	news := k.stays[check] != why
	if k.stays == nil {
		k.stays = map[types.NamespacedName]string{}
	}
	if k.stays[check] = why; why == "" {
		delete(k.stays, check)
	}
	return news
}

// askTime is how long it may take to find out which kinds there are.
const askTime = 10 * time.Second

// inherited are all kinds that an earlier process may have made requests of: what a check names now need not be what it named then. Where there is an
// error, there may be more, and it is tried again at that time. One asks, and whoever needs to know waits for that; nobody else does.
func (k *kinds) inherited(ctx context.Context, from *requests.Requests, now clock.PassiveClock) ([]schema.GroupVersionKind, time.Time, error) {
	for {
		k.mu.Lock()
		if k.known || now.Now().Before(k.again) {
			defer k.mu.Unlock()
			return k.all, k.again, k.trouble
		}
		asking := k.asking
		if asking == nil {
			k.asking = make(chan struct{})
		}
		k.mu.Unlock()
		if asking == nil {
			k.find(ctx, from, now)
			continue
		}
		select {
		case <-asking:
		case <-ctx.Done():
			return nil, time.Time{}, errors.WithStack(ctx.Err())
		}
	}
}

// find asks the API server, and holds no lock meanwhile. What was found once is not forgotten because an API is out of order.
func (k *kinds) find(ctx context.Context, from *requests.Requests, now clock.PassiveClock) {
	ctx, done := context.WithTimeout(ctx, askTime)
	defer done()
	var found []schema.GroupVersionKind
	err := errors.New("asking was broken off")
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, gvk := range k.all {
			if err != nil && !slices.Contains(found, gvk) {
				found = append(found, gvk)
			}
		}
		k.all, k.known, k.trouble, k.again = found, err == nil, errors.Wrap(err, "not all kinds of requests are known"), time.Time{}
		if !k.known {
			k.again = now.Now().Add(remediation.RetryTime)
		}
		close(k.asking)
		k.asking = nil
	}()
	found, err = from.Kinds(ctx)
}

// readOwn finds the requests of this check. As long as a kind is being read, what it has is not known, and is not taken for nothing.
func (v *visit) readOwn(ctx context.Context, s *seen, resolved []requests.Resolved) error {
	named := kindsOf(s.check)
	all := named
	if finalized(s.check) && v.r.kinds.inherits(client.ObjectKeyFromObject(s.check)) {
		inherited, again, err := v.r.kinds.inherited(ctx, v.r.Requests, v.r.Clock)
		if err != nil {
			// A remediator's API may be out of order for long. That is no reason to look after nothing; but nothing is taken for cleaned up.
			s.unread = append(s.unread, err.Error())
			s.askAgain(again)
		}
		all = slices.Concat(named, inherited)
	}
	s.kinds = all
	found, err := v.r.Requests.Of(ctx, identity(s.check), all...)
	var unknown *requests.NotKnownError
	if err != nil && !errors.As(err, &unknown) {
		return errors.Wrap(err, "failed to read the requests")
	}
	s.owned(found)
	if unknown == nil {
		unknown = &requests.NotKnownError{}
	}
	s.pending = s.pending || len(unknown.Kinds) > 0 || slices.ContainsFunc(resolved, beingRead)
	for _, gvk := range named {
		why, trouble := unknown.Trouble[gvk]
		s.unknown = s.unknown || trouble || slices.Contains(unknown.Kinds, gvk)
		// Where a kind is not served, there are none.
		if trouble && why != requests.NotServed {
			s.unread = append(s.unread, gvk.GroupKind().String()+": "+why)
		}
	}
	for _, gvk := range unknown.Kinds {
		s.unread = append(s.unread, gvk.GroupKind().String()+" is being read")
	}
	return nil
}

// beingRead says whether a template is not known only because templates have not been read yet.
func beingRead(one requests.Resolved) bool {
	var unknown *requests.NotKnownError
	return errors.As(one.Err, &unknown)
}
