// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
)

// TestAMachineThatCannotBeReadAgainHoldsNobodyElse: the API server fails for one Machine, whenever it is asked for that one.
func TestAMachineThatCannotBeReadAgainHoldsNobodyElse(t *testing.T) {
	t.Parallel()
	s := newStage(t, withClock)
	unreadable, other := s.sick("m-1"), s.sick("m-2")
	check := s.check("workers")
	var fails atomic.Bool
	fails.Store(true)
	user := rest.CopyConfig(s.user())
	user.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/machines/m-1") || !fails.Load() {
				return next.RoundTrip(r)
			}
			return &http.Response{
				StatusCode: http.StatusInternalServerError, Status: "500 Internal Server Error", Header: http.Header{"Content-Type": {"text/plain"}},
				Body: io.NopCloser(strings.NewReader("no")), Request: r,
			}, nil
		})
	})
	c, err := s.startAs(faults.Start(s.ctx), user)
	s.Expect(err).ToNot(HaveOccurred())
	t.Cleanup(c.leave)
	s.Eventually(get(s, other)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
	s.Eventually(get(s, check)).Should(WithTransform(holds("m-1"), Equal("Held NotConfirmed")))
	s.Expect(said("m-1")(check)).To(ContainSubstring("the facts could not be read again: the management cluster does not answer as it should"))
	s.Expect(says(clusterv1.MachineOwnerRemediatedCondition)(get(s, unreadable)())).To(BeEmpty())

	fails.Store(false)
	s.Eventually(func() string {
		s.wait(remediation.RetryTime)
		return says(clusterv1.MachineOwnerRemediatedCondition)(get(s, unreadable)())
	}).Should(Equal(marked))
}
