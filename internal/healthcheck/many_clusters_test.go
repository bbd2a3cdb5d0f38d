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

// TestEqualNodeNames_ManyClusters_AreNotMixedUp: every cluster has a Node of the same name, and one Machine, one check and one answer for
// it.
func TestEqualNodeNames_ManyClusters_AreNotMixedUp(t *testing.T) {
	s := stage.New(t)
	clusters := depth.Of(60, 300)
	f, people := newFleet(s), s.NewBulk()
	cluster := func(i int) string { return fmt.Sprintf("c-%03d", i) }
	machine := func(i int) *clusterv1.Machine {
		return &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "of-" + cluster(i)}}
	}
	sick := func(i int) bool { return i%7 == 0 }
	people.Name, people.Cluster, people.Pool = func(i int) string { return machine(i).Name }, cluster, cluster
	people.Node = func(int) string { return "node-1" }
	people.NodeMeta = func(i int) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: f.prefix(cluster(i)) + "node-1", Labels: map[string]string{fleetLabel: f.prefix(cluster(i)) + "x"}}
	}
	people.Ready = func(i int) corev1.ConditionStatus {
		if sick(i) {
			return corev1.ConditionUnknown
		}
		return corev1.ConditionTrue
	}
	s.Expect(stage.Parallel(clusters, func(i int) error { return f.makeCluster(cluster(i)) })).To(Succeed())
	people.Create(clusters)
	for i := range clusters {
		s.CreateCheck(cluster(i), stage.OfPool(cluster(i)), func(spec *remedyv1.MachineHealthCheckSpec) { spec.ClusterName = cluster(i) })
	}
	c := s.Start()
	c.NeverIdle = true

	marks := func() map[string]string { return s.MachineConditions(clusterv1.MachineOwnerRemediatedCondition) }
	expected := map[string]string{}
	for i := range clusters {
		expected[machine(i).Name] = ""
		if sick(i) {
			expected[machine(i).Name] = stage.OwnerRequested
		}
	}
	s.Eventually(marks).Should(Equal(expected))
	s.Eventually(func() int {
		return stage.Count(s.MachineConditions(clusterv1.MachineHealthCheckSucceededCondition), stage.IsHealthy)
	}).Should(Equal(clusters - stage.Count(expected, stage.OwnerRequested)))
	for _, check := range s.Checks() {
		s.Expect(check.Status.ExpectedMachines).To(HaveValue(BeEquivalentTo(1)), check.Name)
	}

	// One of them falls ill, the next one loses its Node, and one only beats its heart.
	before := c.WaitNoReconciles()
	ill, lost, beats := 15, 16, 17
	change := func(i int, change func(*corev1.Node)) {
		node := &corev1.Node{ObjectMeta: people.NodeMeta(i)}
		s.Expect(s.Workload.Get(s.Ctx, client.ObjectKeyFromObject(node), node)).To(Succeed())
		change(node)
		s.Expect(s.Workload.Status().Update(s.Ctx, node)).To(Succeed())
	}
	change(ill, func(node *corev1.Node) {
		node.Status.Conditions[0].Status, node.Status.Conditions[0].LastTransitionTime = corev1.ConditionFalse, metav1.NewTime(
			time.Now().Add(-10*time.Minute),
		)
	})
	change(beats, func(node *corev1.Node) {
		node.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(time.Now().Add(time.Second))
	})
	s.Expect(s.Workload.Delete(s.Ctx, &corev1.Node{ObjectMeta: people.NodeMeta(lost)})).To(Succeed())
	expected[machine(ill).Name], expected[machine(lost).Name] = stage.OwnerRequested, stage.OwnerRequested
	s.Eventually(marks).Should(Equal(expected))
	s.Expect(stage.Changed(before, c.WaitNoReconciles())).To(ConsistOf(cluster(ill), cluster(lost)), "nobody else has anything to look at")
}

// fleet are many workload clusters in one real API server: as many of their own would not fit on any machine. Each is reached at a path of
// its own, where only its own Nodes are seen, and seen by names that all clusters have in common. Lists, watches and errors are those of
// the API server.
type fleet struct {
	s      *stage.Stage
	street *httptest.Server
	admin  client.Client
}

// fleetLabel says to which cluster a Node belongs.
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
	f.street = httptest.NewServer(&httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ModifyResponse: f.answer,
		Rewrite: func(r *httputil.ProxyRequest) {
			cluster, path, _ := strings.Cut(strings.TrimPrefix(r.In.URL.Path, "/"), "/")
			r.SetURL(target)
			r.Out.URL.Path = "/" + path
			f.ask(cluster, r.Out)
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	})
	s.T.Cleanup(func() {
		f.street.CloseClientConnections()
		f.street.Close()
	})
	return f
}

// prefix is what the names of a cluster's Nodes begin with in truth.
func (f *fleet) prefix(cluster string) string { return f.s.Namespace + "." + cluster + "." }

// nodes is where Nodes are found.
const nodes = "/api/v1/nodes"

func (f *fleet) ask(cluster string, r *http.Request) {
	if name, one := strings.CutPrefix(r.URL.Path, nodes+"/"); one {
		r.URL.Path = nodes + "/" + f.prefix(cluster) + name
	} else if r.URL.Path == nodes {
		query := r.URL.Query()
		query.Set("labelSelector", fleetLabel+"="+f.prefix(cluster)+"x")
		r.URL.RawQuery = query.Encode()
	}
	// What is to be rewritten has to be text.
	if strings.HasPrefix(r.URL.Path, nodes) {
		r.Header.Set("Accept", "application/json")
	}
	r.Header.Del("Accept-Encoding")
	r.Header.Set("X-Cluster", cluster)
}

// answer takes the prefix off all names, in an answer and in every event of a watch.
func (f *fleet) answer(r *http.Response) error {
	if !strings.HasPrefix(r.Request.URL.Path, nodes) {
		return nil
	}
	r.Header.Del("Content-Length")
	r.ContentLength = -1
	r.Body = &renamed{Closer: r.Body, lines: bufio.NewReader(r.Body), prefix: []byte(f.prefix(r.Request.Header.Get("X-Cluster")))}
	return nil
}

// renamed leaves a prefix out wherever it stands. Answers, and events of a watch, are a line each.
type renamed struct {
	io.Closer
	lines  *bufio.Reader
	prefix []byte
	rest   []byte
	err    error
}

// Read implements io.Reader.
func (r *renamed) Read(into []byte) (int, error) {
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

// makeCluster makes one of the fleet, which has had a control plane for long.
func (f *fleet) makeCluster(name string) error {
	content, err := controlplane.Kubeconfig(&rest.Config{Host: f.street.URL + "/" + name})
	if err != nil {
		return err
	}
	at := metav1.ObjectMeta{Namespace: f.s.Namespace, Name: name}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: name + "-kubeconfig"},
		Data:       map[string][]byte{"value": content},
	}
	if err := f.admin.Create(f.s.Ctx, secret); err != nil {
		return err
	}
	cluster := &clusterv1.Cluster{ObjectMeta: at}
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
