// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// Five targets are unhealthy, and the remediation of the first one has started. Each of these changes stops the next one in the same
// reconcile.
func TestPreflight_StopDuringReconcile_StartsNoMore(t *testing.T) {
	t.Parallel()
	for name, pause := range map[string]func(s *kindStage, check *kindCheck){
		"Cluster paused": func(s *kindStage, _ *kindCheck) {
			s.Change(s.Cluster, func() { s.Cluster.Spec.Paused = ptr.To(true) })
		},
		"Cluster paused by annotation": func(s *kindStage, _ *kindCheck) { s.Annotate(s.Cluster, clusterv1.PausedAnnotation, "yes") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			startsNoMore(newKindStage(t, false), pause)
		})
		t.Run(name+", owner remediation", func(t *testing.T) {
			t.Parallel()
			startsNoMore(newKindStage(t, false), pause, byOwner)
		})
	}
	for name, change := range map[string]func(s *kindStage, check *kindCheck){
		"check paused": func(s *kindStage, check *kindCheck) { s.Annotate(check.Object, clusterv1.PausedAnnotation, "yes") },
		"pauseRequests": func(_ *kindStage, check *kindCheck) {
			check.change(func(pace *remedyv1.Pace, _ *remedyv1.Selector) { pace.PauseRequests = []string{"test"} })
		},
		"observe mode": func(_ *kindStage, check *kindCheck) {
			check.change(func(pace *remedyv1.Pace, _ *remedyv1.Selector) { pace.Mode = remedyv1.ObserveMode })
		},
		"check deleted": func(s *kindStage, check *kindCheck) { s.Expect(s.Admin.Delete(s.Ctx, check.Object)).To(Succeed()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forEachKind(t, func(s *kindStage) { startsNoMore(s, change) })
		})
		t.Run(name+", owner remediation", func(t *testing.T) {
			t.Parallel()
			startsNoMore(newKindStage(t, false), change, byOwner)
		})
	}
}

func startsNoMore(s *kindStage, change func(s *kindStage, check *kindCheck), settings ...func(*settings)) {
	s.T.Helper()
	s.createUnhealthy("m-0", "m-1", "m-2", "m-3", "m-4")
	check := s.createCheck(settings...)
	isStart, started := s.sendsRequest(http.MethodPost), atomic.Int64{}
	if len(settings) > 0 {
		isStart = stage.RequestsOwner
	}
	count := func(r *http.Request, body string) bool {
		if isStart(r, body) {
			started.Add(1)
			return true
		}
		return false
	}
	c := s.StartInterrupted(count, func() { change(s, check) })
	s.Eventually(started.Load).Should(BeNumerically(">", 0))
	c.WaitIdle()
	s.Expect(started.Load()).To(BeEquivalentTo(1))
}

// Another leader records a storm when the reconcile has planned a remediation and has reported that, and has not read the check again.
func TestPreflight_StormSincePlan_StartsNothing(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.createUnhealthy("m-1")
		check := s.createCheck(func(set *settings) { set.StormCooldownDuration = ptr.To(stage.Duration(time.Hour)) })
		byOther, status := check.DeepCopyObject().(client.Object), "/"+check.GetName()+"/status"
		var started atomic.Bool
		announces := func(r *http.Request, body string) bool {
			if s.sendsRequest(http.MethodPost)(r, body) {
				started.Store(true)
			}
			return strings.HasSuffix(r.URL.Path, status) && strings.Contains(body, string(remediation.PreflightPending))
		}
		c := s.StartInterrupted(announces, func() {
			s.Annotate(byOther, remedyv1.StormSinceAnnotation, time.Now().UTC().Format(time.RFC3339))
		})
		s.Eventually(check.decision("m-1")).Should(Equal("Blocked Storm"))
		c.WaitIdle()
		s.Expect(started.Load()).To(BeFalse(), "no remediation was started")
	})
}

// An etcd member fails, and the cache of the instance does not show it. The preflight check reads the members live.
func TestPreflight_EtcdMemberLost_BlocksRemediation(t *testing.T) {
	t.Parallel()
	stage.LockControlPlane(t)
	s := stage.New(t)
	setEtcdMember := func(name string, status metav1.ConditionStatus) {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}
		s.ChangeStatus(m, func() {
			conditions.Set(m, metav1.Condition{Type: "EtcdMemberHealthy", Status: status, Reason: "Test"})
		})
	}
	for _, name := range []string{"cp-1", "cp-2", "cp-3"} {
		s.CreateMachine(name, func(m *clusterv1.Machine) { m.Labels[clusterv1.MachineControlPlaneLabel] = "" })
		setEtcdMember(name, metav1.ConditionTrue)
	}
	check := s.CreateCheck("workers", stage.ByNewTemplate(s))
	c := s.Start()
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Healthy, BeEquivalentTo(3)))
	c.WaitIdle()
	c.Watches().Hold("machines.cluster.x-k8s.io")
	setEtcdMember("cp-2", metav1.ConditionFalse)
	s.Eventually(func() int { return c.Watches().BlockedBack("machines.cluster.x-k8s.io") }).Should(BeNumerically(">=", 1))
	s.SetReady("cp-1", corev1.ConditionUnknown, 10*time.Minute)
	s.Eventually(stage.Get(s, check), stage.OutcomeTimeout).
		Should(WithTransform(stage.Decision("cp-1"), Equal("Blocked QuorumAtRisk")), "the failed member counts")
	s.Expect(s.Requests(remediator.Metal3)).To(BeEmpty())
	c.Watches().Release()
}

// The API server fails every live read of one target.
func TestPreflight_MachineUnreadable_BlocksOnlyThatMachine(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.createUnhealthy("m-1", "m-2")
		check := s.createCheck()
		resource, _, _ := strings.Cut(s.targets, ".")
		unreadable := "/" + resource + "/" + s.name("m-1")
		var fails atomic.Bool
		fails.Store(true)
		s.startThrough(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, unreadable) || !fails.Load() {
				return next.RoundTrip(r)
			}
			return &http.Response{
				StatusCode: http.StatusInternalServerError, Status: "500 Internal Server Error", Header: http.Header{"Content-Type": {"text/plain"}},
				Body: io.NopCloser(strings.NewReader("no")), Request: r,
			}, nil
		})
		s.waitRequest("m-2")
		s.Eventually(check.decision("m-1")).Should(Equal("Blocked PreflightFailed"))
		s.Expect(check.target("m-1").Message).
			To(ContainSubstring("the facts could not be read again: the API server of the "))
		s.Expect(s.request("m-1")()).To(BeNil())

		fails.Store(false)
		s.Eventually(func() any {
			s.Advance(remediation.RetryTime)
			return s.request("m-1")()
		}).ShouldNot(BeNil())
	}, stage.WithClock)
}
