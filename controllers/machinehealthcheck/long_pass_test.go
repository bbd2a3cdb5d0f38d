// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// TestARequestHasItsWholeTimeThoughItsPassTakesLong makes one of two requests five minutes after the other, in the same pass.
func TestARequestHasItsWholeTimeThoughItsPassTakesLong(t *testing.T) {
	t.Parallel()
	s := newStage(t, withClock)
	s.sick("m-1")
	s.sick("m-2")
	s.check("workers", steps(s.template(remediator.Metal3, "soft"), nil))
	c := s.startInterrupted(requestMade, func() { s.clock.Step(5 * time.Minute) })
	started := func(machine string) time.Time {
		at, err := time.Parse(time.RFC3339Nano, s.requested(remediator.Metal3, machine).GetAnnotations()[remedyv1.StartedAnnotation])
		s.Expect(err).ToNot(HaveOccurred())
		return at
	}
	s.Expect(started("m-2").Sub(started("m-1"))).To(Equal(5 * time.Minute))
	s.wait(9 * time.Minute)
	s.Eventually(s.request(remediator.Metal3, "m-1")).Should(BeNil(), "its ten minutes were over")
	c.pass()
	s.Expect(s.request(remediator.Metal3, "m-2")()).ToNot(BeNil(), "it has another minute")
	s.wait(time.Minute)
	s.Eventually(s.request(remediator.Metal3, "m-2")).Should(BeNil())
}

// TestARefusalCountsFromWhenItWasSaid: a pass that takes longer than a refusal is worth does not try again at once what was refused in it.
func TestARefusalCountsFromWhenItWasSaid(t *testing.T) {
	t.Parallel()
	s := newStage(t, withClock)
	kind := s.demanding("choosy.example.com", "ChoosyRemediation")
	s.sick("m-1")
	check := s.check("workers", by(s.template(kind, "soft")))
	first := &sync.Once{}
	user := rest.CopyConfig(s.user())
	user.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if err == nil && r.Method == http.MethodPost && strings.Contains(r.URL.Path, "/"+kind.Plural) && response.StatusCode == http.StatusUnprocessableEntity {
				first.Do(func() { s.clock.Step(time.Minute) })
			}
			return response, err
		})
	})
	c, err := s.startAs(faults.Start(s.ctx), user)
	s.Expect(err).ToNot(HaveOccurred())
	s.t.Cleanup(c.leave)
	c.restless = true
	tried := func() int {
		n := 0
		for _, w := range c.Writes() {
			if w.Verb == "create" && w.Resource == kind.Plural {
				n++
			}
		}
		return n
	}
	s.Eventually(get(s, check)).Should(WithTransform(holds("m-1"), Equal("Held RequestFailed")))
	c.pass()
	c.pass()
	s.Expect(tried()).To(Equal(1))
	s.wait(16 * time.Second)
	s.Eventually(tried).Should(Equal(2))
}
