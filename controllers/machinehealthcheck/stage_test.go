// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/machinehealthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane/assets"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/instance"
)

// management and guest are the two clusters of all tests: the one that checks live in, and the one that plays workload clusters.
var management, guest *controlplane.ControlPlane

// log is for those who want to see what happens: go test -v.
var log logr.Logger

// patience is how long a test waits until it gives up. Nothing depends on it but that.
const patience = 30 * time.Second

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	log = logr.Discard()
	if testing.Verbose() {
		log = funcr.New(func(prefix, args string) { fmt.Fprintln(os.Stderr, prefix, args) }, funcr.Options{Verbosity: 5})
	}
	ctrl.SetLogger(log)
	started := []**controlplane.ControlPlane{&management, &guest}
	failures := make([]error, len(started))
	var all sync.WaitGroup
	for i := range started {
		all.Go(func() { *started[i], failures[i] = controlplane.Start(context.Background()) })
	}
	all.Wait()
	for i := range started {
		if failures[i] != nil {
			fmt.Fprintln(os.Stderr, failures[i])
			return 1
		}
		defer (*started[i]).Stop()
	}
	if err := prepare(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// prepare installs the kinds of Cluster API and our own, and gives the manager its rights.
func prepare(ctx context.Context) error {
	crds, err := controlplane.ClusterAPICRDs(ctx)
	if err != nil {
		return err
	}
	root, err := assets.ModuleDir(ctx, assets.ModulePath)
	if err != nil {
		return err
	}
	if err := management.InstallCRDs(crds, filepath.Join(root, "config", "crd", "bases")); err != nil {
		return err
	}
	return instance.Grant(ctx, management)
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme, remedyv1.AddToScheme} {
		NewWithT(t).Expect(add(s)).To(Succeed())
	}
	return s
}

// stage is a namespace with a Cluster, and a workload cluster behind it.
type stage struct {
	t *testing.T
	*WithT
	// admin may do everything in the management cluster, and kubelet in the workload cluster.
	admin, kubelet client.Client
	namespace      string
	cluster        *clusterv1.Cluster
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, WithT: NewWithT(t)}
	s.SetDefaultEventuallyTimeout(patience)
	s.SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	var err error
	s.admin, err = client.New(management.Admin, client.Options{Scheme: scheme(t)})
	s.Expect(err).ToNot(HaveOccurred())
	s.kubelet, err = client.New(guest.Admin, client.Options{Scheme: scheme(t)})
	s.Expect(err).ToNot(HaveOccurred())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "team-"}}
	s.Expect(s.admin.Create(t.Context(), namespace)).To(Succeed())
	s.namespace = namespace.Name
	s.makeCluster()
	return s
}

func (s *stage) makeCluster() {
	s.t.Helper()
	tls := guest.Admin.TLSClientConfig
	content, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: guest.Admin.Host, CertificateAuthorityData: tls.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {ClientCertificateData: tls.CertData, ClientKeyData: tls.KeyData}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	})
	s.Expect(err).ToNot(HaveOccurred())
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "prod-kubeconfig"}, Data: map[string][]byte{"value": content}})
	s.cluster = &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "prod"}}
	s.cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "AnyCluster", Name: "prod"}
	s.create(s.cluster)
	before := s.cluster.DeepCopy()
	s.cluster.Status.Initialization = clusterv1.ClusterInitializationStatus{InfrastructureProvisioned: ptr.To(true), ControlPlaneInitialized: ptr.To(true)}
	long := metav1.NewTime(time.Now().Add(-time.Hour))
	s.cluster.Status.Conditions = []metav1.Condition{
		{Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue, Reason: "Initialized", LastTransitionTime: long},
		{Type: clusterv1.ClusterInfrastructureReadyCondition, Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: long},
	}
	s.Expect(s.admin.Status().Patch(s.t.Context(), s.cluster, client.MergeFrom(before))).To(Succeed())
}

func (s *stage) create(o client.Object) {
	s.t.Helper()
	s.Expect(s.admin.Create(s.t.Context(), o)).To(Succeed())
}

// start runs the controller as a manager does, with the manager's own rights, until the test ends or stop is called.
func (s *stage) start(changes ...func(*machinehealthcheck.Reconciler)) (stop func()) {
	s.t.Helper()
	user, err := management.Config(controlplane.ServiceAccount(instance.Namespace, instance.ServiceAccount))
	s.Expect(err).ToNot(HaveOccurred())
	return s.startAs(s.t.Context(), user, changes...)
}

func (s *stage) startAs(ctx context.Context, user *rest.Config, changes ...func(*machinehealthcheck.Reconciler)) (stop func()) {
	s.t.Helper()
	user = rest.CopyConfig(user)
	user.QPS, user.Burst = 1000, 1000
	mgr, err := ctrl.NewManager(user, ctrl.Options{
		Scheme: scheme(s.t), Metrics: metricsserver.Options{BindAddress: "0"}, Logger: log,
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		Cache: ctrlcache.Options{
			DefaultTransform:  ctrlcache.TransformStripManagedFields(),
			ByObject:          map[client.Object]ctrlcache.ByObject{&corev1.Node{}: workload.StrippedNodes()},
			DefaultNamespaces: map[string]ctrlcache.Config{s.namespace: {}},
		},
	})
	s.Expect(err).ToNot(HaveOccurred())
	ctx, cancel := context.WithCancel(ctx)
	clusters, err := workload.New(mgr, clock.RealClock{})
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(clusters.Connect(ctx, mgr, workload.Options{UserAgent: "test", Concurrency: 10, QPS: 1000, Burst: 1000, SyncPeriod: time.Hour, OnStandby: true})).To(Succeed())
	asked, err := requests.New(ctx, requests.Options{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Config: user, Clock: clock.RealClock{}, Namespace: s.namespace})
	s.Expect(err).ToNot(HaveOccurred())
	counted, err := metrics.New(prometheus.NewPedanticRegistry())
	s.Expect(err).ToNot(HaveOccurred())
	reconciler := &machinehealthcheck.Reconciler{
		Cache: mgr.GetCache(), Live: mgr.GetAPIReader(), Client: mgr.GetClient(), Clusters: clusters, Requests: asked,
		Events: mgr.GetEventRecorder("remedy"), Metrics: counted, Clock: clock.RealClock{},
	}
	for _, change := range changes {
		change(reconciler)
	}
	s.Expect(reconciler.SetupWithManager(ctx, mgr)).To(Succeed())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		s.Expect(<-ended).To(Succeed())
	})
	s.t.Cleanup(stop)
	return stop
}

// machine makes a Machine with a healthy Node.
func (s *stage) machine(name string, changes ...func(*clusterv1.Machine)) *clusterv1.Machine {
	s.t.Helper()
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "prod", "pool": "workers"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: "workers", UID: "1", Controller: ptr.To(true)}},
	}}
	m.Spec.ClusterName, m.Spec.ProviderID = "prod", "test:///"+s.namespace+"/"+name
	m.Spec.Bootstrap.DataSecretName = ptr.To("bootstrap")
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "AnyMachine", Name: name}
	for _, change := range changes {
		change(m)
	}
	s.create(m)
	before := m.DeepCopy()
	m.Status.NodeRef = clusterv1.MachineNodeReference{Name: s.node(name)}
	s.Expect(s.admin.Status().Patch(s.t.Context(), m, client.MergeFrom(before))).To(Succeed())
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node(name)}, Spec: corev1.NodeSpec{ProviderID: m.Spec.ProviderID}}
	s.Expect(s.kubelet.Create(s.t.Context(), node)).To(Succeed())
	s.ready(name, corev1.ConditionTrue, time.Hour)
	return m
}

// node is the name of the Node of a Machine: the workload cluster is shared by all tests.
func (s *stage) node(machine string) string { return s.namespace + "-" + machine }

// ready sets the Ready condition of a Machine's Node, for so long already.
func (s *stage) ready(machine string, status corev1.ConditionStatus, lasting time.Duration) {
	s.t.Helper()
	node := &corev1.Node{}
	s.Expect(s.kubelet.Get(s.t.Context(), client.ObjectKey{Name: s.node(machine)}, node)).To(Succeed())
	before := node.DeepCopy()
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: status, Reason: "Test", LastTransitionTime: metav1.NewTime(time.Now().Add(-lasting)), LastHeartbeatTime: metav1.Now(),
	}}
	s.Expect(s.kubelet.Status().Patch(s.t.Context(), node, client.MergeFrom(before))).To(Succeed())
}

// check makes a check of all workers.
func (s *stage) check(name string, changes ...func(*remedyv1.MachineHealthCheckSpec)) *remedyv1.MachineHealthCheck {
	s.t.Helper()
	c := &remedyv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	c.Spec.ClusterName = "prod"
	c.Spec.Selector.MatchLabels = map[string]remedyv1.LabelValue{"pool": "workers"}
	c.Spec.UnhealthyConditions = []remedyv1.UnhealthyNodeCondition{
		{Type: "Ready", Status: "Unknown", Timeout: lasting(5 * time.Minute)}, {Type: "Ready", Status: "False", Timeout: lasting(5 * time.Minute)},
	}
	for _, change := range changes {
		change(&c.Spec)
	}
	s.create(c)
	return c
}

func lasting(d time.Duration) remedyv1.Duration {
	return remedyv1.Duration{Duration: metav1.Duration{Duration: d}}
}

// get reads an object again.
func get[T client.Object](s *stage, o T) func() T {
	return func() T {
		s.t.Helper()
		s.Expect(s.admin.Get(s.t.Context(), client.ObjectKeyFromObject(o), o)).To(Succeed())
		return o
	}
}

var _ = coordinationv1.Lease{}
