// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"slices"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
)

// noteKinds adds the kinds of requests that a check can create to those that it may have created.
func noteKinds(check *remedyv1.MachineHealthCheck) {
	noted := notes.RequestKinds(check.Annotations)
	for _, template := range references(check) {
		if gvk := template.RequestKind(); !slices.Contains(noted, gvk) {
			noted = append(noted, gvk)
		}
	}
	check.Annotations, _ = notes.OfRequestKinds(noted).On(check.Annotations)
}

// kindsNoted reports whether the check notes all kinds of requests that it can create.
func kindsNoted(check *remedyv1.MachineHealthCheck) bool {
	noted := notes.RequestKinds(check.Annotations)
	return !slices.ContainsFunc(references(check), func(r requests.Reference) bool { return !slices.Contains(noted, r.RequestKind()) })
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
	all := withOthers(named, notes.RequestKinds(s.check.Annotations)...)
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
