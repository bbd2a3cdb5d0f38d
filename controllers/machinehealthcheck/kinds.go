// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"slices"
	"sync"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
)

// kinds remembers what has to be known of kinds of requests.
type kinds struct {
	mu sync.Mutex
	// all are those that an earlier process may have made requests of, once they were found out.
	all   []schema.GroupVersionKind
	known bool
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
}

// inherited are all kinds that an earlier process may have made requests of. What a check names now need not be what it named then.
func (k *kinds) inherited(ctx context.Context, from *requests.Requests) ([]schema.GroupVersionKind, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known {
		return k.all, nil
	}
	all, err := from.Kinds(ctx)
	if err != nil {
		return nil, errors.Wrap(err, "failed to find out of which kinds there may be requests")
	}
	k.all, k.known = all, true
	return all, nil
}

// readOwn finds the requests of this check. As long as a kind is being read, what it has is not known, and is not taken for nothing.
func (v *visit) readOwn(ctx context.Context, s *seen, resolved []requests.Resolved) error {
	named := kindsOf(s.check)
	all := named
	if finalized(s.check) && v.r.kinds.inherits(client.ObjectKeyFromObject(s.check)) {
		inherited, err := v.r.kinds.inherited(ctx, v.r.Requests)
		if err != nil {
			// Somebody else's API may be out of order for long. That is no reason to look after nothing; but nothing is taken for cleaned up.
			ctrl.LoggerFrom(ctx).V(4).Info("Not all kinds of requests are known", "reason", err.Error())
			s.unread = true
			s.askAgain(v.now.Add(remediation.RetryTime))
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
		s.unread = s.unread || trouble && why != requests.NotServed
	}
	s.unread = s.unread || len(unknown.Kinds) > 0
	return nil
}

// beingRead says whether a template is not known only because templates have not been read yet.
func beingRead(one requests.Resolved) bool {
	var unknown *requests.NotKnownError
	return errors.As(one.Err, &unknown)
}
