// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// noteKinds adds the kinds of requests that a check can create to those that it may have created.
func noteKinds(object client.Object, check *Check) {
	noted := notes.RequestKinds(object.GetAnnotations())
	for _, template := range check.Templates {
		if gvk := template.RequestKind(); !slices.Contains(noted, gvk) {
			noted = append(noted, gvk)
		}
	}
	annotate(object, notes.OfRequestKinds(noted))
}

func annotate(object client.Object, n notes.Notes) {
	annotations, _ := n.On(object.GetAnnotations())
	object.SetAnnotations(annotations)
}

// RequestKinds are the kinds of which a check may have requests.
func RequestKinds(check *Check) []schema.GroupVersionKind {
	return withKinds(namedKinds(check), notes.RequestKinds(check.Object.GetAnnotations())...)
}

// withKinds are kinds together with others. What is named is read in the version that is named, and in another one only where that is not
// served.
func withKinds(kinds []schema.GroupVersionKind, others ...schema.GroupVersionKind) []schema.GroupVersionKind {
	all := slices.Clone(kinds)
	for _, gvk := range others {
		if !slices.ContainsFunc(all, func(other schema.GroupVersionKind) bool { return other.GroupKind() == gvk.GroupKind() }) {
			all = append(all, gvk)
		}
	}
	return all
}

// readOwn finds the requests of this check. As long as a kind is being read, what it has is not known, and is not taken for nothing.
func (p *pass) readOwn(ctx context.Context, s *snapshot) error {
	named := namedKinds(s.check)
	s.kinds = RequestKinds(s.check)
	found, err := p.r.Requests.Of(ctx, s.check.ID, s.kinds...)
	var unknown *requests.NotKnownError
	if err != nil && !errors.As(err, &unknown) {
		return errors.Wrap(err, "failed to read the requests")
	}
	s.setRequests(found)
	if unknown == nil {
		unknown = &requests.NotKnownError{}
	}
	s.pending = s.pending || len(unknown.Kinds) > 0
	for _, gvk := range named {
		why, trouble := unknown.Trouble[gvk]
		// Where a kind is not served, there are none.
		trouble = trouble && why != requests.NotServed
		s.unknown = s.unknown || (trouble || slices.Contains(unknown.Kinds, gvk)) && !p.r.Requests.Known(gvk)
	}
	// What it no longer names has to be cleaned up, too: only a kind that is not served has nothing left.
	for gvk, why := range unknown.Trouble {
		if why != requests.NotServed || slices.Contains(named, gvk) {
			s.askAgain(p.now.Add(remediation.RetryTime))
		}
		if why != requests.NotServed {
			s.unread = append(s.unread, gvk.GroupKind().String()+": "+why)
		}
	}
	for _, gvk := range unknown.Kinds {
		s.unread = append(s.unread, gvk.GroupKind().String()+" is being read")
	}
	return nil
}

// cause is why something could not be read, in words that are the same each time and hold no address: they are shown. Empty if there is no
// error.
func cause(err error) string {
	var read *workload.ReadError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &read):
		return read.Error()
	case apierrors.IsForbidden(err):
		return "this program may not read the management cluster; give it the rights of its installation"
	default:
		return "the management cluster does not answer as it should"
	}
}

// causeOfKind is the same for requests of a remediator, to which others give the rights.
func causeOfKind(err error) string {
	if apierrors.IsForbidden(err) {
		return "this program may not read them; give it the rights to what its remediator works on"
	}
	return cause(err)
}
