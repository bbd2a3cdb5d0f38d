// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package differential_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/intree"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// The actions of the reconcilers are compared on a real API server: the same scenario runs in two namespaces. The in-tree reconciler reconciles
// one of them, and Remedy the other.

// server has the kinds of Cluster API, of Remedy, and of a remediator. No other package uses it: both controllers act as an administrator here,
// and Remedy then looks for requests in every kind that is served.
var server = testenv.New(testenv.ClusterAPIKinds(), testenv.RemedyKinds, testenv.RemediationKinds(remediator.Metal3))

func TestMain(m *testing.M) { testenv.Main(m) }

// environment is a namespace with a Cluster. The API server of the management cluster is also that of the workload cluster.
type environment struct {
	t *testing.T
	*WithT
	ctx       context.Context
	api       client.Client
	namespace string
	cluster   *clusterv1.Cluster
	// takesOver selects the in-tree checks that Remedy adopts.
	takesOver intree.AdoptionPolicy
	// watchFilter is the --watch-filter of the manager; empty for all checks. observes: mode Observe.
	watchFilter string
	observes    bool
}

// newEnvironments returns one for the in-tree reconciler and one for Remedy.
func newEnvironments(t *testing.T) (inTreeEnv, remedyEnv *environment) {
	t.Helper()
	return newEnvironment(t), newEnvironment(t)
}

func newEnvironment(t *testing.T) *environment {
	t.Helper()
	a := &environment{t: t, WithT: NewWithT(t), ctx: context.WithoutCancel(t.Context())}
	a.namespace = server.Use(t).Namespace(t)
	a.api = testenv.NewClient(t, server.Admin)
	a.create(&corev1.Secret{ObjectMeta: a.meta(clusterName + "-kubeconfig"), Data: map[string][]byte{"value": a.kubeconfig()}})
	a.cluster = &clusterv1.Cluster{ObjectMeta: a.meta(clusterName)}
	a.cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "AnyCluster", Name: clusterName}
	a.create(a.cluster)
	long := metav1.NewTime(time.Now().Add(-time.Hour))
	a.changeStatus(a.cluster, func() {
		a.cluster.Status.Initialization = clusterv1.ClusterInitializationStatus{InfrastructureProvisioned: ptr.To(true), ControlPlaneInitialized: ptr.To(true)}
		a.cluster.Status.Conditions = []metav1.Condition{
			{Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue, Reason: "Initialized", LastTransitionTime: long},
			{Type: clusterv1.ClusterInfrastructureReadyCondition, Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: long},
		}
	})
	return a
}

func (a *environment) kubeconfig() []byte {
	a.t.Helper()
	content, err := controlplane.Kubeconfig(server.Admin)
	a.Expect(err).ToNot(HaveOccurred())
	return content
}

func (a *environment) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: a.namespace, Name: name}
}

func (a *environment) create(o client.Object) {
	a.t.Helper()
	a.Expect(a.api.Create(a.ctx, o)).To(Succeed())
}

func (a *environment) changeStatus(o client.Object, change func()) {
	a.t.Helper()
	a.Expect(a.api.Get(a.ctx, client.ObjectKeyFromObject(o), o)).To(Succeed())
	before := o.DeepCopyObject().(client.Object)
	change()
	a.Expect(a.api.Status().Patch(a.ctx, o, client.MergeFrom(before))).To(Succeed())
}

// nodeless makes a Machine that does not name a Node.
func (a *environment) nodeless(name string, changes ...func(*clusterv1.Machine)) *clusterv1.Machine {
	a.t.Helper()
	m := &clusterv1.Machine{ObjectMeta: a.meta(name)}
	m.Labels = map[string]string{clusterv1.ClusterNameLabel: clusterName, poolLabel: "a"}
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: "workers", UID: "1", Controller: ptr.To(true)}}
	m.Spec.ClusterName, m.Spec.ProviderID = clusterName, "test:///"+a.namespace+"/"+name
	m.Spec.Bootstrap.DataSecretName = ptr.To("bootstrap")
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "AnyMachine", Name: name}
	for _, change := range changes {
		change(m)
	}
	a.create(m)
	return m
}

// machine makes a Machine with a Node that is ready.
func (a *environment) machine(name string, changes ...func(*clusterv1.Machine)) *clusterv1.Machine {
	a.t.Helper()
	m := a.nodeless(name, changes...)
	a.changeStatus(m, func() { m.Status.NodeRef.Name = a.node(m) })
	a.join(m)
	a.turn(m, corev1.ConditionTrue, time.Hour)
	return m
}

// node is the name of a Machine's Node: all workload clusters are the same.
func (a *environment) node(m *clusterv1.Machine) string { return a.namespace + "-" + m.Name }

// join makes the Node of a Machine.
func (a *environment) join(m *clusterv1.Machine) {
	a.t.Helper()
	a.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: a.node(m)}, Spec: corev1.NodeSpec{ProviderID: m.Spec.ProviderID}})
}

// turn sets whether the Node of a Machine is ready, for so long already.
func (a *environment) turn(m *clusterv1.Machine, status corev1.ConditionStatus, lasting time.Duration) {
	a.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: a.node(m)}}
	a.changeStatus(node, func() {
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, Reason: "Test", LastTransitionTime: metav1.NewTime(time.Now().Add(-lasting))}}
	})
}

// falls lets the Node of a Machine have been silent for long.
func (a *environment) falls(m *clusterv1.Machine) {
	a.t.Helper()
	a.turn(m, corev1.ConditionUnknown, 10*time.Minute)
}

// conditionOf is a condition of a Machine; empty if it does not exist.
func (a *environment) condition(m *clusterv1.Machine, kind string) func() string {
	return func() string {
		a.t.Helper()
		a.Expect(a.api.Get(a.ctx, client.ObjectKeyFromObject(m), m)).To(Succeed())
		if c := conditions.Get(m, kind); c != nil {
			return string(c.Status) + " " + c.Reason
		}
		return ""
	}
}

// health are the conditions of a Machine about its health.
func (a *environment) health(m *clusterv1.Machine) func() string {
	return a.condition(m, clusterv1.MachineHealthCheckSucceededCondition)
}

const (
	isWell = "True " + clusterv1.MachineHealthCheckSucceededReason
	isSick = "False " + clusterv1.MachineHealthCheckUnhealthyNodeReason
)
