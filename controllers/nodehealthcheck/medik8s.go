// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// +kubebuilder:rbac:groups=remediation.medik8s.io,resources=nodehealthchecks,verbs=list

// medik8sKind are the checks of another project. Its operator runs in the cluster of the Nodes.
var medik8sKind = schema.GroupVersionKind{Group: "remediation.medik8s.io", Version: "v1alpha1", Kind: "NodeHealthCheck"}

const medik8sResource = "nodehealthchecks.remediation.medik8s.io"

// medik8sTime is how long what was read of them is used, besides preflight checks. They are not watched, because their kind is usually not
// served.
const medik8sTime = time.Minute

// maxMedik8s is how many of them a cluster can have: each is compared with every Node, and a workload cluster can return any number.
const maxMedik8s = 200

// medik8sTimeout is that of one read.
const medik8sTimeout = 5 * time.Second

// medik8s reads the NodeHealthChecks of medik8s: what they select is left to their operator.
type medik8s struct {
	*healthcheck.Environment
	mu    sync.Mutex
	known map[client.ObjectKey]medik8sClaims
}

// medik8sClaims are the claims that were read last, and why they could not be read since; nil if they were.
type medik8sClaims struct {
	claims []healthcheck.Claim
	err    error
	until  time.Time
}

// Claims returns the claims of the checks of medik8s in the cluster of a check.
func (m *medik8s) Claims(ctx context.Context, check *healthcheck.Check, now time.Time, live bool) healthcheck.ForeignClaims {
	m.mu.Lock()
	known := m.known[check.Cluster]
	m.mu.Unlock()
	if live || !now.Before(known.until) {
		inTime, done := context.WithTimeout(ctx, medik8sTimeout)
		claims, err := m.read(inTime, check.Cluster)
		done()
		if known.err, known.until = err, now.Add(medik8sTime); err == nil {
			known.claims = claims
		} else {
			// What was read before is still used.
			known.until = now.Add(remediation.RetryTime)
			ctrl.LoggerFrom(ctx).V(4).Info("The NodeHealthChecks of medik8s could not be read", "reason", err.Error())
		}
		m.keep(check.Cluster, known, now)
	}
	result := healthcheck.ForeignClaims{Claims: known.claims}
	if known.err != nil {
		result.Unread = medik8sResource + ": " + workload.CauseOf(known.err)
	}
	if many := tooManyError(0); errors.As(known.err, &many) {
		result.Unread = many.Error()
	}
	if result.Forbidden = apierrors.IsForbidden(known.err); result.Forbidden {
		result.Unread = "the manager is not allowed to list " + medik8sResource
	}
	// Without their kind, only the next event or resync reads them again.
	if known.claims != nil || known.err != nil {
		result.Again = known.until
	}
	return result
}

// tooManyError is the number of checks of medik8s in a cluster that has more than can be compared.
type tooManyError int

// Error implements error.
func (n tooManyError) Error() string {
	return fmt.Sprintf("there are %d %s, and at most %d can be compared: delete some", int(n), medik8sResource, maxMedik8s)
}

// keep records what was read of a cluster, and drops the clusters that are not read any more.
func (m *medik8s) keep(cluster client.ObjectKey, read medik8sClaims, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil {
		m.known = map[client.ObjectKey]medik8sClaims{}
	}
	maps.DeleteFunc(m.known, func(_ client.ObjectKey, old medik8sClaims) bool { return now.Sub(old.until) > time.Hour })
	m.known[cluster] = read
}

func (m *medik8s) read(ctx context.Context, cluster client.ObjectKey) ([]healthcheck.Claim, error) {
	api, err := m.Clusters.Get(cluster).Client(ctx)
	if err != nil {
		return nil, err
	}
	// An API server need not answer with NotFound about the version of a group that it does not serve.
	mapping, err := api.RESTMapper().RESTMapping(medik8sKind.GroupKind())
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, errors.Wrapf(err, "failed to discover %s", medik8sResource)
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(mapping.GroupVersionKind.GroupVersion().WithKind(medik8sKind.Kind + "List"))
	err = api.List(ctx, list)
	switch {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, errors.Wrapf(err, "failed to read %s", medik8sResource)
	}
	if len(list.Items) > maxMedik8s {
		return nil, tooManyError(len(list.Items))
	}
	claims := make([]healthcheck.Claim, len(list.Items))
	for i := range list.Items {
		claims[i] = medik8sClaim(&list.Items[i])
	}
	return claims, nil
}

// medik8sClaim is the claim of one that selects Nodes by their labels; one without a valid selector selects all. A paused one starts
// nothing, so it only claims the Nodes that are being remediated for it.
func medik8sClaim(check *unstructured.Unstructured) healthcheck.Claim {
	selector, given := labels.Everything(), &metav1.LabelSelector{}
	content, _, _ := unstructured.NestedMap(check.Object, "spec", "selector")
	if runtime.DefaultUnstructuredConverter.FromUnstructured(content, given) == nil {
		if parsed, err := metav1.LabelSelectorAsSelector(given); err == nil && len(content) > 0 {
			selector = parsed
		}
	}
	pauses, _, _ := unstructured.NestedSlice(check.Object, "spec", "pauseRequests")
	inFlight := medik8sInFlight(check)
	return healthcheck.Claim{
		Claim: remediation.Claim{Rank: remediation.ForeignCheck, Name: check.GetName()},
		Title: medik8sResource + " " + check.GetName(), InFlight: inFlight,
		Selects: func(t *healthcheck.Target) bool {
			if len(pauses) > 0 {
				return inFlight[t.NodeTarget.Name]
			}
			return t.Reading.Node != nil && selector.Matches(labels.Set(t.Reading.Node.Labels))
		},
	}
}

// medik8sInFlight are the Nodes for which a check of medik8s has requests.
func medik8sInFlight(check *unstructured.Unstructured) map[string]bool {
	unhealthy, _, _ := unstructured.NestedSlice(check.Object, "status", "unhealthyNodes")
	names := map[string]bool{}
	for _, each := range unhealthy {
		node, _ := each.(map[string]any)
		name, _ := node["name"].(string)
		if remediations, _ := node["remediations"].([]any); len(remediations) > 0 {
			names[name] = true
		}
	}
	return names
}
