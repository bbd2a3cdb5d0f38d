// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload_test

import (
	"context"
	"flag"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// patience is long, because test machines are shared.
const patience = 3 * time.Minute

// The first API server is that of the management cluster and of a workload cluster, too; the second is that of another workload cluster.
var (
	first  = testenv.Shared(controlplane.Management, testenv.ClusterAPIKinds("clusters"))
	second = testenv.Shared(controlplane.Workload)
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Most of the tests wait most of the time, also under the race detector.
	_ = flag.Set("test.parallel", "12")
	// Half-open connections are closed by these timeouts; by default they take 45 seconds together.
	_ = os.Setenv("HTTP2_READ_IDLE_TIMEOUT_SECONDS", "3")
	_ = os.Setenv("HTTP2_PING_TIMEOUT_SECONDS", "6")
	testenv.Main(m, first, second)
}

func clientOf(t *testing.T, cluster *testenv.Environment) client.Client {
	t.Helper()
	return testenv.NewClient(t, cluster.Admin)
}

// stage is a manager with its clusters and the notifications of its controllers.
type stage struct {
	*workload.Clusters
	t          *testing.T
	management client.Client
	namespace  string
	// answerTime is the timeout of calls. quickProbes: clusters are probed more often than in production, and a short outage counts.
	answerTime  time.Duration
	quickProbes bool
	// stop ends the manager and waits until it has ended.
	stop func()

	mu          sync.Mutex
	changes     []workload.NodeChange
	connections []client.ObjectKey
}

// newStage has a timeout of calls that a slow API server does not reach.
func newStage(t *testing.T) *stage {
	t.Helper()
	return (&stage{t: t, answerTime: patience}).enter()
}

// enter creates the namespace and starts the manager.
func (s *stage) enter() *stage {
	s.t.Helper()
	s.management, s.namespace = clientOf(s.t, first), first.Namespace(s.t)
	s.start()
	return s
}

// start starts a manager.
func (s *stage) start() {
	s.t.Helper()
	g, t := NewWithT(s.t), s.t
	mgr, err := ctrl.NewManager(rest.CopyConfig(first.Admin), ctrl.Options{
		Scheme:     testenv.Scheme,
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Logger:     logr.Discard(),
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		Cache: ctrlcache.Options{
			DefaultNamespaces: nil,
			ByObject: map[client.Object]ctrlcache.ByObject{
				&corev1.Node{}:       workload.StrippedNodes(),
				&clusterv1.Cluster{}: {Namespaces: map[string]ctrlcache.Config{s.namespace: {}}},
			},
		},
	})
	g.Expect(err).ToNot(HaveOccurred())
	s.Clusters, err = workload.New(mgr, clock.RealClock{})
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(s.Connect(t.Context(), mgr, workload.Options{UserAgent: "test", Concurrency: 10, QPS: 1000, Burst: 1000, SyncPeriod: time.Hour, OnStandby: true})).To(Succeed())
	s.RetryConnectionsAfter(time.Second)
	s.SetCallTimeout(s.answerTime)
	if s.quickProbes {
		s.ProbeEvery(250*time.Millisecond, 2*time.Second, 100*time.Millisecond)
	}
	s.listen()

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		g.Expect(<-ended).To(Succeed())
	})
	t.Cleanup(s.stop)
}

// listen records the notifications of a controller.
func (s *stage) listen() {
	s.t.Helper()
	g := NewWithT(s.t)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	s.t.Cleanup(queue.ShutDown)
	g.Expect(s.NodeSource(func(_ context.Context, change workload.NodeChange) []reconcile.Request {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changes = append(s.changes, change)
		return nil
	}).Start(s.t.Context(), queue)).To(Succeed())
	g.Expect(s.ConnectionSource(func(_ context.Context, key client.ObjectKey) []reconcile.Request {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.connections = append(s.connections, key)
		return nil
	}).Start(s.t.Context(), queue)).To(Succeed())
}

// woken returns the changes of the Nodes of a cluster with this name.
func (s *stage) woken(key client.ObjectKey, name string) []workload.NodeChange {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []workload.NodeChange
	for _, change := range s.changes {
		if change.Cluster == key && change.Name == name {
			found = append(found, change)
		}
	}
	return found
}

func (s *stage) notificationsOf(key client.ObjectKey) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	count := 0
	for _, told := range s.connections {
		if told == key {
			count++
		}
	}
	return count
}

// cluster creates a Cluster whose API server is reached through the proxy.
func (s *stage) cluster(name string, cp *testenv.Environment, way *proxy) client.ObjectKey {
	s.t.Helper()
	return s.clusterWith(name, kubeconfigOf(s.t, cp.Admin, way))
}

func (s *stage) clusterWith(name string, kubeconfig *clientcmdapi.Config) client.ObjectKey {
	s.t.Helper()
	key := client.ObjectKey{Namespace: s.namespace, Name: name}
	s.putKubeconfig(key, kubeconfig)
	s.provision(s.createCluster(key), true)
	return key
}

func (s *stage) createCluster(key client.ObjectKey) *clusterv1.Cluster {
	s.t.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "AnyCluster", Name: key.Name}
	NewWithT(s.t).Expect(s.management.Create(s.t.Context(), cluster)).To(Succeed())
	return cluster
}

// provision makes the infrastructure of a Cluster ready, and its control plane if this is set.
func (s *stage) provision(cluster *clusterv1.Cluster, controlPlane bool) {
	s.t.Helper()
	before := cluster.DeepCopy()
	cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	if controlPlane {
		cluster.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	}
	NewWithT(s.t).Expect(s.management.Status().Patch(s.t.Context(), cluster, client.MergeFrom(before))).To(Succeed())
}

func (s *stage) putKubeconfig(key client.ObjectKey, kubeconfig *clientcmdapi.Config) {
	s.t.Helper()
	g := NewWithT(s.t)
	content, err := clientcmd.Write(*kubeconfig)
	g.Expect(err).ToNot(HaveOccurred())
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name + "-kubeconfig"}, Data: map[string][]byte{"value": content}}
	if err := s.management.Create(s.t.Context(), secret); err != nil {
		g.Expect(s.management.Update(s.t.Context(), secret)).To(Succeed())
	}
}

// kubeconfigOf returns a kubeconfig for an API server, as this user and through this proxy.
func kubeconfigOf(t *testing.T, user *rest.Config, way *proxy) *clientcmdapi.Config {
	t.Helper()
	g := NewWithT(t)
	server := user.Host
	if way != nil {
		server = "https://" + way.at
	}
	tls := user.TLSClientConfig
	g.Expect(tls.CAData).ToNot(BeEmpty())
	return &clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: server, CertificateAuthorityData: tls.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {ClientCertificateData: tls.CertData, ClientKeyData: tls.KeyData}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}
}

// addressOf returns the address of an API server.
func addressOf(t *testing.T, cp *testenv.Environment) string {
	t.Helper()
	at, err := url.Parse(cp.Admin.Host)
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	if at.Host == "" {
		return cp.Admin.Host
	}
	return at.Host
}

// up waits until the Nodes of a cluster can be read.
func (s *stage) up(key client.ObjectKey) {
	s.t.Helper()
	NewWithT(s.t).Eventually(func() error {
		_, err := s.Get(key).Nodes(s.t.Context())
		return err
	}, patience, 20*time.Millisecond).Should(Succeed())
}

func (s *stage) read(key client.ObjectKey, targets ...workload.Target) []workload.Reading {
	return s.Get(key).Read(s.t.Context(), workload.ReadRequest{Initialized: true, Targets: targets})
}

func (s *stage) readLive(key client.ObjectKey, targets ...workload.Target) []workload.Reading {
	return s.Get(key).Live().Read(s.t.Context(), workload.ReadRequest{Initialized: true, Targets: targets})
}

// addNode adds a Node until the end of the test.
func addNode(t *testing.T, cp *testenv.Environment, name, providerID string) *corev1.Node {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: providerID}}
	cp.CreateUntilEnd(t, node)
	before := node.DeepCopy()
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
		LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now(),
	}}
	NewWithT(t).Expect(cp.API.Status().Patch(t.Context(), node, client.MergeFrom(before))).To(Succeed())
	return node
}
