// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"context"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/intree"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
)

// stage is a namespace with a Cluster, and a workload cluster behind it.
type stage struct {
	t testing.TB
	*WithT
	// ctx lasts longer than the test itself: what is cleaned up is looked at, too.
	ctx context.Context
	// admin may do everything in the management cluster, and kubelet in the workload cluster.
	admin, kubelet client.Client
	namespace      string
	// readiness is the status of Ready that the test has given the Nodes of Machines last.
	readiness sync.Map
	// book is where it is written down what happens, if it is.
	book    *audit
	cluster *clusterv1.Cluster
	// clock is that of the controllers, if it is not the real one.
	clock *testingclock.FakeClock
	// proxy is the way to the workload cluster, if it is not the direct one.
	proxy *faults.Proxy
	// workers is how many checks it works on at the same time; one if it is zero.
	workers int
	// sync is how often the controllers look at everything again, if it is not the usual time. filter selects the checks that they act for, if it
	// is not all, and observe is their ceiling.
	sync    *time.Duration
	filter  string
	observe bool
	// takesOver is which of Cluster API's checks they take over. The tests say what Cluster API's own controller would say.
	takesOver intree.TakesOver
	// firstRead happens when a controller has read a check from its cache for the first time.
	firstRead func(c *controller)
}

// newStage is where a test plays. What the controllers leave behind is inspected at the end.
func newStage(t testing.TB, changes ...func(*stage)) *stage {
	t.Helper()
	s := &stage{t: t, WithT: NewWithT(t), ctx: context.WithoutCancel(t.Context())}
	s.SetDefaultEventuallyTimeout(patience)
	s.SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	var err error
	s.admin, err = client.New(management.Admin, client.Options{Scheme: scheme(t)})
	s.Expect(err).ToNot(HaveOccurred())
	s.kubelet, err = client.New(guest.Admin, client.Options{Scheme: scheme(t)})
	s.Expect(err).ToNot(HaveOccurred())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "team-"}}
	s.Expect(s.admin.Create(s.ctx, namespace)).To(Succeed())
	s.namespace = namespace.Name
	for _, change := range changes {
		change(s)
	}
	s.makeCluster("prod")
	t.Cleanup(s.inspect)
	return s
}

// withClock lets a test say how late it is.
func withClock(s *stage) { s.clock = testingclock.NewFakeClock(time.Now()) }

// withWorkers lets the controller look at several checks at the same time, as a manager does.
func withWorkers(s *stage) { s.workers = 10 }

// withProxy lets a test cut the workload cluster off.
func withProxy(s *stage) { s.throughProxy() }

// throughProxy leads to the workload cluster through a proxy.
func (s *stage) throughProxy(options ...faults.ProxyOption) {
	s.t.Helper()
	var err error
	s.proxy, err = faults.ProxyFor(guest.Admin, options...)
	s.Expect(err).ToNot(HaveOccurred())
	s.t.Cleanup(s.proxy.Close)
}

// makeCluster makes a Cluster whose control plane and infrastructure have been there for long.
func (s *stage) makeCluster(name string) {
	s.t.Helper()
	config := guest.Admin
	if s.proxy != nil {
		var err error
		config, err = s.proxy.Config(guest.Admin)
		s.Expect(err).ToNot(HaveOccurred())
	}
	s.makeClusterAt(name, config)
}

// makeClusterAt makes one that is reached in a way of its own.
func (s *stage) makeClusterAt(name string, config *rest.Config) {
	s.t.Helper()
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name + "-kubeconfig"}, Data: map[string][]byte{"value": s.kubeconfig(config)}})
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "AnyCluster", Name: name}
	s.create(cluster)
	long := metav1.NewTime(time.Now().Add(-time.Hour))
	s.changeStatus(cluster, func() {
		cluster.Status.Initialization = clusterv1.ClusterInitializationStatus{InfrastructureProvisioned: ptr.To(true), ControlPlaneInitialized: ptr.To(true)}
		cluster.Status.Conditions = []metav1.Condition{
			{Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue, Reason: "Initialized", LastTransitionTime: long},
			{Type: clusterv1.ClusterInfrastructureReadyCondition, Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: long},
		}
	})
	if name == "prod" {
		s.cluster = cluster
	}
}

func (s *stage) kubeconfig(to *rest.Config) []byte {
	s.t.Helper()
	content, err := controlplane.Kubeconfig(to)
	s.Expect(err).ToNot(HaveOccurred())
	return content
}

func (s *stage) create(o client.Object) {
	s.t.Helper()
	s.Expect(s.admin.Create(s.ctx, o)).To(Succeed())
}

// change reads an object, changes it, and writes it.
func (s *stage) change(o client.Object, change func()) {
	s.t.Helper()
	s.Expect(s.admin.Get(s.ctx, client.ObjectKeyFromObject(o), o)).To(Succeed())
	before := o.DeepCopyObject().(client.Object)
	change()
	s.Expect(s.admin.Patch(s.ctx, o, client.MergeFrom(before))).To(Succeed())
}

// changeStatus does the same with its status.
func (s *stage) changeStatus(o client.Object, change func()) {
	s.t.Helper()
	s.Expect(s.admin.Get(s.ctx, client.ObjectKeyFromObject(o), o)).To(Succeed())
	before := o.DeepCopyObject().(client.Object)
	change()
	s.Expect(s.admin.Status().Patch(s.ctx, o, client.MergeFrom(before))).To(Succeed())
}

// annotate sets an annotation, or removes it where the value is empty.
func (s *stage) annotate(o client.Object, key, value string) {
	s.t.Helper()
	s.change(o, func() {
		annotations := o.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = value
		if value == "" {
			delete(annotations, key)
		}
		o.SetAnnotations(annotations)
	})
}

// wait lets time pass, and wakes the checks up.
func (s *stage) wait(d time.Duration) {
	s.t.Helper()
	s.clock.Step(d)
	s.nudge()
}

// get reads an object again.
func get[T client.Object](s *stage, o T) func() T {
	return func() T {
		s.t.Helper()
		s.Expect(s.admin.Get(s.ctx, client.ObjectKeyFromObject(o), o)).To(Succeed())
		return o
	}
}
