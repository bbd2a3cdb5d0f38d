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
	for name, pause := range map[string]func(*kindCheck){
		"Cluster paused": func(c *kindCheck) {
			c.s.Change(c.s.Cluster, func() { c.s.Cluster.Spec.Paused = ptr.To(true) })
		},
		"Cluster paused by annotation": func(c *kindCheck) { c.s.Annotate(c.s.Cluster, clusterv1.PausedAnnotation, "yes") },
	} {
		for by, byOwner := range map[string]bool{"external remediation": false, "owner remediation": true} {
			t.Run(name+", "+by, func(t *testing.T) {
				t.Parallel()
				s := newKindStage(t, false)
				s.byOwner = byOwner
				startsNoMore(s, pause)
			})
		}
	}
	for name, change := range map[string]func(*kindCheck){
		"check paused": func(c *kindCheck) { c.s.Annotate(c.Object, clusterv1.PausedAnnotation, "yes") },
		"pauseRequests": func(c *kindCheck) {
			c.change(func(p parts) { p.PauseRequests = []string{"test"} })
		},
		"observe mode":  (*kindCheck).observe,
		"check deleted": (*kindCheck).delete,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forEachRemediation(t, func(s *kindStage) { startsNoMore(s, change) })
		})
	}
}

func startsNoMore(s *kindStage, change func(*kindCheck)) {
	s.T.Helper()
	s.createUnhealthy("m-0", "m-1", "m-2", "m-3", "m-4")
	check, started := s.createCheck(), atomic.Int64{}
	count := func(r *http.Request, body string) bool {
		if s.starts(r, body) {
			started.Add(1)
			return true
		}
		return false
	}
	c := s.StartInterrupted(count, func() { change(check) })
	s.Eventually(started.Load).Should(BeNumerically(">", 0))
	c.WaitIdle()
	s.Expect(started.Load()).To(BeEquivalentTo(1))
}

// Another leader records a storm when the reconcile has planned a remediation and has reported that, and has not read the check again.
func TestPreflight_StormSincePlan_StartsNothing(t *testing.T) {
	t.Parallel()
	forEachRemediation(t, func(s *kindStage) {
		s.createUnhealthy("m-1")
		check := s.createCheck(func(set *settings) { set.StormCooldownDuration = ptr.To(stage.Duration(time.Hour)) })
		byOther, status := check.DeepCopyObject().(client.Object), "/"+check.GetName()+"/status"
		var started atomic.Bool
		announces := func(r *http.Request, body string) bool {
			if s.starts(r, body) {
				started.Store(true)
			}
			return strings.HasSuffix(r.URL.Path, status) && strings.Contains(body, string(remediation.PreflightPending))
		}
		c := s.StartInterrupted(announces, func() {
			s.Annotate(byOther, remedyv1.StormSinceAnnotation, time.Now().UTC().Format(time.RFC3339))
		})
		s.Eventually(check.decision("m-1")).Should(Or(Equal("Blocked Storm"), Equal("Remediating ")))
		c.WaitIdle()
		s.Expect(started.Load()).To(BeFalse(), "no remediation was started")
		s.Expect(check.decision("m-1")()).To(Equal("Blocked Storm"))
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
	forEachRemediation(t, func(s *kindStage) {
		s.createUnhealthy("m-1", "m-2")
		check := s.createCheck()
		resource, _, _ := strings.Cut(s.targets, ".")
		unreadable := "/" + resource + "/" + s.name("m-1")
		var fails atomic.Bool
		fails.Store(true)
		startThrough(s.Stage, func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, unreadable) || !fails.Load() {
				return next.RoundTrip(r)
			}
			return &http.Response{
				StatusCode: http.StatusInternalServerError, Status: "500 Internal Server Error", Header: http.Header{"Content-Type": {"text/plain"}},
				Body: io.NopCloser(strings.NewReader("no")), Request: r,
			}, nil
		})
		s.Eventually(s.remediation("m-2")).ShouldNot(BeEmpty())
		s.Eventually(check.decision("m-1")).Should(Equal("Blocked PreflightFailed"))
		// Machines are in the management cluster, and Nodes in the cluster of the check.
		failed := "the API server of the management cluster returned an error"
		if s.ofNodes {
			failed = "the API server of the cluster returns errors"
		}
		s.Expect(check.target("m-1").Message).To(ContainSubstring("the facts could not be read again: " + failed))
		s.Expect(s.remediation("m-1")()).To(BeEmpty())

		fails.Store(false)
		s.Eventually(func() string {
			s.Advance(remediation.RetryTime)
			return s.remediation("m-1")()
		}).ShouldNot(BeEmpty())
	}, stage.WithClock)
}
