// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// rights are what we may do, as far as we have asked.
type rights struct {
	client   client.Client
	clock    clock.Clock
	patience time.Duration

	mu    sync.Mutex
	known map[right]answer
}

// right is one verb on one resource; in all namespaces if none is named.
type right struct {
	resource        schema.GroupResource
	verb, namespace string
}

// answer is what the API server has said, or why it has said nothing.
type answer struct {
	allowed bool
	err     error
	until   time.Time
}

// lacking are the verbs that are missing, and when it is worth asking again.
func (a *rights) lacking(ctx context.Context, resource schema.GroupResource, namespace string, verbs ...string) ([]string, time.Time, error) {
	var missing []string
	var again time.Time
	for _, verb := range verbs {
		known, err := a.may(ctx, right{resource, verb, namespace})
		if err != nil {
			return nil, time.Time{}, err
		}
		if !known.allowed {
			missing, again = append(missing, verb), earlier(again, known.until)
		}
	}
	return missing, again, nil
}

// may asks whether we have a right. One in all namespaces is one in each, and is asked for first: that is how the manager is installed.
func (a *rights) may(ctx context.Context, r right) (answer, error) {
	everywhere := right{r.resource, r.verb, metav1.NamespaceAll}
	for _, asked := range []right{everywhere, r} {
		if known, found := a.recall(asked); found && known.allowed {
			return known, nil
		}
	}
	known, err := a.ask(ctx, everywhere)
	if err != nil || known.allowed || r == everywhere {
		return known, err
	}
	return a.ask(ctx, r)
}

func (a *rights) recall(r right) (answer, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, found := a.known[r]
	return known, found && a.clock.Now().Before(known.until)
}

func (a *rights) ask(ctx context.Context, r right) (answer, error) {
	if known, found := a.recall(r); found {
		return known, known.err
	}
	allowed, err := a.review(ctx, r)
	if err != nil && ctx.Err() != nil {
		// Whoever has asked has gone. That is no answer.
		return answer{}, err
	}
	known := answer{allowed: allowed, err: err}
	switch now := a.clock.Now(); {
	case err != nil:
		known.until = now.Add(failedFor)
	case allowed:
		known.until = now.Add(grantedFor)
	default:
		known.until = now.Add(missingFor)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known[r] = known
	return known, err
}

// review asks the API server. Where it could not find out, "no" is not what it says.
func (a *rights) review(ctx context.Context, r right) (bool, error) {
	inTime, done := context.WithTimeout(ctx, a.patience)
	defer done()
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: r.resource.Group, Version: "*", Resource: r.resource.Resource, Verb: r.verb, Namespace: r.namespace,
		},
	}}
	err := a.client.Create(inTime, review)
	if unsure := review.Status.EvaluationError; err == nil && !review.Status.Allowed && unsure != "" {
		err = errors.New(unsure)
	}
	return review.Status.Allowed, unanswered(err, "whether the manager may %s %s", r.verb, r.resource)
}

// drop forgets what is known about a resource, as the API server has just said otherwise.
func (a *rights) drop(resource schema.GroupResource) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for r := range a.known {
		if r.resource == resource {
			delete(a.known, r)
		}
	}
}

// lack says which rights are missing.
func lack(verbs []string, resource schema.GroupResource, namespace string) string {
	where := "in any namespace"
	if namespace != metav1.NamespaceAll {
		where = "in namespace " + namespace
	}
	return fmt.Sprintf("the manager must be allowed to %s %s %s", strings.Join(verbs, ", "), resource, where)
}

// mend says how to give a right.
func mend(resource schema.GroupResource) string {
	return fmt.Sprintf("apply a ClusterRole that allows it, such as %s, with the label %s=true", clusterRole(resource.Resource), remedyv1.AggregateToManagerLabel)
}

// clusterRole is the name of a ClusterRole with the rights to requests of a kind.
func clusterRole(resource string) string { return "remedy-" + resource }

// earlier is the earlier one of two times; zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
