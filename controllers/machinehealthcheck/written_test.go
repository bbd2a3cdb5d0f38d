// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

func TestWhatWasWrittenIsKnownBeforeTheCacheHasIt(t *testing.T) {
	g := NewWithT(t)
	w := &written{}
	check := func(uid, version string, healthy int32) *remedyv1.MachineHealthCheck {
		c := &remedyv1.MachineHealthCheck{}
		c.Name, c.UID, c.ResourceVersion, c.Status.CurrentHealthy = "workers", types.UID(uid), version, ptr.To(healthy)
		return c
	}
	known := func(c *remedyv1.MachineHealthCheck) any {
		if !w.on(c) {
			return "nobody knows"
		}
		return *c.Status.CurrentHealthy
	}
	g.Expect(known(check("a", "9", 3))).To(Equal("nobody knows"), "another process may have written")
	w.done(check("a", "10", 2))
	g.Expect(known(check("a", "9", 3))).To(BeEquivalentTo(2), "the cache is behind, even though its version comes later in the alphabet")
	g.Expect(known(check("a", "9", 3))).To(BeEquivalentTo(2))
	g.Expect(known(check("a", "11", 1))).To(BeEquivalentTo(1), "somebody else has written since")
	g.Expect(w.checks[types.NamespacedName{Name: "workers"}].status).To(BeNil(), "what the cache has need not be kept")
	g.Expect(known(check("a", "9", 3))).To(Equal("nobody knows"), "the cache has gone back")
	w.done(check("a", "20", 2))
	g.Expect(known(check("b", "15", 3))).To(Equal("nobody knows"), "another check of that name")
	w.doubtful(check("a", "20", 2))
	g.Expect(known(check("a", "20", 2))).To(Equal("nobody knows"), "a write that has failed may have happened")
	w.done(check("a", "21", 1))
	g.Expect(known(check("a", "20", 2))).To(BeEquivalentTo(1))
	ahead := check("a", "22", 1)
	ahead.Status.ObservedGeneration = 2
	w.done(ahead)
	g.Expect(known(check("a", "21", 1))).To(Equal("nobody knows"), "the status is about a check that the cache does not have")
	w.forget(types.NamespacedName{Name: "workers"})
	g.Expect(w.checks).To(BeEmpty())
}
