// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// NameTakenError is what Create returns where the name belongs to something else than the request that was to be made.
type NameTakenError struct {
	// By is what bears the name.
	By *Found
}

func (e *NameTakenError) Error() string {
	return fmt.Sprintf("the name is taken by %s: it is waited for until that one is gone", e.By)
}

// ReplacedError is what a write returns where the request has gone, or another one bears its name by now.
type ReplacedError struct {
	Was *Found
}

func (e *ReplacedError) Error() string {
	return fmt.Sprintf("%s is not there any more", e.Was)
}

// TemplateError is what Create returns where no request can be made from the template any more.
type TemplateError struct {
	Template Reference
	Problem  string
}

func (e *TemplateError) Error() string {
	return fmt.Sprintf("no request can be made from %s %s/%s: %s", e.Template.Kind, e.Template.Namespace, e.Template.Name, e.Problem)
}

// NotKnownError says of which kinds it is not known, for now, which requests there are. Whoever gets it must not start anything that relies on
// there being none.
type NotKnownError struct {
	// Kinds are those that are being read for the first time: whoever asked is woken when that is done.
	Kinds []schema.GroupVersionKind
	// Trouble are those that cannot be read, and why.
	Trouble map[schema.GroupVersionKind]string
}

func (e *NotKnownError) Error() string {
	said := make([]string, 0, len(e.Kinds)+len(e.Trouble))
	for _, kind := range e.Kinds {
		said = append(said, fmt.Sprintf("%s is being read", kind.GroupKind()))
	}
	for kind, why := range e.Trouble {
		said = append(said, fmt.Sprintf("%s: %s", kind.GroupKind(), why))
	}
	slices.Sort(said)
	return "not every request is known: " + strings.Join(said, "; ")
}

// covers says whether a kind is one of them.
func (e *NotKnownError) covers(kind schema.GroupVersionKind) bool {
	if e == nil {
		return false
	}
	_, trouble := e.Trouble[kind]
	return trouble || slices.Contains(e.Kinds, kind)
}

// unansweredError means that the API server has not said what it was asked.
type unansweredError struct {
	// asked is what that was, and why the reason, which may hold addresses: that is for logs.
	asked string
	why   error
}

// unanswered is nil if there is no error.
func unanswered(why error, asked string, args ...any) error {
	if why == nil {
		return nil
	}
	return &unansweredError{fmt.Sprintf(asked, args...), why}
}

func (e *unansweredError) shown() string { return "failed to find out " + e.asked }

// Error implements error.
func (e *unansweredError) Error() string { return e.shown() + ": " + e.why.Error() }

// Unwrap is the reason.
func (e *unansweredError) Unwrap() error { return e.why }

// Shown says of an error what was not found out, in words that are the same each time and hold no address.
func Shown(err error) string {
	var several utilerrors.Aggregate
	all := []error{err}
	if errors.As(err, &several) {
		all = utilerrors.Flatten(several).Errors()
	}
	said := make([]string, 0, len(all))
	for _, each := range all {
		one, words := (*unansweredError)(nil), "the API server does not answer as it should"
		if errors.As(each, &one) {
			words = one.shown()
		}
		said = append(said, words)
	}
	slices.Sort(said)
	return strings.Join(slices.Compact(said), ", ")
}
