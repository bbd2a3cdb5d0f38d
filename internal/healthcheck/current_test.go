// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// readingStore is a store that only reads.
type readingStore struct{ Store }

func (readingStore) Find(ctx context.Context, reader client.Reader, key client.ObjectKey) (*Check, *clusterv1.Cluster, error) {
	check, cluster := &remedyv1.MachineHealthCheck{}, &clusterv1.Cluster{}
	if err := reader.Get(ctx, key, check); err != nil {
		return nil, nil, err
	}
	return &Check{Object: check}, cluster, reader.Get(ctx, client.ObjectKey{Name: "prod"}, cluster)
}

// reader returns one version of every object, and counts the checks.
type reader struct {
	client.Reader
	uid     types.UID
	version string
	checks  int
}

func (r *reader) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	object.SetUID(r.uid)
	object.SetResourceVersion(r.version)
	if _, is := object.(*remedyv1.MachineHealthCheck); is {
		r.checks++
	}
	return nil
}

// A status is compared with the last one that was written. If the cache is older than that, an outdated status would stay.
func TestCurrent_CacheIsOlderThanOwnWrite_IsNotUsed(t *testing.T) {
	g := NewWithT(t)
	check := func(uid, version string) *Check {
		c := &remedyv1.MachineHealthCheck{}
		c.UID, c.ResourceVersion = types.UID(uid), version
		return &Check{Object: c}
	}
	live, cache := &reader{uid: "a", version: "10"}, &reader{version: "7"}
	r, memory := &Reconciler{Environment: &Environment{Live: live, Cache: cache}, Store: readingStore{}}, &record{}
	version := func(cached *Check) string {
		got, _, err := r.current(t.Context(), memory, cached, nil)
		g.Expect(err).ToNot(HaveOccurred())
		return got.Object.GetResourceVersion()
	}
	g.Expect(version(check("a", "9"))).To(Equal("10"), "an earlier process can have written the check")
	g.Expect(version(check("a", "9"))).To(Equal("10"), "versions are compared as numbers")
	g.Expect(version(check("a", "11"))).To(Equal("11"), "the cache is newer")
	g.Expect(memory.written).To(BeNil(), "the cache has it")
	g.Expect(version(check("b", "12"))).To(Equal("10"), "a new check with the same name")
	memory.version = ""
	g.Expect(version(check("a", "10"))).To(Equal("10"), "a failed write can have succeeded")
	g.Expect(memory.version).To(Equal("10"))

	written := check("a", "12").Object
	memory.wrote(written)
	got, cluster, err := r.current(t.Context(), memory, check("a", "9"), nil)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(got.Object).To(Equal(written), "as it was written")
	g.Expect(cluster.ResourceVersion).To(Equal("7"), "its Cluster is from the cache")
	g.Expect([]int{live.checks, cache.checks}).To(Equal([]int{4, 0}))
	written.SetDeletionTimestamp(&metav1.Time{})
	g.Expect(version(check("a", "9"))).To(Equal("10"), "one that is being deleted may no longer exist")
}
