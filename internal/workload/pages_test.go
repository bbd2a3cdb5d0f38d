// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A real API server returns a list in pages.
func TestLive_ManyNodes_AreReadInPages(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := newStage(t)
	var all sync.WaitGroup
	for part := range 5 {
		all.Go(func() {
			for i := range 101 {
				second.CreateUntilEnd(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("page-%d-%d", part, i)}})
			}
		})
	}
	all.Wait()
	key := s.cluster("prod", second, nil)
	s.up(key)
	nodes, err := s.Get(key).Live().Nodes(t.Context())
	g.Expect(err).ToNot(HaveOccurred())
	found := 0
	for _, node := range nodes {
		if strings.HasPrefix(node.Name, "page-") {
			found++
		}
	}
	g.Expect(found).To(Equal(505))
}
