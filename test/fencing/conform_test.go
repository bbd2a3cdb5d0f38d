// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build fencing

package fencing_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/fencing"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator/conform"
)

// The fencing manager is a remediator, and keeps every point of the contract.
func TestFence_Contract_IsKept(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	m := newMachine(t, w, "conform")
	template := &fencingv1.NodeFenceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: fencing.Namespace, Name: "conform"}}
	template.Spec.Template.Spec.Limits = generous
	m.g.Expect(w.API.Create(t.Context(), template)).To(Succeed())
	r := &conform.Remediator{
		Client: w.API, Node: m.Name, Wait: conform.Waiting(limit, 5*time.Second, 100*time.Millisecond),
		Break: func(context.Context) error {
			m.hang()
			return nil
		},
		Template: requests.Reference{
			APIVersion: fencingv1.GroupVersion.String(), Kind: "NodeFenceTemplate", Namespace: fencing.Namespace, Name: template.Name,
		},
	}
	results := map[string]conform.Result{}
	m.g.Expect(r.Verify(t.Context(), func(f conform.Finding) {
		results[f.Point] = f.Result
		m.log("%s: %s %s", f.Point, f.Result, f.Text)
	})).To(Succeed())
	m.g.Expect(results).To(HaveLen(8))
	m.g.Expect(results).To(HaveEach(conform.Kept))
}
