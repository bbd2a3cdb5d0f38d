// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/jobs"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

var scheme = testenv.NewScheme()

// env is an API server with the permissions and policies of the fencing manager.
var env = testenv.New(
	testenv.RemedyKinds, fencingKinds, testenv.ClusterAPIKinds("clusters", "machines"), testenv.Namespaces("remedy-system"),
	testenv.Manifests("fencing/rbac/*.yaml"), testenv.Manifests("fencing/policy/*.yaml"),
)

var fencingManager = controlplane.ServiceAccount("remedy-system", "remedy-fencing-manager")

func fencingKinds(_ context.Context, e *testenv.Environment) error {
	return e.InstallCRDs(filepath.Join("..", "..", "..", "config", "fencing", "crd", "bases"))
}

func TestMain(m *testing.M) {
	utilruntime.Must(fencingv1.AddToScheme(scheme))
	testenv.Main(m)
}

// errFault is the error of a write that fails in a test.
var errFault = errors.New("the manager was killed")

// stage is a Node with a BMC, and what reconciles its fences. Its Jobs end when a test plays them.
type stage struct {
	*WithT
	t         *testing.T
	admin     client.Client
	r         *Reconciler
	clock     *clocktesting.FakeClock
	events    *events.FakeRecorder
	namespace string
	node      *corev1.Node
	// off is the power of the machine. answer is what its BMC does; nil for an honest one.
	off    bool
	answer func(method, action string) (exitCode int32, message string)
	// played are the actions of Jobs that have run.
	played []string
	// kills counts how often the manager was killed after a write, if mortal.
	mortal bool
	kills  int
}

func newStage(t *testing.T) *stage {
	env.Use(t)
	s := &stage{WithT: NewWithT(t), t: t, clock: clocktesting.NewFakeClock(time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC))}
	// Tests are not limited.
	unlimited := rest.CopyConfig(env.Admin)
	unlimited.QPS = -1
	admin, err := client.New(unlimited, client.Options{Scheme: scheme})
	s.Expect(err).ToNot(HaveOccurred())
	s.admin, s.namespace, s.events = admin, env.Namespace(t), events.NewFakeRecorder(1000)
	config := env.ConfigOf(t, fencingManager)
	config.QPS = -1
	live, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	s.Expect(err).ToNot(HaveOccurred())
	manager := interceptor.NewClient(live, s.killer())
	counted, err := NewMetrics(prometheus.NewRegistry())
	s.Expect(err).ToNot(HaveOccurred())
	s.r = &Reconciler{
		Client: manager, Live: live, Events: s.events, Metrics: counted, Clock: s.clock, OwnNodesNamespace: s.namespace,
		Nodes: func(context.Context, client.ObjectKey) (client.Client, error) { return manager, nil },
	}
	s.deleteNodes()
	for _, name := range []string{"worker-1", "worker-2", "worker-3"} {
		s.createNode(name)
	}
	s.node = s.getNode("worker-1")
	s.ready("worker-1", corev1.ConditionUnknown, "boot-1")
	return s
}

// deleteNodes deletes the Nodes of other tests, which would count against the limits, and their Pods.
func (s *stage) deleteNodes() {
	s.Expect(s.admin.DeleteAllOf(s.t.Context(), &corev1.Node{})).To(Succeed())
	all := &corev1.PodList{}
	s.Expect(s.admin.List(s.t.Context(), all)).To(Succeed())
	for i := range all.Items {
		s.Expect(client.IgnoreNotFound(s.admin.Delete(s.t.Context(), &all.Items[i], client.GracePeriodSeconds(0)))).To(Succeed())
	}
}

func (s *stage) createNode(name string) {
	s.Expect(s.admin.Create(s.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	s.ready(name, corev1.ConditionTrue, "boot-"+name)
}

func (s *stage) getNode(name string) *corev1.Node {
	node := &corev1.Node{}
	s.Expect(s.admin.Get(s.t.Context(), client.ObjectKey{Name: name}, node)).To(Succeed())
	return node
}

func (s *stage) ready(name string, status corev1.ConditionStatus, boot string) {
	node := s.getNode(name)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	node.Status.NodeInfo.BootID = boot
	s.Expect(s.admin.Status().Update(s.t.Context(), node)).To(Succeed())
}

// killer lets a write of the manager fail after it was done: the manager is killed before the write returns.
func (s *stage) killer() interceptor.Funcs {
	after := func(err error) error {
		if err != nil {
			return err
		}
		if s.mortal {
			s.kills++
			return errFault
		}
		return nil
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			return after(c.Create(ctx, object, options...))
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			return after(c.Patch(ctx, object, patch, options...))
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			return after(c.Delete(ctx, object, options...))
		},
		SubResourceUpdate: func(
			ctx context.Context, c client.Client, sub string, object client.Object, options ...client.SubResourceUpdateOption,
		) error {
			return after(c.SubResource(sub).Update(ctx, object, options...))
		},
	}
}

// profile creates a FenceProfile with a row for worker-1.
func (s *stage) profile(change ...func(*fencingv1.FenceProfile)) {
	p := &fencingv1.FenceProfile{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "rack"},
		Spec: fencingv1.FenceProfileSpec{
			Image:           "registry.example.com/fence-agents:4.12",
			Methods:         []fencingv1.FenceMethod{{Name: "ipmi", Agent: "fence_ipmilan", SecretName: "bmc"}},
			PowerManagement: []fencingv1.PowerLevel{{Methods: []fencingv1.MethodName{"ipmi"}}},
			Nodes: []fencingv1.FenceProfileNode{{Name: "worker-1", Parameters: map[string]fencingv1.Parameters{
				"ipmi": {"ip": "127.0.0.1"},
			}}},
		},
	}
	for _, c := range change {
		c(p)
	}
	s.Expect(s.admin.Create(s.t.Context(), p)).To(Succeed())
}

// fence creates a NodeFence for worker-1.
func (s *stage) fence(name string, change ...func(*fencingv1.NodeFence)) *fencingv1.NodeFence {
	f := &fencingv1.NodeFence{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.namespace, Name: name, Annotations: map[string]string{"remediation.medik8s.io/node-name": "worker-1"},
	}}
	for _, c := range change {
		c(f)
	}
	s.Expect(s.admin.Create(s.t.Context(), f)).To(Succeed())
	return f
}

func (s *stage) get(f *fencingv1.NodeFence) *fencingv1.NodeFence {
	found := &fencingv1.NodeFence{}
	s.Expect(s.admin.Get(s.t.Context(), client.ObjectKeyFromObject(f), found)).To(Succeed())
	return found
}

// reconcile reconciles a NodeFence once. A manager that was killed starts again.
func (s *stage) reconcile(f *fencingv1.NodeFence) ctrl.Result {
	for range 40 {
		result, err := s.r.Reconcile(s.t.Context(), requestFor(f))
		if errors.Is(err, errFault) {
			s.r.failures.Clear()
			s.r.clusters.Clear()
			continue
		}
		s.Expect(err).ToNot(HaveOccurred())
		return result
	}
	s.t.Fatal("the manager was killed too often")
	return ctrl.Result{}
}

// run reconciles and plays Jobs until neither changes anything, and then lets time pass, until the fence has ended or a condition holds.
func (s *stage) run(f *fencingv1.NodeFence, until func(*fencingv1.NodeFence) bool) {
	for range 200 {
		s.reconcile(f)
		found := &fencingv1.NodeFence{}
		if err := s.admin.Get(s.t.Context(), client.ObjectKeyFromObject(f), found); apierrors.IsNotFound(err) || until(found) {
			return
		}
		if !s.playJobs() {
			s.clock.Step(10 * time.Second)
		}
	}
	s.t.Fatalf("the fence does not end: %+v", s.get(f).Status)
}

// playJobs ends the Jobs that have not ended, and reports whether there was one.
func (s *stage) playJobs() bool {
	all := &batchv1.JobList{}
	s.Expect(s.admin.List(s.t.Context(), all, client.InNamespace(s.namespace))).To(Succeed())
	played := false
	for i := range all.Items {
		job := &all.Items[i]
		if len(job.Status.Conditions) == 0 {
			s.play(job)
			played = true
		}
	}
	return played
}

// honest is a BMC that works.
func (s *stage) honest(_, action string) (int32, string) {
	switch action {
	case "status":
		if s.off {
			return 2, "Status: OFF"
		}
		return 0, "Status: ON"
	case "off":
		s.off = true
		s.ready("worker-1", corev1.ConditionUnknown, "boot-1")
	case "on":
		s.off = false
		s.ready("worker-1", corev1.ConditionTrue, "boot-2")
	}
	return 0, "Success"
}

func (s *stage) play(job *batchv1.Job) {
	action, answer := job.Labels[jobs.ActionLabel], s.answer
	if answer == nil {
		answer = s.honest
	}
	code, message := answer(job.Labels[jobs.MethodLabel], action)
	s.played = append(s.played, job.Labels[jobs.MethodLabel]+" "+action)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: job.Namespace, Name: job.Name + "-pod", Labels: map[string]string{batchv1.JobNameLabel: job.Name},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))},
	}, Spec: job.Spec.Template.Spec}
	s.Expect(s.admin.Create(s.t.Context(), pod)).To(Succeed())
	phase, kind := corev1.PodSucceeded, batchv1.JobComplete
	if code != 0 {
		phase, kind = corev1.PodFailed, batchv1.JobFailed
	}
	pod.Status = corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{
		Name:  pod.Spec.Containers[0].Name,
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message}},
	}}}
	s.Expect(s.admin.Status().Update(s.t.Context(), pod)).To(Succeed())
	now := metav1.Now()
	job.Status.StartTime = &now
	if kind == batchv1.JobComplete {
		job.Status.CompletionTime, job.Status.Succeeded = &now, 1
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
			Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue, LastTransitionTime: now,
		})
	} else {
		job.Status.Failed = 1
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
			Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue, LastTransitionTime: now,
		})
	}
	job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
		Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now,
	})
	s.Expect(s.admin.Status().Update(s.t.Context(), job)).To(Succeed())
}

// drained are the reasons of the events so far.
func (s *stage) drained() string {
	var reasons []string
	for {
		select {
		case event := <-s.events.Events:
			if words := strings.Fields(event); !strings.Contains(strings.Join(reasons, " "), words[1]) {
				reasons = append(reasons, words[1])
			}
		default:
			return strings.Join(reasons, " ")
		}
	}
}

func final(f *fencingv1.NodeFence) bool {
	return f.Status.Phase == fencingv1.PhaseFinal && f.Annotations[fencingv1.FinishedAnnotation] != ""
}

func failed(f *fencingv1.NodeFence) bool {
	return f.Status.Phase == fencingv1.PhaseError && f.Status.Result == fencingv1.ResultFailed
}

func condition(f *fencingv1.NodeFence, kind string) string {
	c := meta.FindStatusCondition(f.Status.Conditions, kind)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}

func requestFor(f *fencingv1.NodeFence) ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKeyFromObject(f)}
}
