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
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// permissions are the permissions of the manager. Answers are cached.
type permissions struct {
	client  client.Client
	clock   clock.Clock
	timeout time.Duration

	mu    sync.Mutex
	known map[permission]answer
}

// permission is one verb on one resource in a namespace, or in all namespaces.
type permission struct {
	resource        schema.GroupResource
	verb, namespace string
}

// answer is the answer of the API server, or why there is none.
type answer struct {
	allowed bool
	err     error
	until   time.Time
}

// missing are the verbs that the manager is not allowed, and when to ask again.
func (a *permissions) missing(
	ctx context.Context, resource schema.GroupResource, namespace string, verbs ...string,
) (missing []string, again time.Time, err error) {
	for _, verb := range verbs {
		known, err := a.allowed(ctx, permission{resource, verb, namespace})
		if err != nil {
			return nil, time.Time{}, err
		}
		if !known.allowed {
			missing, again = append(missing, verb), health.Earliest(again, known.until)
		}
	}
	return missing, again, nil
}

// allowed first asks for the permission in all namespaces, which the usual installation gives.
func (a *permissions) allowed(ctx context.Context, p permission) (answer, error) {
	everywhere := permission{p.resource, p.verb, metav1.NamespaceAll}
	for _, asked := range []permission{everywhere, p} {
		if known, found := a.recall(asked); found && known.allowed {
			return known, nil
		}
	}
	known, err := a.ask(ctx, everywhere)
	if err != nil || known.allowed || p == everywhere {
		return known, err
	}
	return a.ask(ctx, p)
}

func (a *permissions) recall(p permission) (answer, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, found := a.known[p]
	return known, found && a.clock.Now().Before(known.until)
}

func (a *permissions) ask(ctx context.Context, p permission) (answer, error) {
	if known, found := a.recall(p); found {
		return known, known.err
	}
	allowed, err := a.review(ctx, p)
	if err != nil && ctx.Err() != nil {
		// The caller was canceled. That is no answer.
		return answer{}, err
	}
	lasting := missingFor
	switch {
	case err != nil:
		lasting = failedFor
	case allowed:
		lasting = grantedFor
	}
	known := answer{allowed: allowed, err: err, until: a.clock.Now().Add(lasting)}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known[p] = known
	return known, err
}

// review asks the API server. With an evaluation error, "not allowed" is no answer.
func (a *permissions) review(ctx context.Context, p permission) (bool, error) {
	inTime, done := context.WithTimeout(ctx, a.timeout)
	defer done()
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: p.resource.Group, Version: "*", Resource: p.resource.Resource, Verb: p.verb, Namespace: p.namespace,
		},
	}}
	err := a.client.Create(inTime, review)
	if unsure := review.Status.EvaluationError; err == nil && !review.Status.Allowed && unsure != "" {
		err = errors.New(unsure)
	}
	return review.Status.Allowed, unanswered(err, "whether the manager may %s %s", p.verb, p.resource)
}

// drop removes the cached answers about a resource after the API server has contradicted one.
func (a *permissions) drop(resource schema.GroupResource) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for p := range a.known {
		if p.resource == resource {
			delete(a.known, p)
		}
	}
}

// notAllowed is the message about missing permissions.
func notAllowed(verbs []string, resource schema.GroupResource, namespace string) string {
	where := "in any namespace"
	if namespace != metav1.NamespaceAll {
		where = "in namespace " + namespace
	}
	return fmt.Sprintf("the manager must be allowed to %s %s %s", strings.Join(verbs, ", "), resource, where)
}

// howToAllow is what to do about missing permissions.
func howToAllow(resource schema.GroupResource) string {
	return "apply a ClusterRole that allows it, such as " + clusterRole(resource.Resource) +
		", with the label " + remedyv1.AggregateToManagerLabel + "=true"
}

// clusterRole is the name of a ClusterRole with the permissions for a kind of requests.
func clusterRole(resource string) string { return "remedy-" + resource }
