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

// liveStore has a check of which one version is read live.
type liveStore struct {
	Store
	live *Check
}

func (l liveStore) Find(context.Context, client.Reader, client.ObjectKey) (*Check, *clusterv1.Cluster, error) {
	return l.live, nil, nil
}

// A cache that is older than the last write must not be compared with: an untrue status would stay.
func TestCurrent_CacheIsOlderThanOwnWrite_ReadsLive(t *testing.T) {
	g := NewWithT(t)
	check := func(uid, version string) *Check {
		c := &remedyv1.MachineHealthCheck{}
		c.UID, c.ResourceVersion = types.UID(uid), version
		return &Check{Object: c}
	}
	live := liveStore{live: check("a", "10")}
	r, one := &Reconciler{Environment: &Environment{}, Store: live}, &record{}
	version := func(cached *Check) string {
		got, _, err := r.current(t.Context(), one, cached, nil)
		g.Expect(err).ToNot(HaveOccurred())
		return got.Object.GetResourceVersion()
	}
	g.Expect(version(check("a", "9"))).To(Equal("10"), "after a start another process may have written")
	g.Expect(version(check("a", "9"))).To(Equal("10"), "the cache is older, although its version comes later in the alphabet")
	g.Expect(version(check("a", "11"))).To(Equal("11"), "the cache is newer")
	g.Expect(version(check("b", "12"))).To(Equal("10"), "another check of that name")
	one.version = ""
	g.Expect(version(check("a", "10"))).To(Equal("10"), "a write that has failed may have happened")
	g.Expect(one.version).To(Equal("10"))
}
