// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
)

// slowly lets an API server take its time, by the clock of the controller, whenever it changes what a Machine says. After the first one something
// happens.
type slowly struct {
	next http.RoundTripper
	s    *stage
	then func()
}

func (l *slowly) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(r)
	if err == nil && r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/machines/") && strings.HasSuffix(r.URL.Path, "/status") {
		l.s.clock.Step(100 * time.Millisecond)
		l.then()
	}
	return response, err
}

// toldBefore is how many times Machines were told how they are before the first write of some kind, which is there.
func toldBefore(c *controller, is func(faults.Write) bool) int {
	c.s.t.Helper()
	all := c.Writes()
	first, told := slices.IndexFunc(all, is), 0
	c.s.Expect(first).To(BeNumerically(">", 0))
	for _, w := range all[:first] {
		if w.Resource == "machines" && w.Subresource == "status" && w.Landed() {
			told++
		}
	}
	return told
}

// statusOfCheck are the writes of what a check has found.
func statusOfCheck(w faults.Write) bool {
	return w.Resource == "machinehealthchecks" && w.Subresource == "status"
}

// signs says whether a write signs a Machine, which is the first one of an act.
func signs(machine string) func(faults.Write) bool {
	return func(w faults.Write) bool { return w.Resource == "machines" && w.Subresource == "" && w.Name == machine }
}

// TestWhoFallsIllDoesNotWaitUntilAllOthersAreTold: each Machine has to be told how it is, for the first time, and that takes long.
func TestWhoFallsIllDoesNotWaitUntilAllOthersAreTold(t *testing.T) {
	t.Parallel()
	const all, last = 60, "m-00059"
	s := newStage(t, withClock)
	s.newCrowd().come(all)
	s.check("workers")
	user := rest.CopyConfig(s.user())
	fallsIll := sync.OnceFunc(func() { s.ready(last, corev1.ConditionUnknown, 10*time.Minute) })
	user.Wrap(func(next http.RoundTripper) http.RoundTripper { return &slowly{next, s, fallsIll} })
	c, err := s.startAs(faults.Start(s.ctx), user)
	s.Expect(err).ToNot(HaveOccurred())
	t.Cleanup(c.leave)
	sick := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: last}}
	s.Eventually(get(s, sick)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
	s.Eventually(func() int { return countOf(s.told(clusterv1.MachineHealthCheckSucceededCondition), isWell) }).Should(Equal(all-1), "all are told at last")
	s.Expect(toldBefore(c, signs(last))).To(BeNumerically("<", all-1), "others were still waiting to be told")
	s.Expect(toldBefore(c, statusOfCheck)).To(BeNumerically("<", all-1), "nor does the status wait")
}
