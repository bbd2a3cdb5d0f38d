// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

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
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// slowly lets an API server take its time, by the clock of the controller, whenever it changes what a Machine says. After the first one
// something happens.
type slowly struct {
	next http.RoundTripper
	s    *stage.Stage
	then func()
}

func (l *slowly) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(r)
	if err == nil && r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/machines/") && strings.HasSuffix(r.URL.Path, "/status") {
		l.s.Clock.Step(100 * time.Millisecond)
		l.then()
	}
	return response, err
}

// toldBefore is how many times Machines were told how they are before the first write of some kind, which is there.
func toldBefore(c *stage.Instance, is func(faults.Write) bool) int {
	c.Stage.T.Helper()
	all := c.Writes()
	first, told := slices.IndexFunc(all, is), 0
	c.Stage.Expect(first).To(BeNumerically(">", 0))
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
	s := stage.New(t, stage.WithClock)
	s.NewBulk().Create(all)
	s.CreateCheck("workers")
	user := rest.CopyConfig(s.User())
	started := make(chan *stage.Instance, 1)
	fallsIll := sync.OnceFunc(func() {
		s.SetReady(last, corev1.ConditionUnknown, 10*time.Minute)
		// Nobody goes on before that has arrived.
		c := <-started
		s.Eventually(func() bool { return c.HasCurrentNode(last) }).Should(BeTrue())
	})
	user.Wrap(func(next http.RoundTripper) http.RoundTripper { return &slowly{next, s, fallsIll} })
	c, err := s.StartAs(faults.Start(s.Ctx), user)
	s.Expect(err).ToNot(HaveOccurred())
	t.Cleanup(c.StopIdle)
	started <- c
	sick := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: last}}
	s.Eventually(stage.Get(s, sick)).
		Should(WithTransform(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition), Equal(stage.OwnerRequested)))
	s.Eventually(func() int {
		return stage.Count(s.MachineConditions(clusterv1.MachineHealthCheckSucceededCondition), stage.IsHealthy)
	}).Should(Equal(all-1), "all are told at last")
	s.Expect(toldBefore(c, signs(last))).To(BeNumerically("<", all-1), "others were still waiting to be told")
	s.Expect(toldBefore(c, statusOfCheck)).To(BeNumerically("<", all-1), "nor does the status wait")
}

// stuck lets each write of what a Machine says fail, after so long by the clock of the controller that nobody else is told in that pass.
type stuck struct {
	next    http.RoundTripper
	s       *stage.Stage
	machine string
	over    *atomic.Bool
}

func (f *stuck) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/machines/"+f.machine+"/status") && !f.over.Load() {
		f.s.Clock.Step(10 * time.Second)
		return nil, errors.New("a webhook has not answered")
	}
	return f.next.RoundTrip(r)
}

// TestOneWhoCannotBeToldDoesNotKeepOthersFromBeingTold: it is sick, so that it comes before those who are well.
func TestOneWhoCannotBeToldDoesNotKeepOthersFromBeingTold(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithClock)
	sick, next, well := s.CreateUnhealthyMachine("m-1"), s.CreateUnhealthyMachine("m-2"), s.CreateMachine("m-3")
	// Nothing is begun: an act that fails would keep it from being told.
	s.CreateCheck("workers", func(spec *remedyv1.MachineHealthCheckSpec) { spec.PauseRequests = []string{"stop"} })
	user, over := rest.CopyConfig(s.User()), &atomic.Bool{}
	user.Wrap(func(next http.RoundTripper) http.RoundTripper { return &stuck{next, s, sick.Name, over} })
	c, err := s.StartAs(faults.Start(s.Ctx), user)
	s.Expect(err).ToNot(HaveOccurred())
	t.Cleanup(c.StopIdle)
	s.Eventually(stage.Get(s, well)).
		Should(WithTransform(stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition), Equal(stage.IsHealthy)))
	s.Eventually(stage.Get(s, next)).
		Should(WithTransform(stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition), Equal(stage.IsUnhealthy)))
	s.Expect(stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition)(stage.Get(s, sick)())).To(BeEmpty())
	over.Store(true)
	s.Eventually(stage.Get(s, sick)).
		Should(WithTransform(stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition), Equal(stage.IsUnhealthy)))
}

// TestWhoIsWellAgainIsToldBeforeTheOthers: its owner was asked to remediate it, and deletes it as long as it does not know.
func TestWhoIsWellAgainIsToldBeforeTheOthers(t *testing.T) {
	t.Parallel()
	const all, last = 12, "m-00011"
	s := stage.New(t, stage.WithClock)
	s.NewBulk().Create(all)
	s.SetReady("m-00000", corev1.ConditionUnknown, 10*time.Minute)
	saved := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: last}}
	s.ChangeStatus(saved, func() {
		conditions.Set(
			saved,
			metav1.Condition{
				Type:   clusterv1.MachineHealthCheckSucceededCondition,
				Status: metav1.ConditionFalse,
				Reason: clusterv1.MachineHealthCheckUnhealthyNodeReason,
			},
		)
		conditions.Set(
			saved,
			metav1.Condition{
				Type:   clusterv1.MachineOwnerRemediatedCondition,
				Status: metav1.ConditionFalse,
				Reason: clusterv1.MachineOwnerRemediatedWaitingForRemediationReason,
			},
		)
	})
	// Nothing is begun, and all are told in the same way.
	s.CreateCheck("workers", func(spec *remedyv1.MachineHealthCheckSpec) { spec.PauseRequests = []string{"stop"} })
	user := rest.CopyConfig(s.User())
	user.Wrap(func(next http.RoundTripper) http.RoundTripper { return &slowly{next, s, func() {}} })
	c, err := s.StartAs(faults.Start(s.Ctx), user)
	s.Expect(err).ToNot(HaveOccurred())
	t.Cleanup(c.StopIdle)
	s.Eventually(func() int {
		return stage.Count(s.MachineConditions(clusterv1.MachineHealthCheckSucceededCondition), stage.IsHealthy)
	}).Should(Equal(all - 1))
	told := slices.DeleteFunc(c.Writes(), func(w faults.Write) bool { return w.Resource != "machines" || w.Subresource != "status" })
	s.Expect(told[0].Name).To(Equal(last))
	s.Expect(told[1].Name).To(Equal("m-00000"), "then the sick one")
}

// TestNothingIsToldOnMachinesAfterAPauseWasSeen: the caches do not show the pause for as long as the test lasts; what is read past them
// just before an act does. The first Machine has been seen to by then.
func TestNothingIsToldOnMachinesAfterAPauseWasSeen(t *testing.T) {
	t.Parallel()
	for what, stop := range map[string]func(s *stage.Stage, check *remedyv1.MachineHealthCheck){
		"the Cluster is paused": func(s *stage.Stage, _ *remedyv1.MachineHealthCheck) {
			s.Change(s.Cluster, func() { s.Cluster.Spec.Paused = ptr.To(true) })
		},
		"the check is paused": func(s *stage.Stage, check *remedyv1.MachineHealthCheck) {
			s.Annotate(check, clusterv1.PausedAnnotation, "yes")
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t)
			first := s.CreateUnhealthyMachine("m-1")
			s.CreateUnhealthyMachine("m-2")
			s.CreateUnhealthyMachine("m-3")
			check := s.CreateCheck("workers")
			var c *stage.Instance
			var before atomic.Int64
			started := make(chan struct{})
			c = s.StartInterrupted(stage.RequestsOwner, func() {
				<-started
				c.Watches().Hold("clusters.cluster.x-k8s.io", "machinehealthchecks.remedy.cluster.x-k8s.io")
				stop(s, check)
				before.Store(int64(len(c.Writes())))
			})
			c.NeverIdle = true
			close(started)
			s.Eventually(before.Load).Should(BeNumerically(">", 0))
			passes := c.Reconciles("workers")
			n := passes.Load()
			s.Annotate(first, stage.WakeAnnotation, "now")
			s.Eventually(passes.Load).Should(BeNumerically(">", n), "the pass is over")
			for _, w := range c.Writes()[before.Load():] {
				s.Expect(w.Resource).To(Equal("events"), w.What())
			}
			c.Watches().Release()
			s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.CheckCondition(remedyv1.PausedCondition), Equal("True Paused")))
		})
	}
}
