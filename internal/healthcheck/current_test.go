// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// liveStore is a store with one version of a check to read live.
type liveStore struct {
	Store
	live *Check
}

func (l liveStore) Find(context.Context, client.Reader, client.ObjectKey) (*Check, *clusterv1.Cluster, error) {
	return l.live, nil, nil
}

// A status is compared with the last one that was written. If the cache is older than that, an outdated status would stay.
func TestCurrent_CacheIsOlderThanOwnWrite_ReadsLive(t *testing.T) {
	g := NewWithT(t)
	check := func(uid, version string) *Check {
		c := &remedyv1.MachineHealthCheck{}
		c.UID, c.ResourceVersion = types.UID(uid), version
		return &Check{Object: c}
	}
	live := liveStore{live: check("a", "10")}
	r, memory := &Reconciler{Environment: &Environment{}, Store: live}, &record{}
	version := func(cached *Check) string {
		got, _, err := r.current(t.Context(), memory, cached, nil)
		g.Expect(err).ToNot(HaveOccurred())
		return got.Object.GetResourceVersion()
	}
	g.Expect(version(check("a", "9"))).To(Equal("10"), "an earlier process can have written the check")
	g.Expect(version(check("a", "9"))).To(Equal("10"), "versions are compared as numbers")
	g.Expect(version(check("a", "11"))).To(Equal("11"), "the cache is newer")
	g.Expect(version(check("b", "12"))).To(Equal("10"), "a new check with the same name")
	memory.version = ""
	g.Expect(version(check("a", "10"))).To(Equal("10"), "a failed write can have succeeded")
	g.Expect(memory.version).To(Equal("10"))
}
