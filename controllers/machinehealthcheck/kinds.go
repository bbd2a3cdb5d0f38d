// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
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
	// pause is how long it is until it is asked again whether there are more.
	pause time.Duration
	// asking is closed when the one who finds them out is done; nil if nobody does. waiting are those who were told of the trouble meanwhile.
	asking  chan struct{}
	waiting map[requests.Check]bool
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
	maps.DeleteFunc(k.waiting, func(c requests.Check, _ bool) bool { return c.Namespace == check.Namespace && c.Name == check.Name })
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
// error, there may be more. It is asked again at the time that is returned. One asks, and whoever needs to know waits for that the first time; later,
// they are told what is known, and are woken when there is more.
func (k *kinds) inherited(ctx context.Context, check requests.Check, from *requests.Requests, now clock.PassiveClock) ([]schema.GroupVersionKind, time.Time, error) {
	for {
		k.mu.Lock()
		asking := k.asking
		switch later := now.Now().Before(k.again); {
		case later:
			defer k.mu.Unlock()
			return k.all, k.again, k.trouble
		case asking != nil && (k.known || k.trouble != nil):
			defer k.mu.Unlock()
			if k.waiting == nil {
				k.waiting = map[requests.Check]bool{}
			}
			k.waiting[check] = true
			return k.all, now.Now().Add(remediation.RetryTime), k.trouble
		case asking == nil:
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

// rightsTime and longestRightsTime are when it is asked again whether rights have come that an earlier process may have had, first and at most. Whether
// it had more than we have nobody can tell: a group to which all rights are missing looks like one of somebody else.
const (
	rightsTime        = time.Minute
	longestRightsTime = 30 * time.Minute
)

// find asks the API server, and holds no lock meanwhile.
func (k *kinds) find(ctx context.Context, from *requests.Requests, now clock.PassiveClock) {
	ctx, done := context.WithTimeout(ctx, askTime)
	defer done()
	var found []schema.GroupVersionKind
	err := errors.New("asking was broken off")
	defer func() {
		from.Wake(k.learn(found, err, now.Now())...)
	}()
	found, err = from.Kinds(ctx)
}

// learn notes what was found, and returns who has to be told. What was found once is not forgotten because an API is out of order, or the right to it
// was taken away: there may be requests of it all the same.
func (k *kinds) learn(found []schema.GroupVersionKind, err error, now time.Time) []requests.Check {
	k.mu.Lock()
	defer k.mu.Unlock()
	changed := k.known != (err == nil)
	for _, gvk := range found {
		changed = changed || !slices.Contains(k.all, gvk)
	}
	for _, gvk := range k.all {
		if !slices.ContainsFunc(found, ofGroupKind(gvk)) {
			found = append(found, gvk)
		}
	}
	k.all, k.known, k.trouble = found, err == nil, err
	if k.pause = min(2*k.pause, longestRightsTime); changed || k.pause == 0 {
		k.pause = rightsTime
	}
	k.again = now.Add(k.pause)
	if !k.known {
		k.again = now.Add(remediation.RetryTime)
	}
	close(k.asking)
	k.asking = nil
	waiting := slices.Collect(maps.Keys(k.waiting))
	clear(k.waiting)
	return waiting
}

// ofGroupKind finds a kind in any version.
func ofGroupKind(gvk schema.GroupVersionKind) func(schema.GroupVersionKind) bool {
	return func(other schema.GroupVersionKind) bool { return other.GroupKind() == gvk.GroupKind() }
}

// withOthers are kinds together with others. What is named is looked at in the version that is named, and in another one only where that is not served.
func withOthers(kinds []schema.GroupVersionKind, others ...schema.GroupVersionKind) []schema.GroupVersionKind {
	all := slices.Clone(kinds)
	for _, gvk := range others {
		if !slices.ContainsFunc(all, ofGroupKind(gvk)) {
			all = append(all, gvk)
		}
	}
	return all
}

// readOwn finds the requests of this check. As long as a kind is being read, what it has is not known, and is not taken for nothing.
func (v *visit) readOwn(ctx context.Context, s *seen, resolved []requests.Resolved) error {
	named := kindsOf(s.check)
	all := named
	if finalized(s.check) && v.r.kinds.inherits(client.ObjectKeyFromObject(s.check)) {
		inherited, again, err := v.r.kinds.inherited(ctx, identity(s.check), v.r.Requests, v.r.Clock)
		if err != nil {
			// A remediator's API may be out of order for long. That is no reason to look after nothing; but nothing is taken for cleaned up.
			ctrl.LoggerFrom(ctx).V(4).Info("Not all kinds of requests are known", "reason", err.Error())
			s.unread = append(s.unread, "not all kinds of requests are known: "+requests.Shown(err))
		}
		s.askAgain(again)
		all = withOthers(named, inherited...)
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
	if len(unknown.Trouble) > 0 {
		// Also of kinds that it does not name any more.
		s.askAgain(v.now.Add(remediation.RetryTime))
	}
	for _, gvk := range named {
		why, trouble := unknown.Trouble[gvk]
		// Where a kind is not served, there are none.
		trouble = trouble && why != requests.NotServed
		s.unknown = s.unknown || (trouble || slices.Contains(unknown.Kinds, gvk)) && !v.r.Requests.Known(gvk)
	}
	// What it does not name any more has to be cleaned up, too.
	for gvk, why := range unknown.Trouble {
		if why != requests.NotServed {
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
