//go:build long

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
)

// fleet are many workload clusters in one real API server: as many of their own would not fit on any machine. Each is reached at a path of its own,
// where only its own Nodes are seen, and seen by names that all clusters have in common. Lists, watches and errors are those of the API server.
type fleet struct {
	s      *stage
	street *httptest.Server
	admin  client.Client
}

// fleetLabel says to which cluster a Node belongs.
const fleetLabel = "test.invalid/cluster"

func newFleet(s *stage) *fleet {
	s.t.Helper()
	target, err := url.Parse(guest.Admin.Host)
	s.Expect(err).ToNot(HaveOccurred())
	if target.Host == "" {
		target = &url.URL{Scheme: "https", Host: guest.Admin.Host}
	}
	transport, err := rest.TransportFor(guest.Admin)
	s.Expect(err).ToNot(HaveOccurred())
	f := &fleet{s: s, admin: s.inAHurry(management)}
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
	s.t.Cleanup(func() {
		f.street.CloseClientConnections()
		f.street.Close()
	})
	return f
}

// prefix is what the names of a cluster's Nodes begin with in truth.
func (f *fleet) prefix(cluster string) string { return f.s.namespace + "." + cluster + "." }

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
	at := metav1.ObjectMeta{Namespace: f.s.namespace, Name: name}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: name + "-kubeconfig"}, Data: map[string][]byte{"value": content}}
	if err := f.admin.Create(f.s.ctx, secret); err != nil {
		return err
	}
	cluster := &clusterv1.Cluster{ObjectMeta: at}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "AnyCluster", Name: name}
	if err := f.admin.Create(f.s.ctx, cluster); err != nil {
		return err
	}
	long := metav1.NewTime(time.Now().Add(-time.Hour))
	cluster.Status.Initialization = clusterv1.ClusterInitializationStatus{InfrastructureProvisioned: ptr.To(true), ControlPlaneInitialized: ptr.To(true)}
	cluster.Status.Conditions = []metav1.Condition{
		{Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue, Reason: "Initialized", LastTransitionTime: long},
		{Type: clusterv1.ClusterInfrastructureReadyCondition, Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: long},
	}
	return f.admin.Status().Update(f.s.ctx, cluster)
}
