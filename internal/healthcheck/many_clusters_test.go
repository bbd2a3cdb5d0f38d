//go:build long

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/depth"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// TestEqualNodeNames_ManyClusters_AreNotMixedUp has a Node of the same name in every cluster, and one Machine and one check for it.
func TestEqualNodeNames_ManyClusters_AreNotMixedUp(t *testing.T) {
	s := stage.New(t)
	clusters := depth.Of(30, 300)
	f, bulk := newFleet(s), s.NewBulk()
	cluster := func(i int) string { return fmt.Sprintf("c-%03d", i) }
	machine := func(i int) *clusterv1.Machine {
		return &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "of-" + cluster(i)}}
	}
	unhealthy := func(i int) bool { return i%7 == 0 }
	bulk.Name, bulk.Cluster, bulk.Pool = func(i int) string { return machine(i).Name }, cluster, cluster
	bulk.Node = func(int) string { return "node-1" }
	bulk.NodeMeta = func(i int) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: f.prefix(cluster(i)) + "node-1", Labels: map[string]string{fleetLabel: f.prefix(cluster(i)) + "x"}}
	}
	bulk.Ready = func(i int) corev1.ConditionStatus {
		if unhealthy(i) {
			return corev1.ConditionUnknown
		}
		return corev1.ConditionTrue
	}
	s.Expect(stage.Parallel(clusters, func(i int) error { return f.createCluster(cluster(i)) })).To(Succeed())
	bulk.Create(clusters)
	for i := range clusters {
		s.CreateCheck(cluster(i), stage.OfPool(cluster(i)), func(spec *remedyv1.MachineHealthCheckSpec) { spec.ClusterName = cluster(i) })
	}
	c := s.Start()
	c.NeverIdle = true

	ownerRemediated := func() map[string]string { return s.MachineConditions(clusterv1.MachineOwnerRemediatedCondition) }
	expected := map[string]string{}
	for i := range clusters {
		expected[machine(i).Name] = ""
		if unhealthy(i) {
			expected[machine(i).Name] = stage.OwnerRequested
		}
	}
	s.Eventually(ownerRemediated).Should(Equal(expected))
	s.Eventually(func() int {
		return stage.Count(s.MachineConditions(clusterv1.MachineHealthCheckSucceededCondition), stage.IsHealthy)
	}).Should(Equal(clusters - stage.Count(expected, stage.OwnerRequested)))
	for _, check := range s.Checks() {
		s.Expect(check.Status.ExpectedMachines).To(HaveValue(BeEquivalentTo(1)), check.Name)
	}

	// One Node becomes unhealthy, the next one is deleted, and one only gets a new heartbeat.
	before := c.WaitNoReconciles()
	failed, deleted, renewed := 15, 16, 17
	change := func(i int, change func(*corev1.Node)) {
		node := &corev1.Node{ObjectMeta: bulk.NodeMeta(i)}
		s.Expect(s.Workload.Get(s.Ctx, client.ObjectKeyFromObject(node), node)).To(Succeed())
		change(node)
		s.Expect(s.Workload.Status().Update(s.Ctx, node)).To(Succeed())
	}
	change(failed, func(node *corev1.Node) {
		node.Status.Conditions[0].Status, node.Status.Conditions[0].LastTransitionTime = corev1.ConditionFalse, metav1.NewTime(
			time.Now().Add(-10*time.Minute),
		)
	})
	change(renewed, func(node *corev1.Node) {
		node.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(time.Now().Add(time.Second))
	})
	s.Expect(s.Workload.Delete(s.Ctx, &corev1.Node{ObjectMeta: bulk.NodeMeta(deleted)})).To(Succeed())
	expected[machine(failed).Name], expected[machine(deleted).Name] = stage.OwnerRequested, stage.OwnerRequested
	s.Eventually(ownerRemediated).Should(Equal(expected))
	changed := stage.Changed(before, c.WaitNoReconciles())
	s.Expect(changed).To(ContainElements(cluster(failed), cluster(deleted)))
	// On a busy machine, a call to a cluster can time out, which concerns its check.
	s.Expect(changed).ToNot(ContainElement(cluster(renewed)), "a heartbeat causes no reconcile")
	s.Expect(len(changed)).To(BeNumerically("<=", 2+clusters/20), "the other checks are not reconciled")
}

// fleet is many workload clusters in one real API server, because many API servers do not fit on one machine. Each cluster has a path of
// its own. A proxy serves only its Nodes there, under names that all clusters have in common. Lists, watches and errors are those of the
// API server.
type fleet struct {
	s      *stage.Stage
	server *httptest.Server
	admin  client.Client
}

// fleetLabel is the label of a Node with its cluster.
const fleetLabel = "test.invalid/cluster"

func newFleet(s *stage.Stage) *fleet {
	s.T.Helper()
	target, err := url.Parse(stage.Workload.Admin.Host)
	s.Expect(err).ToNot(HaveOccurred())
	if target.Host == "" {
		target = &url.URL{Scheme: "https", Host: stage.Workload.Admin.Host}
	}
	transport, err := rest.TransportFor(stage.Workload.Admin)
	s.Expect(err).ToNot(HaveOccurred())
	f := &fleet{s: s, admin: s.UnlimitedClient(stage.Management)}
	f.server = httptest.NewServer(&httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ModifyResponse: f.rewriteResponse,
		Rewrite: func(r *httputil.ProxyRequest) {
			cluster, path, _ := strings.Cut(strings.TrimPrefix(r.In.URL.Path, "/"), "/")
			r.SetURL(target)
			r.Out.URL.Path = "/" + path
			f.rewriteRequest(cluster, r.Out)
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	})
	s.T.Cleanup(func() {
		f.server.CloseClientConnections()
		f.server.Close()
	})
	return f
}

// prefix is what the names of the Nodes of a cluster begin with in the API server.
func (f *fleet) prefix(cluster string) string { return f.s.Namespace + "." + cluster + "." }

// nodesPath is the path of the Nodes.
const nodesPath = "/api/v1/nodes"

func (f *fleet) rewriteRequest(cluster string, r *http.Request) {
	if name, one := strings.CutPrefix(r.URL.Path, nodesPath+"/"); one {
		r.URL.Path = nodesPath + "/" + f.prefix(cluster) + name
	} else if r.URL.Path == nodesPath {
		query := r.URL.Query()
		query.Set("labelSelector", fleetLabel+"="+f.prefix(cluster)+"x")
		r.URL.RawQuery = query.Encode()
	}
	// rewriteResponse can only change text.
	if strings.HasPrefix(r.URL.Path, nodesPath) {
		r.Header.Set("Accept", "application/json")
	}
	r.Header.Del("Accept-Encoding")
	r.Header.Set("X-Cluster", cluster)
}

// rewriteResponse removes the prefix from all names in a response and in every event of a watch.
func (f *fleet) rewriteResponse(r *http.Response) error {
	if !strings.HasPrefix(r.Request.URL.Path, nodesPath) {
		return nil
	}
	r.Header.Del("Content-Length")
	r.ContentLength = -1
	r.Body = &prefixRemover{Closer: r.Body, lines: bufio.NewReader(r.Body), prefix: []byte(f.prefix(r.Request.Header.Get("X-Cluster")))}
	return nil
}

// prefixRemover removes a prefix wherever it occurs. A response, and each event of a watch, is one line.
type prefixRemover struct {
	io.Closer
	lines  *bufio.Reader
	prefix []byte
	rest   []byte
	err    error
}

// Read implements io.Reader.
func (r *prefixRemover) Read(into []byte) (int, error) {
	if len(r.rest) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		var line []byte
		line, r.err = r.lines.ReadBytes('\n')
		r.rest = bytes.ReplaceAll(line, r.prefix, nil)
	}
	n := copy(into, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// createCluster creates a cluster of the fleet, whose control plane and infrastructure have been ready for an hour.
func (f *fleet) createCluster(name string) error {
	content, err := controlplane.Kubeconfig(&rest.Config{Host: f.server.URL + "/" + name})
	if err != nil {
		return err
	}
	meta := metav1.ObjectMeta{Namespace: f.s.Namespace, Name: name}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: meta.Namespace, Name: name + "-kubeconfig"},
		Data:       map[string][]byte{"value": content},
	}
	if err := f.admin.Create(f.s.Ctx, secret); err != nil {
		return err
	}
	cluster := &clusterv1.Cluster{ObjectMeta: meta}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: "infrastructure.cluster.x-k8s.io",
		Kind:     "AnyCluster",
		Name:     name,
	}
	if err := f.admin.Create(f.s.Ctx, cluster); err != nil {
		return err
	}
	long := metav1.NewTime(time.Now().Add(-time.Hour))
	cluster.Status.Initialization = clusterv1.ClusterInitializationStatus{
		InfrastructureProvisioned: ptr.To(true),
		ControlPlaneInitialized:   ptr.To(true),
	}
	cluster.Status.Conditions = []metav1.Condition{
		{Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue, Reason: "Initialized", LastTransitionTime: long},
		{Type: clusterv1.ClusterInfrastructureReadyCondition, Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: long},
	}
	return f.admin.Status().Update(f.s.Ctx, cluster)
}
