// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
)

func TestTrouble_EachKind_ReturnsItsError(t *testing.T) {
	tests := []struct {
		kind  faults.Fault
		is    func(error) bool
		lands bool
	}{
		{faults.Conflict, apierrors.IsConflict, false},
		{faults.TooManyRequests, apierrors.IsTooManyRequests, false},
		{faults.InternalError, apierrors.IsInternalError, false},
		{faults.Unavailable, apierrors.IsServiceUnavailable, false},
		{faults.TimeoutBefore, utilnet.IsTimeout, false},
		{faults.TimeoutAfter, utilnet.IsTimeout, true},
	}
	for _, test := range tests {
		t.Run(string(test.kind), func(t *testing.T) {
			g := NewWithT(t)
			ctx, object := t.Context(), configMap(namespaceFor(t), "a")
			g.Expect(admin.Create(ctx, object)).To(Succeed())
			p := faults.Start(ctx)
			c := clientOf(t, p.Config(cp.Admin))
			p.Trouble(faults.Trouble{Chance: 1, Kinds: []faults.Fault{test.kind}})
			object.Data["text"] = "changed"
			err := c.Update(ctx, object.DeepCopy())
			g.Expect(err).To(HaveOccurred())
			g.Expect(test.is(err)).To(BeTrue(), "got %v", err)
			g.Expect(p.Writes()[0].Fault).To(Equal(test.kind))
			g.Expect(p.Writes()[0].Landed()).To(Equal(test.lands))
			seen := &corev1.ConfigMap{}
			g.Expect(c.Get(ctx, client.ObjectKeyFromObject(object), seen)).To(Succeed(), "reads meet no trouble unless asked for")
			g.Expect(seen.Data["text"] == "changed").To(Equal(test.lands))
			p.Trouble(faults.Trouble{})
			g.Expect(c.Delete(ctx, seen)).To(Succeed())
		})
	}
	t.Run("reads", func(t *testing.T) {
		g := NewWithT(t)
		p := faults.Start(t.Context())
		c := clientOf(t, p.Config(cp.Admin))
		g.Expect(c.List(t.Context(), &corev1.NodeList{})).To(Succeed())
		p.Trouble(faults.Trouble{Chance: 1, Reads: true, Kinds: []faults.Fault{faults.Unavailable}})
		g.Expect(c.List(t.Context(), &corev1.NodeList{})).To(MatchError(apierrors.IsServiceUnavailable, "IsServiceUnavailable"))
	})
}

// TestTrouble_SameSeed_HasSameFaults: also where requests are made at the same time.
func TestTrouble_SameSeed_HasSameFaults(t *testing.T) {
	g := NewWithT(t)
	namespace := namespaceFor(t)
	for i := range 10 {
		g.Expect(admin.Create(t.Context(), configMap(namespace, fmt.Sprintf("c%d", i)))).To(Succeed())
	}
	once := func(seed uint64, chance float64) []string {
		p := faults.Start(t.Context())
		c := clientOf(t, p.Config(cp.Admin))
		p.Trouble(faults.Trouble{Seed: seed, Chance: chance, Names: []string{namespace}})
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				for range 5 {
					patch := client.RawPatch("application/merge-patch+json", []byte(`{"data":{"a":"b"}}`))
					_ = c.Patch(t.Context(), configMap(namespace, fmt.Sprintf("c%d", i)), patch)
				}
			})
		}
		all.Wait()
		var met []string
		for _, w := range p.Writes() {
			if w.Fault != "" {
				met = append(met, w.String())
			}
		}
		slices.Sort(met)
		return met
	}
	g.Expect(once(1, 0.3)).To(Equal(once(1, 0.3)))
	g.Expect(once(1, 0.3)).ToNot(Equal(once(2, 0.3)))
	g.Expect(len(once(1, 0.3))).To(And(BeNumerically(">", 5), BeNumerically("<", 30)))
	g.Expect(once(1, 1)).To(HaveLen(50))
	everything := strings.Join(once(1, 1), " ")
	for _, kind := range faults.TroubleKinds() {
		g.Expect(everything).To(ContainSubstring("[" + string(kind) + "]"))
	}
}
