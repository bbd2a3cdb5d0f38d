// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
)

// The API server loses the event of a deletion, and the watch continues. No other event shows that the request does not exist any more. It is
// listed again after a time.
func TestWatch_EventLost_IsListedAgain(t *testing.T) {
	s := settled(t)
	s.stop()
	process := faults.Start(t.Context())
	s.begin(t.Context(), process.Config(s.quietConfig()))
	s.usable(s.check("a"), s.reference())
	request := s.kind.NewRequest(s.namespace, "m-1")
	s.Expect(admin.Create(t.Context(), request)).To(Succeed())
	known := func() bool {
		found, _ := s.requests.Get(s.kind.GroupVersionKind, client.ObjectKeyFromObject(request))
		return found != nil
	}
	s.Eventually(known).Should(BeTrue())
	resource := s.kind.Plural + "." + s.kind.Group
	process.Watches().Drop(resource)
	s.Expect(admin.Delete(t.Context(), request)).To(Succeed())
	s.Eventually(func() int { return process.Watches().Dropped(resource) }).Should(Equal(1))
	process.Watches().Release(resource)
	s.Expect(known()).To(BeTrue())
	s.wakes()
	s.clock.Step(listInterval)
	s.wokenFor(func() bool { return !known() })
}
