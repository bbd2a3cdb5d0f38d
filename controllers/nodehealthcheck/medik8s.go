// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"context"
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
)

// +kubebuilder:rbac:groups=remediation.medik8s.io,resources=nodehealthchecks,verbs=list

// medik8sKind are the checks of another project. Its operator runs in the cluster of the Nodes.
var medik8sKind = schema.GroupVersionKind{Group: "remediation.medik8s.io", Version: "v1alpha1", Kind: "NodeHealthCheck"}

// medik8sTime is how long what was read of them is used. They are not watched, because their kind is usually not served.
const medik8sTime = 5 * time.Minute

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

type medik8sClaims struct {
	claims []healthcheck.Claim
	until  time.Time
}

// Claims returns the claims of the checks of medik8s in the cluster of a check, and when to read them again; zero if there are none.
func (m *medik8s) Claims(ctx context.Context, check *healthcheck.Check, now time.Time) ([]healthcheck.Claim, time.Time, error) {
	m.mu.Lock()
	known, found := m.known[check.Cluster]
	m.mu.Unlock()
	if !found || !now.Before(known.until) {
		inTime, done := context.WithTimeout(ctx, medik8sTimeout)
		claims, err := m.read(inTime, check.Cluster)
		done()
		if err != nil {
			// What was read before is still used, and the next reconcile reads again.
			ctrl.LoggerFrom(ctx).V(4).Info("The NodeHealthChecks of medik8s could not be read", "reason", err.Error())
			return known.claims, now.Add(remediation.RetryTime), nil
		}
		known = medik8sClaims{claims, now.Add(medik8sTime)}
		m.mu.Lock()
		if m.known == nil {
			m.known = map[client.ObjectKey]medik8sClaims{}
		}
		m.known[check.Cluster] = known
		m.mu.Unlock()
	}
	if len(known.claims) == 0 {
		return nil, time.Time{}, nil
	}
	return known.claims, known.until, nil
}

func (m *medik8s) read(ctx context.Context, cluster client.ObjectKey) ([]healthcheck.Claim, error) {
	api, err := m.Clusters.Get(cluster).Client(ctx)
	if err != nil {
		return nil, err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(medik8sKind.GroupVersion().WithKind(medik8sKind.Kind + "List"))
	err = api.List(ctx, list)
	switch {
	// The user of a kubeconfig may lack the permission, and usually there are none.
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, errors.Wrapf(err, "failed to read nodehealthchecks.%s", medik8sKind.Group)
	}
	claims := make([]healthcheck.Claim, 0, min(len(list.Items), maxMedik8s))
	for i := range cap(claims) {
		claims = append(claims, medik8sClaim(&list.Items[i]))
	}
	return claims, nil
}

// medik8sClaim is the claim of one that selects Nodes by their labels; one without a valid selector selects all.
func medik8sClaim(check *unstructured.Unstructured) healthcheck.Claim {
	selector, given := labels.Everything(), &metav1.LabelSelector{}
	content, _, _ := unstructured.NestedMap(check.Object, "spec", "selector")
	if runtime.DefaultUnstructuredConverter.FromUnstructured(content, given) == nil {
		if parsed, err := metav1.LabelSelectorAsSelector(given); err == nil && len(content) > 0 {
			selector = parsed
		}
	}
	return healthcheck.Claim{
		Claim: remediation.Claim{Rank: remediation.ForeignMachineHealthCheck, Name: check.GetName()},
		Title: "nodehealthchecks." + medik8sKind.Group + " " + check.GetName(),
		Selects: func(t *healthcheck.Target) bool {
			return t.Reading.Node != nil && selector.Matches(labels.Set(t.Reading.Node.Labels))
		},
	}
}
