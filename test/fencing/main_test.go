// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build fencing

package fencing_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/fencing"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/fencing/bmc"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// limit is how long anything that should happen may take on a busy machine.
const limit = 5 * time.Minute

func TestMain(m *testing.M) {
	// Scenarios wait for kubelets and for controllers most of the time.
	_ = flag.Set("test.parallel", "16")
	flag.Parse()
	if err := bmc.Missing(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(testenv.Main(m))
}

// shared is the world of most scenarios. Each has machines of its own.
var shared = struct {
	sync.Mutex
	world *fencing.World
}{}

// theWorld returns the world of most scenarios.
func theWorld(t *testing.T) *fencing.World {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.world == nil {
		shared.world = newWorld(t)
		testenv.AtEnd(shared.world.Stop)
	}
	return shared.world
}

// newWorld starts a world with the fencing manager.
func newWorld(t *testing.T) *fencing.World {
	t.Helper()
	g, begin := NewWithT(t), time.Now()
	binary := os.Getenv("REMEDY_WORLD_MANAGER")
	if binary == "" {
		binary = testenv.ManagerBinary(t)
	}
	w, err := fencing.Start(context.Background(), fencing.Options{Manager: binary})
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(w.AddUtilityNode(context.Background())).To(Succeed())
	t.Logf("a world is ready after %.1fs", time.Since(begin).Seconds())
	return w
}

// machine is a machine of a scenario, with its profile.
type machine struct {
	*fencing.Machine
	t     *testing.T
	g     *WithT
	world *fencing.World
	begin time.Time
}

// newMachine adds a machine, and a profile with a row for it.
func newMachine(t *testing.T, w *fencing.World, name string, changes ...func(*fencingv1.FenceProfile)) *machine {
	t.Helper()
	m := &machine{t: t, g: NewWithT(t), world: w, begin: time.Now()}
	var err error
	m.Machine, err = w.AddMachine(t.Context(), name, map[string]string{fencing.SiteLabel: name})
	m.g.Expect(err).ToNot(HaveOccurred())
	profile := fencing.NewProfile(fencing.Namespace, name, m.Machine)
	for _, change := range changes {
		change(profile)
	}
	m.g.Expect(w.API.Create(t.Context(), profile)).To(Succeed())
	t.Cleanup(func() {
		if t.Failed() {
			m.explain()
		}
		m.Kubelet.Leave()
	})
	return m
}

// explain prints what is known of a machine whose scenario has failed.
func (m *machine) explain() {
	fences := &fencingv1.NodeFenceList{}
	_ = m.world.API.List(context.Background(), fences, client.InNamespace(fencing.Namespace))
	for i := range fences.Items {
		if f := &fences.Items[i]; f.Annotations[remedyv1.NodeNameAnnotation] == m.Name {
			m.t.Logf("NodeFence %s: %s", f.Name, describe(f))
		}
	}
	m.t.Logf("%s: power %v, requests %v", m.Name, m.Power(), m.Requests())
	m.t.Logf("the log of the fencing manager ends with:\n%s", m.world.Fencing.Log().End(20))
}

// describe is a fence in one line.
func describe(f *fencingv1.NodeFence) string {
	text := fmt.Sprintf("%s/%s result=%q reason=%q", f.Status.Phase, f.Status.Step, f.Status.Result, f.Status.Reason)
	for _, job := range f.Status.Jobs {
		text += fmt.Sprintf(" %s:%s=%s", job.Method, job.Action, job.Result)
	}
	if release := f.Status.Release; release != nil {
		text += fmt.Sprintf(" release=%+v", *release)
	}
	if is := meta.FindStatusCondition(f.Status.Conditions, remedyv1.SucceededCondition); is != nil {
		text += fmt.Sprintf(" Succeeded=%s (%s: %s)", is.Status, is.Reason, is.Message)
	}
	return text
}

// log prints a step with its time.
func (m *machine) log(format string, args ...any) {
	m.t.Helper()
	m.t.Logf("[%5.1fs] %s: "+format, append([]any{time.Since(m.begin).Seconds(), m.Name}, args...)...)
}

// hang stops the kubelet, and waits until the node controller has noticed.
func (m *machine) hang() {
	m.t.Helper()
	m.Kubelet.Hang()
	m.untilReady(corev1.ConditionUnknown)
	m.log("Ready is Unknown")
}

func (m *machine) untilReady(status corev1.ConditionStatus) {
	m.t.Helper()
	m.g.Eventually(func() corev1.ConditionStatus { return fencing.Ready(m.node()) }, limit, 100*time.Millisecond).Should(Equal(status))
}

func (m *machine) node() *corev1.Node {
	node := &corev1.Node{}
	m.g.Expect(m.world.API.Get(context.Background(), client.ObjectKey{Name: m.Name}, node)).To(Succeed())
	return node
}

// taint is the value of the fencing taint; empty without one.
func (m *machine) taint() string {
	for _, taint := range m.node().Spec.Taints {
		if taint.Key == fencingv1.FencingTaint {
			return taint.Value
		}
	}
	return ""
}

// generous are limits for a cluster in which other scenarios break Nodes too.
var generous = fencingv1.FenceLimits{MaxParallel: ptr.To[int32](100), MaxNotReady: ptr.To(intstr.FromString("100%"))}

// fence requests a fence. Its limits allow other scenarios in the same cluster.
func (m *machine) fence(changes ...func(*fencingv1.NodeFence)) *fencingv1.NodeFence {
	m.t.Helper()
	fence := &fencingv1.NodeFence{ObjectMeta: metav1.ObjectMeta{
		Namespace: fencing.Namespace, GenerateName: m.Name + "-", Annotations: map[string]string{remedyv1.NodeNameAnnotation: m.Name},
	}}
	fence.Spec.Limits = generous
	for _, change := range changes {
		change(fence)
	}
	m.g.Expect(m.world.API.Create(m.t.Context(), fence)).To(Succeed())
	return fence
}

// once lets a fence fail at the first failure.
func once(fence *fencingv1.NodeFence) {
	fence.Spec.Retries, fence.Spec.Restarts = ptr.To[int32](0), ptr.To[int32](0)
}

// read reads a fence again.
func (m *machine) read(fence *fencingv1.NodeFence) *fencingv1.NodeFence {
	read := &fencingv1.NodeFence{}
	m.g.Expect(m.world.API.Get(context.Background(), client.ObjectKeyFromObject(fence), read)).To(Succeed())
	return read
}

// until waits until a fence matches, and returns it.
func (m *machine) until(fence *fencingv1.NodeFence, what string, matches func(*fencingv1.NodeFence) bool) *fencingv1.NodeFence {
	m.t.Helper()
	var read *fencingv1.NodeFence
	m.g.Eventually(func() bool {
		read = m.read(fence)
		return matches(read)
	}, limit, 50*time.Millisecond).Should(BeTrue(), func() string { return what + ": " + describe(read) })
	m.log("%s", what)
	return read
}

// untilEnded waits until the result of a fence is known.
func (m *machine) untilEnded(fence *fencingv1.NodeFence) *fencingv1.NodeFence {
	m.t.Helper()
	ended := m.until(fence, "the fence has ended", func(f *fencingv1.NodeFence) bool {
		is := meta.FindStatusCondition(f.Status.Conditions, remedyv1.SucceededCondition)
		return is != nil && is.Status != metav1.ConditionUnknown
	})
	m.log("%s", describe(ended))
	return ended
}

// untilGone waits until a fence does not exist.
func (m *machine) untilGone(fence *fencingv1.NodeFence) {
	m.t.Helper()
	m.g.Eventually(func() bool {
		err := m.world.API.Get(context.Background(), client.ObjectKeyFromObject(fence), &fencingv1.NodeFence{})
		return apierrors.IsNotFound(err)
	}, limit, 50*time.Millisecond).Should(BeTrue(), "the fence is not deleted")
}

// condition returns the status of a condition; empty without it.
func condition(fence *fencingv1.NodeFence, name string) metav1.ConditionStatus {
	if is := meta.FindStatusCondition(fence.Status.Conditions, name); is != nil {
		return is.Status
	}
	return ""
}

// reason returns the reason of a condition; empty without it.
func reason(fence *fencingv1.NodeFence, name string) string {
	if is := meta.FindStatusCondition(fence.Status.Conditions, name); is != nil {
		return is.Reason
	}
	return ""
}
