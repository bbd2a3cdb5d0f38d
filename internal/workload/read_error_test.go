// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// canary is a value that must not be shown.
const canary = "s3cr3t-t0ken"

var nodes = schema.GroupResource{Resource: "nodes"}

// failures are the errors of a read. None of them proves that a Node does not exist.
var failures = []struct {
	why    string
	err    error
	reason ReadErrorReason
}{
	{"no connection", errors.Wrap(errNotConnected, canary), NotConnected},
	{"unauthorized", apierrors.NewUnauthorized(canary), Unauthorized},
	{"not allowed", apierrors.NewForbidden(nodes, "a", errors.New(canary)), Forbidden},
	{"too many requests", apierrors.NewTooManyRequests(canary, 1), Busy},
	{"the rate limiter of the client", errors.Wrap(context.DeadlineExceeded, "client rate limiter Wait returned an error: "+canary), NotAnswering},
	{"a timeout of the API server", apierrors.NewTimeoutError(canary, 1), NotAnswering},
	{"a timeout of the storage", apierrors.NewServerTimeout(nodes, canary, 1), NotAnswering},
	{"a timeout of the network", way(&net.OpError{Op: "read", Err: &timeout{}}), NotAnswering},
	{"a canceled context", way(context.Canceled), Stopped},
	{"an error of the API server", apierrors.NewInternalError(errors.New(canary)), Failing},
	{"an API server that is not ready", apierrors.NewServiceUnavailable(canary), Failing},
	{"a conflict", apierrors.NewConflict(nodes, "a", errors.New(canary)), Failing},
	{"an expired list", apierrors.NewResourceExpired(canary), Failing},
	{"a 404 that a client made up", apierrors.NewGenericServerResponse(http.StatusNotFound, "get", nodes, "a", canary, 0, true), Failing},
	{"a 404 for something else", apierrors.NewNotFound(nodes, "b"), Failing},
	{"a 404 for another kind", apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "a"), Failing},
	{"a 404 without details", &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}}, Failing},
	{"a 404 in name only", &apierrors.StatusError{ErrStatus: metav1.Status{
		Reason: metav1.StatusReasonNotFound, Code: http.StatusOK, Details: &metav1.StatusDetails{Kind: "nodes", Name: "a"},
	}}, Failing},
	{"an API without Nodes", &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: canary}}, Failing},
	{"an unknown certificate", way(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}), Untrusted},
	{"no TLS at all", way(tls.RecordHeaderError{Msg: canary}), Untrusted},
	{"a client certificate that is not accepted", way(&net.OpError{Op: "remote error", Err: tls.AlertError(42)}), Untrusted},
	{"refused", way(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), Unreachable},
	{"reset", way(&net.OpError{Op: "read", Err: syscall.ECONNRESET}), Unreachable},
	{"cut in the middle", way(io.ErrUnexpectedEOF), Unreachable},
	{"no such host", way(&net.DNSError{Err: canary, Name: canary}), Unreachable},
	{"an unknown error", errors.New(canary), Failing},
}

// way returns an error of the network as a client reports it.
func way(err error) error {
	return &url.Error{Op: "Get", URL: "https://" + canary + "@10.0.0.1:6443/api/v1/nodes/a?token=" + canary, Err: err}
}

type timeout struct{}

func (timeout) Error() string { return canary }
func (timeout) Timeout() bool { return true }

func TestReadError_AnyFailure_IsUnreadable(t *testing.T) {
	for _, test := range failures {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			b := newBench(t)
			b.api.failure = test.err
			readings := append(b.read(t, Target{Name: "a"}), b.readLive(t, Target{Name: "a"})...)
			readings = append(readings, b.readLive(t, Target{ProviderID: "id://a"})...)
			for _, r := range readings {
				g.Expect(r.State).To(Equal(health.Unreadable))
				g.Expect(r.Node).To(BeNil())
				g.Expect(ReadErrorReasonOf(r.Err)).To(Equal(test.reason))
				g.Expect(r.Err.Error()).ToNot(ContainSubstring(canary))
				g.Expect(r.Err.Error()).ToNot(BeEmpty())
			}
		})
	}
}

func TestReadError_EachReason_HasUniqueMessage(t *testing.T) {
	g := NewWithT(t)
	said := map[string]ReadErrorReason{}
	for obstacle, sentence := range messages {
		g.Expect(sentence).ToNot(BeEmpty())
		g.Expect(said).ToNot(HaveKey(sentence))
		said[sentence] = obstacle
	}
	g.Expect(ReadErrorReasonOf(nil)).To(BeEmpty())
	for _, test := range failures {
		g.Expect(messages).To(HaveKey(test.reason))
	}
}

// TestRead_NoAPIServer_IsUnreadable has a real client and servers that are no API servers.
func TestRead_NoAPIServer_IsUnreadable(t *testing.T) {
	tests := []struct {
		why    string
		status int
		kind   string
		body   string
		state  health.NodeState
	}{
		{"a load balancer", http.StatusNotFound, "text/plain", "404 page not found", health.Unreadable},
		{"a web server", http.StatusNotFound, "text/html", "<html>not found</html>", health.Unreadable},
		{"a web server that answers every path", http.StatusOK, "text/html", "<html>welcome</html>", health.Unreadable},
		{"an empty answer", http.StatusOK, "application/json", "", health.Unreadable},
		{"an empty object", http.StatusOK, "application/json", "{}", health.Unreadable},
		{
			"another API server's 404", http.StatusNotFound, "application/json",
			`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`, health.Unreadable,
		},
		{"a proxy with authentication", http.StatusProxyAuthRequired, "text/plain", "", health.Unreadable},
		{"a gateway without anything behind it", http.StatusBadGateway, "text/html", "", health.Unreadable},
		{"a redirect to a log-in", http.StatusFound, "text/html", "", health.Unreadable},
		{"an empty list without a resourceVersion", http.StatusOK, "application/json", `{"kind":"NodeList","apiVersion":"v1","items":[]}`, health.Unreadable},
		{
			"an API server", http.StatusNotFound, "application/json",
			`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"nodes \"a\" not found","reason":"NotFound","details":{"name":"a","kind":"nodes"},"code":404}`,
			health.Gone,
		},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
				answer.Header().Set("Content-Type", test.kind)
				answer.WriteHeader(test.status)
				_, _ = io.Copy(answer, strings.NewReader(test.body))
			}))
			t.Cleanup(server.Close)
			b := newBench(t)
			b.wire.api = realClient(t, server.URL)
			g.Expect(b.readLive(t, Target{Name: "a"})[0].State).To(Equal(test.state))
			g.Expect(b.readLive(t, Target{})[0].State).To(Equal(health.Unreadable), "a list confirms nothing either")
		})
	}
}

// TestRead_UnconfirmedNotFound_ListDecides has an API server, such as that of Cluster API's in-memory infrastructure, whose
// NotFound status names another kind and name.
func TestRead_UnconfirmedNotFound_ListDecides(t *testing.T) {
	g := NewWithT(t)
	list := `{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}`
	server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		answer.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(request.URL.Path, "/nodes") {
			_, _ = io.WriteString(answer, list)
			return
		}
		answer.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(answer, `{"ErrStatus":{"status":"Failure","message":"Node \"/a\" not found","reason":"NotFound","details":{"name":"/a","kind":"Node"},"code":404}}`)
	}))
	t.Cleanup(server.Close)
	b := newBench(t)
	b.wire.api = realClient(t, server.URL)
	g.Expect(b.readLive(t, Target{Name: "a"})[0].State).To(Equal(health.Gone))
	list = `{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"}}]}`
	g.Expect(b.readLive(t, Target{Name: "a"})[0].State).To(Equal(health.Present))
	list = `{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"more"},"items":[]}`
	g.Expect(b.readLive(t, Target{Name: "a"})[0].State).To(Equal(health.Unreadable), "a part of a list")
}

func realClient(t *testing.T, address string) client.Client {
	t.Helper()
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion})
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	api, err := client.New(&rest.Config{Host: address}, client.Options{Scheme: scheme.Scheme, Mapper: mapper})
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	return api
}
