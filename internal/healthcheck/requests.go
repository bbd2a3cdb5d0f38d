// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"context"
	"slices"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/checkup"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// noteKinds adds the kinds of requests that a check can create to its annotation.
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
	annotations, _ := n.Apply(object.GetAnnotations())
	object.SetAnnotations(annotations)
}

// RequestKinds returns the kinds of which a check may have requests. A kind that the check names is read in the version that it names.
func RequestKinds(check *Check) []schema.GroupVersionKind {
	all := namedKinds(check)
	for _, gvk := range notes.RequestKinds(check.Object.GetAnnotations()) {
		if !slices.ContainsFunc(all, func(other schema.GroupVersionKind) bool { return other.GroupKind() == gvk.GroupKind() }) {
			all = append(all, gvk)
		}
	}
	return all
}

// readOwn finds the requests of this check. A kind that is still being read is not taken for a kind without requests.
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
		// A kind that is not served has no requests.
		trouble = trouble && why != requests.NotServed
		s.unknown = s.unknown || (trouble || slices.Contains(unknown.Kinds, gvk)) && !p.r.Requests.Known(gvk)
	}
	// Requests of kinds that the check no longer names have to be cleaned up, too.
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

// cause returns why something could not be read; empty without an error. Messages of conditions contain it, so it is constant and contains
// no address.
func cause(err error) string {
	var read *workload.ReadError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &read):
		return read.Error()
	case apierrors.IsForbidden(err):
		return "the manager is not allowed to read the management cluster; " + applyRoles
	default:
		return "the API server of the management cluster returned an error"
	}
}

// writeError adds to the error of a write which object could not be written, and why. Other causes than a conflict and a missing permission
// are those of a read.
func writeError(object, permission string, err error, cause func(error) string) error {
	why := ""
	switch {
	case err == nil:
		return nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		why = "it has changed since it was read"
	case apierrors.IsForbidden(err):
		why = "the manager is not allowed to write it; " + permission
	default:
		why = cause(err)
	}
	return &checkup.WriteError{Cause: object + ": " + why, Err: err}
}

// applyRoles is what to do if the manager lacks a permission in the management cluster.
const applyRoles = "apply the roles of its release"

// causeOfKind is the same for requests: the remediation provider brings the permissions for them.
func causeOfKind(err error) string {
	if apierrors.IsForbidden(err) {
		return "the manager is not allowed to read them; apply the roles of the remediation provider"
	}
	return cause(err)
}
