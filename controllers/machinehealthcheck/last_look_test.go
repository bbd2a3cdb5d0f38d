// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// interrupter lets something happen when the first of some writes has landed, before the one who wrote it hears of that.
type interrupter struct {
	next http.RoundTripper
	is   func(r *http.Request, body string) bool
	once *sync.Once
	then func()
}

func (i *interrupter) RoundTrip(r *http.Request) (*http.Response, error) {
	body := []byte{}
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	response, err := i.next.RoundTrip(r)
	if err == nil && response.StatusCode/100 == 2 && i.is(r, string(body)) {
		i.once.Do(i.then)
	}
	return response, err
}

// startInterrupted runs the controller, and lets something happen when the first of some writes has landed.
func (s *stage) startInterrupted(is func(r *http.Request, body string) bool, then func()) *controller {
	s.t.Helper()
	user, once := s.user(), &sync.Once{}
	user = rest.CopyConfig(user)
	user.Wrap(func(next http.RoundTripper) http.RoundTripper { return &interrupter{next, is, once, then} })
	c, err := s.startAs(faults.Start(s.ctx), user)
	s.Expect(err).ToNot(HaveOccurred())
	s.t.Cleanup(c.leave)
	return c
}

// brake holds the first of some writes back, until it is let go.
type brake struct {
	next         http.RoundTripper
	is           func(r *http.Request, body string) bool
	once         *sync.Once
	about, letGo chan struct{}
}

func (b *brake) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.is(r, "") {
		b.once.Do(func() {
			close(b.about)
			<-b.letGo
		})
	}
	return b.next.RoundTrip(r)
}

// startBraked runs the controller, which stops just before the first of some writes: about is closed then, and it goes on when it is told to.
func (s *stage) startBraked(is func(r *http.Request, body string) bool) (c *controller, about <-chan struct{}, goOn func()) {
	s.t.Helper()
	reached, letGo := make(chan struct{}), make(chan struct{})
	user, once := rest.CopyConfig(s.user()), &sync.Once{}
	user.Wrap(func(next http.RoundTripper) http.RoundTripper { return &brake{next, is, once, reached, letGo} })
	c, err := s.startAs(faults.Start(s.ctx), user)
	s.Expect(err).ToNot(HaveOccurred())
	s.t.Cleanup(c.leave)
	goOn = sync.OnceFunc(func() { close(letGo) })
	// Who is held back could not be ended.
	s.t.Cleanup(goOn)
	return c, reached, goOn
}

func requestMade(r *http.Request, _ string) bool {
	return r.Method == http.MethodPost && strings.Contains(r.URL.Path, "/metal3remediations")
}

func ownerAsked(r *http.Request, body string) bool {
	return r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/status") && strings.Contains(r.URL.Path, "/machines/") &&
		strings.Contains(body, clusterv1.MachineOwnerRemediatedWaitingForRemediationReason)
}

// Many Machines are sick, and the first has been seen to. Whoever says stop then is heard before the next.
func TestWhoSaysStopIsHeardBeforeTheNextMachine(t *testing.T) {
	t.Parallel()
	stops := map[string]func(s *stage, check *remedyv1.MachineHealthCheck){
		"the Cluster is paused": func(s *stage, _ *remedyv1.MachineHealthCheck) {
			s.change(s.cluster, func() { s.cluster.Spec.Paused = ptr.To(true) })
		},
		"the check is paused": func(s *stage, check *remedyv1.MachineHealthCheck) {
			s.annotate(check, clusterv1.PausedAnnotation, "yes")
		},
		"nothing new shall begin": func(s *stage, check *remedyv1.MachineHealthCheck) {
			s.change(check, func() { check.Spec.PauseRequests = []string{"stop"} })
		},
		"the check shall observe": func(s *stage, check *remedyv1.MachineHealthCheck) {
			s.change(check, func() { check.Spec.Mode = remedyv1.ObserveMode })
		},
		"the check is deleted": func(s *stage, check *remedyv1.MachineHealthCheck) {
			s.Expect(s.admin.Delete(s.ctx, check)).To(Succeed())
		},
	}
	for stop, do := range stops {
		for by, begun := range map[string]func(*http.Request, string) bool{"by requests": requestMade, "by owners": ownerAsked} {
			t.Run(stop+", "+by, func(t *testing.T) {
				t.Parallel()
				s := newStage(t)
				for n := range 8 {
					s.sick(fmt.Sprintf("m-%d", n))
				}
				var check *remedyv1.MachineHealthCheck
				if by == "by requests" {
					check = s.check("workers", byTemplate(s))
				} else {
					check = s.check("workers")
				}
				var began atomic.Int64
				count := func(r *http.Request, body string) bool {
					if begun(r, body) {
						began.Add(1)
						return true
					}
					return false
				}
				c := s.startInterrupted(count, func() { do(s, check) })
				s.Eventually(began.Load).Should(BeNumerically(">", 0))
				c.settle()
				s.Expect(began.Load()).To(BeEquivalentTo(1))
			})
		}
	}
}

func byTemplate(s *stage) func(*remedyv1.MachineHealthCheckSpec) {
	return by(s.template(remediator.Metal3, "soft"))
}

// A member of etcd has been lost, and the controller has not heard of it yet.
func TestAQuorumIsTheOneOfNow(t *testing.T) {
	t.Parallel()
	alone(t)
	s := newStage(t)
	etcd := func(name string, status metav1.ConditionStatus) {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
		s.changeStatus(m, func() {
			conditions.Set(m, metav1.Condition{Type: "EtcdMemberHealthy", Status: status, Reason: "Asked"})
		})
	}
	for _, name := range []string{"cp-1", "cp-2", "cp-3"} {
		s.machine(name, func(m *clusterv1.Machine) { m.Labels[clusterv1.MachineControlPlaneLabel] = "" })
		etcd(name, metav1.ConditionTrue)
	}
	check := s.check("workers", byTemplate(s))
	c := s.start()
	s.Eventually(get(s, check)).Should(WithTransform(healthy, BeEquivalentTo(3)))
	c.settle()
	c.Watches().Hold("machines.cluster.x-k8s.io")
	etcd("cp-2", metav1.ConditionFalse)
	s.Eventually(func() int { return c.Watches().HeldBack("machines.cluster.x-k8s.io") }).Should(BeNumerically(">=", 1))
	s.ready("cp-1", corev1.ConditionUnknown, 10*time.Minute)
	s.Eventually(get(s, check), suspense).Should(WithTransform(holds("cp-1"), Equal("Held QuorumAtRisk")), "the loss counts")
	s.Expect(s.requests(remediator.Metal3)).To(BeEmpty())
	c.Watches().Release()
}
