// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"testing"

	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// TestAWatchFilterSelectsChecksAndNotTheirClusters has a check with the label, and a Cluster without it.
func TestAWatchFilterSelectsChecksAndNotTheirClusters(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(s *stage) { s.filter = "a" })
	s.machine("m-1")
	check := s.check("workers")
	s.change(check, func() { check.Labels = map[string]string{clusterv1.WatchLabel: s.filter} })
	s.start()
	s.Eventually(get(s, check)).Should(WithTransform(healthy, BeEquivalentTo(1)))
}

// TestACheckGoesToAnotherInstance: this one forgets it, and knows it again when it comes back.
func TestACheckGoesToAnotherInstance(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(s *stage) { s.filter = "a" })
	s.sick("m-1")
	check := s.check("workers")
	label := func(value string) {
		s.change(check, func() { check.Labels = map[string]string{clusterv1.WatchLabel: value} })
	}
	label("a")
	c := s.start()
	known := func() bool { return c.judged("workers") }
	s.Eventually(known).Should(BeTrue())
	c.settle()
	label("b")
	s.Eventually(known).Should(BeFalse())
	writes := len(c.Writes())
	c.pass()
	s.Expect(known()).To(BeFalse())
	s.Expect(c.Writes()[writes:]).To(BeEmpty())
	label("a")
	s.Eventually(known).Should(BeTrue())
}
