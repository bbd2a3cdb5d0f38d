// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
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
	started := make(chan *controller, 1)
	fallsIll := sync.OnceFunc(func() {
		s.ready(last, corev1.ConditionUnknown, 10*time.Minute)
		// Nobody goes on before that has arrived.
		c := <-started
		s.Eventually(func() bool { return c.hasHeardOf(last) }).Should(BeTrue())
	})
	user.Wrap(func(next http.RoundTripper) http.RoundTripper { return &slowly{next, s, fallsIll} })
	c, err := s.startAs(faults.Start(s.ctx), user)
	s.Expect(err).ToNot(HaveOccurred())
	t.Cleanup(c.leave)
	started <- c
	sick := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: last}}
	s.Eventually(get(s, sick)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
	s.Eventually(func() int { return countOf(s.told(clusterv1.MachineHealthCheckSucceededCondition), isWell) }).Should(Equal(all-1), "all are told at last")
	s.Expect(toldBefore(c, signs(last))).To(BeNumerically("<", all-1), "others were still waiting to be told")
	s.Expect(toldBefore(c, statusOfCheck)).To(BeNumerically("<", all-1), "nor does the status wait")
}

// stuck lets each write of what a Machine says fail, after so long by the clock of the controller that nobody else is told in that pass.
type stuck struct {
	next    http.RoundTripper
	s       *stage
	machine string
	over    *atomic.Bool
}

func (f *stuck) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/machines/"+f.machine+"/status") && !f.over.Load() {
		f.s.clock.Step(10 * time.Second)
		return nil, errors.New("a webhook has not answered")
	}
	return f.next.RoundTrip(r)
}

// TestOneWhoCannotBeToldDoesNotKeepOthersFromBeingTold: it is sick, so that it comes before those who are well.
func TestOneWhoCannotBeToldDoesNotKeepOthersFromBeingTold(t *testing.T) {
	t.Parallel()
	s := newStage(t, withClock)
	sick, next, well := s.sick("m-1"), s.sick("m-2"), s.machine("m-3")
	// Nothing is begun: an act that fails would keep it from being told.
	s.check("workers", func(spec *remedyv1.MachineHealthCheckSpec) { spec.PauseRequests = []string{"stop"} })
	user, over := rest.CopyConfig(s.user()), &atomic.Bool{}
	user.Wrap(func(next http.RoundTripper) http.RoundTripper { return &stuck{next, s, sick.Name, over} })
	c, err := s.startAs(faults.Start(s.ctx), user)
	s.Expect(err).ToNot(HaveOccurred())
	t.Cleanup(c.leave)
	s.Eventually(get(s, well)).Should(WithTransform(says(clusterv1.MachineHealthCheckSucceededCondition), Equal(isWell)))
	s.Eventually(get(s, next)).Should(WithTransform(says(clusterv1.MachineHealthCheckSucceededCondition), Equal(isSick)))
	s.Expect(says(clusterv1.MachineHealthCheckSucceededCondition)(get(s, sick)())).To(BeEmpty())
	over.Store(true)
	s.Eventually(get(s, sick)).Should(WithTransform(says(clusterv1.MachineHealthCheckSucceededCondition), Equal(isSick)))
}

// TestWhoIsWellAgainIsToldBeforeTheOthers: its owner was asked to remediate it, and deletes it as long as it does not know.
func TestWhoIsWellAgainIsToldBeforeTheOthers(t *testing.T) {
	t.Parallel()
	const all, last = 12, "m-00011"
	s := newStage(t, withClock)
	s.newCrowd().come(all)
	s.ready("m-00000", corev1.ConditionUnknown, 10*time.Minute)
	saved := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: last}}
	s.changeStatus(saved, func() {
		conditions.Set(saved, metav1.Condition{Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineHealthCheckUnhealthyNodeReason})
		conditions.Set(saved, metav1.Condition{Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineOwnerRemediatedWaitingForRemediationReason})
	})
	// Nothing is begun, and all are told in the same way.
	s.check("workers", func(spec *remedyv1.MachineHealthCheckSpec) { spec.PauseRequests = []string{"stop"} })
	user := rest.CopyConfig(s.user())
	user.Wrap(func(next http.RoundTripper) http.RoundTripper { return &slowly{next, s, func() {}} })
	c, err := s.startAs(faults.Start(s.ctx), user)
	s.Expect(err).ToNot(HaveOccurred())
	t.Cleanup(c.leave)
	s.Eventually(func() int { return countOf(s.told(clusterv1.MachineHealthCheckSucceededCondition), isWell) }).Should(Equal(all - 1))
	told := slices.DeleteFunc(c.Writes(), func(w faults.Write) bool { return w.Resource != "machines" || w.Subresource != "status" })
	s.Expect(told[0].Name).To(Equal(last))
	s.Expect(told[1].Name).To(Equal("m-00000"), "then the sick one")
}
