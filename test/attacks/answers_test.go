// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package attacks_test

import (
	"bytes"
	"compress/gzip"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// hostile is the API server of a workload cluster that answers reads of the Node of one Machine as it likes.
func hostile(s *stage.Stage, node string, answer http.HandlerFunc) {
	s.T.Helper()
	hostileServer(s, func(honest *httputil.ReverseProxy, w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/nodes/"+node) {
			answer(w, r)
		} else {
			honest.ServeHTTP(w, r)
		}
	})
}

// hostileLists is the API server of a workload cluster that changes the lists of a resource. It serves no streaming lists, and only JSON.
func hostileLists(s *stage.Stage, resource string, change func(list string) string) {
	s.T.Helper()
	hostileServer(s, func(honest *httputil.ReverseProxy, w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		watch := query.Get("watch") != "" && !query.Has("sendInitialEvents")
		if watch || r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/"+resource) {
			honest.ServeHTTP(w, r)
			return
		}
		if query.Has("sendInitialEvents") {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
			return
		}
		// Only the Nodes of the test: JSON cannot hold the times that other tests write to Nodes.
		if resource == "nodes" {
			query.Set("labelSelector", labels.FormatLabels(s.NodeLabels()))
			r.URL.RawQuery = query.Encode()
		}
		r.Header.Set("Accept", "application/json")
		changing := *honest
		changing.ModifyResponse = func(response *http.Response) error {
			body, err := io.ReadAll(response.Body)
			body = []byte(change(string(body)))
			response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			response.Header.Set("Content-Length", strconv.Itoa(len(body)))
			return err
		}
		changing.ServeHTTP(w, r)
	})
}

// hostileServer is the API server of a workload cluster. It can pass requests to an honest one.
func hostileServer(s *stage.Stage, serve func(honest *httputil.ReverseProxy, w http.ResponseWriter, r *http.Request)) {
	s.T.Helper()
	honest := honestProxy(s.WithT, stage.Workload.Admin)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(honest, w, r) }))
	s.T.Cleanup(server.CloseClientConnections)
	changeKubeconfig(s, func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
		c.Server, c.TLSServerName = server.URL, ""
		c.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	})
}

// honestProxy passes requests to an API server.
func honestProxy(g *WithT, to *rest.Config) *httputil.ReverseProxy {
	host, err := url.Parse(to.Host)
	g.Expect(err).ToNot(HaveOccurred())
	honest := httputil.NewSingleHostReverseProxy(host)
	honest.Transport, err = rest.TransportFor(to)
	g.Expect(err).ToNot(HaveOccurred())
	honest.FlushInterval = -1
	return honest
}

// withoutNode creates a Machine whose Node does not exist, so that the Node is read live.
func withoutNode(s *stage.Stage) (node string) {
	s.T.Helper()
	s.CreateMachine("m-1")
	s.Expect(s.Workload.Delete(s.Ctx, s.Node("m-1"))).To(Succeed())
	return s.NodeName("m-1")
}

// unreadable waits until the check reports that no Node can be read, and returns the message.
func unreadable(s *stage.Stage, check *remedyv1.MachineHealthCheck) string {
	s.T.Helper()
	s.Eventually(stage.Get(s, check)).
		Should(WithTransform(stage.CheckCondition(remedyv1.ClusterReachableCondition), Equal("False NodesUnreadable")))
	return meta.FindStatusCondition(check.Status.Conditions, remedyv1.ClusterReachableCondition).Message
}

// A tenant who runs a workload cluster has the manager send requests to any host of its network, with a path and a query of their choice.
func TestAnswers_Redirect_IsNotFollowed(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	var sent atomic.Int64
	victim := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { sent.Add(1) }))
	t.Cleanup(victim.Close)
	hostile(s, withoutNode(s), func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, victim.URL+"/admin?delete=all", http.StatusFound)
	})
	check := s.CreateCheck("workers")
	s.Start().NeverIdle = true
	s.Eventually(func() string { return unreadable(s, check) }).
		Should(ContainSubstring("redirects a request, and the manager follows no redirect"))
	s.Expect(sent.Load()).To(BeZero())
	outcome(t, "a redirect to another host: %d requests were sent there", sent.Load())
}

// Half a megabyte of gzip has the manager read half a gigabyte, which ends its process for all tenants.
func TestAnswers_Compressed_HaveALimit(t *testing.T) {
	t.Parallel()
	const size, limit, buffered = 600 << 20, 16 << 20, 16 << 20
	s := stage.New(t)
	node := withoutNode(s)
	var most atomic.Int64
	hostile(s, node, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		body := io.Writer(w)
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			compressed := gzip.NewWriter(w)
			defer compressed.Close() //nolint:errcheck // the client may be gone
			body = compressed
		}
		_, err := fmt.Fprintf(body, `{"kind":"Node","apiVersion":"v1","metadata":{"name":%q,"resourceVersion":"1","annotations":{"a":"`, node)
		written := 0
		for block := bytes.Repeat([]byte("A"), 1<<20); err == nil && written < size; written += len(block) {
			_, err = body.Write(block)
		}
		_, _ = io.WriteString(body, `"}}}`)
		most.Store(max(most.Load(), int64(written)))
	})
	check := s.CreateCheck("workers")
	s.Start().NeverIdle = true
	message := unreadable(s, check)
	s.Eventually(most.Load).Should(And(BeNumerically(">", 0), BeNumerically("<=", limit+buffered)))
	outcome(t, "an answer of %d MB: %d MB were read; %s", size>>20, most.Load()>>20, message)
}
