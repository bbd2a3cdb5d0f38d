// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// NameTakenError is returned by Create if another object has the name of the request.
type NameTakenError struct {
	By *Request
}

func (e *NameTakenError) Error() string {
	return fmt.Sprintf("%s has the name of this request: the manager creates the request after that object is deleted", e.By)
}

// ReplacedError is returned by a write if the request no longer exists, or another one has its name.
type ReplacedError struct {
	Was *Request
}

func (e *ReplacedError) Error() string {
	return fmt.Sprintf("%s no longer exists", e.Was)
}

// TemplateError is returned by Create if no request can be created from the template.
type TemplateError struct {
	Template Reference
	Problem  string
}

func (e *TemplateError) Error() string {
	return fmt.Sprintf("failed to create a request from %s %s/%s: %s", e.Template.Kind, e.Template.Namespace, e.Template.Name, e.Problem)
}

// NotKnownError means that there may be more requests of some kinds. The caller must not start a remediation that depends on them.
type NotKnownError struct {
	// Kinds are being read for the first time. The caller is reconciled again after that.
	Kinds []schema.GroupVersionKind
	// Problems are the kinds that cannot be read, and why.
	Problems map[schema.GroupVersionKind]string
}

func (e *NotKnownError) Error() string {
	texts := make([]string, 0, len(e.Kinds)+len(e.Problems))
	for _, kind := range e.Kinds {
		texts = append(texts, fmt.Sprintf("requests of kind %s are not listed yet", kind.GroupKind()))
	}
	for kind, why := range e.Problems {
		texts = append(texts, fmt.Sprintf("%s: %s", kind.GroupKind(), why))
	}
	slices.Sort(texts)
	return "failed to read all remediation requests: " + strings.Join(texts, "; ")
}

// unansweredError means that the API server has not answered.
type unansweredError struct {
	// asked is the question. why may contain addresses, and is only logged.
	asked string
	why   error
}

// unanswered returns nil for a nil error.
func unanswered(why error, asked string, args ...any) error {
	if why == nil {
		return nil
	}
	return &unansweredError{fmt.Sprintf(asked, args...), why}
}

func (e *unansweredError) shown() string { return "failed to check " + e.asked }

func (e *unansweredError) Error() string { return e.shown() + ": " + e.why.Error() }

// Unwrap returns the cause.
func (e *unansweredError) Unwrap() error { return e.why }

// withoutValues returns an error that names the rejected fields and none of their values, which come from a template and may be passwords.
// The message of an API server quotes values, and that of an admission webhook may. Only what is forbidden has a message for users.
func withoutValues(err error) error {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || apierrors.IsForbidden(err) {
		return err
	}
	given := answer.Status()
	text := cmp.Or(string(given.Reason), fmt.Sprintf("status %d", given.Code))
	if given.Details != nil {
		fields := make([]string, 0, len(given.Details.Causes))
		for _, cause := range given.Details.Causes {
			fields = append(fields, cause.Field)
		}
		text = strings.TrimSuffix(text+": "+strings.Join(slices.Compact(fields), ", "), ": ")
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: given.Status, Reason: given.Reason, Code: given.Code, Message: text}}
}

// Shown is an error as text for a status: it is the same each time and contains no address.
func Shown(err error) string {
	var several utilerrors.Aggregate
	all := []error{err}
	if errors.As(err, &several) {
		all = utilerrors.Flatten(several).Errors()
	}
	texts := make([]string, 0, len(all))
	for _, each := range all {
		one, text := (*unansweredError)(nil), "the API server returned an unexpected error; see the log of the manager"
		if errors.As(each, &one) {
			text = one.shown()
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return strings.Join(slices.Compact(texts), ", ")
}
