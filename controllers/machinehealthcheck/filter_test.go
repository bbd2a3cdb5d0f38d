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
