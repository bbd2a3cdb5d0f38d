// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
)

// TestWhatHasEndedIsWrittenDownOnce: the write that would tell it fails, or seems to.
func TestWhatHasEndedIsWrittenDownOnce(t *testing.T) {
	t.Parallel()
	for _, fault := range []faults.Fault{faults.Refuse, faults.LoseRequest, faults.LoseAnswer} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.sick("m-1")
			check := s.check("workers")
			c := s.start()
			s.Eventually(get(s, check)).Should(WithTransform(holds("m-1"), Equal("Remediating ")))
			c.settle()
			met, err := c.FailWriteOf(func(w faults.Write) bool { return w.Resource == "machinehealthchecks" && w.Subresource == "status" }, 1, fault)
			s.Expect(err).ToNot(HaveOccurred())
			s.ready("m-1", corev1.ConditionTrue, 0)
			s.Eventually(met).Should(Receive())
			s.Eventually(get(s, check)).Should(WithTransform(healthy, BeEquivalentTo(1)))
			c.settle()
			s.Expect(outcomes(get(s, check)())).To(Equal([]string{"m-1 Recovered"}))
		})
	}
}
