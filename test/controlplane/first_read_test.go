// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"io"
	"net/http"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
)

// rejections is an API server that rejects the first requests with this text.
type rejections struct {
	left int
	text string
}

func (r *rejections) RoundTrip(request *http.Request) (*http.Response, error) {
	if r.left--; r.left < 0 {
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: request}, nil
	}
	return &http.Response{StatusCode: http.StatusTooManyRequests, Body: io.NopCloser(strings.NewReader(r.text)), Request: request}, nil
}

// Only reads of a kind whose cache is not filled are repeated. A client sees every other rejection, with its text.
func TestFirstReads_Rejected_AreRepeated(t *testing.T) {
	for _, test := range []struct {
		method, text string
		code, left   int
	}{
		{http.MethodGet, "storage is (re)initializing", http.StatusOK, -1},
		{http.MethodGet, "too many requests", http.StatusTooManyRequests, 1},
		{http.MethodPost, "storage is (re)initializing", http.StatusTooManyRequests, 1},
	} {
		t.Run(test.method+" "+test.text, func(t *testing.T) {
			g := NewWithT(t)
			server := &rejections{left: 2, text: test.text}
			config := repeatFirstReads(&rest.Config{})
			request, err := http.NewRequestWithContext(t.Context(), test.method, "https://127.0.0.1/", http.NoBody)
			g.Expect(err).ToNot(HaveOccurred())
			response, err := config.WrapTransport(server).RoundTrip(request)
			g.Expect(err).ToNot(HaveOccurred())
			defer func() { g.Expect(response.Body.Close()).To(Succeed()) }()
			g.Expect(response.StatusCode).To(Equal(test.code))
			g.Expect(server.left).To(Equal(test.left))
			text, err := io.ReadAll(response.Body)
			g.Expect(err).ToNot(HaveOccurred())
			g.Expect(string(text) == test.text).To(Equal(test.code != http.StatusOK))
		})
	}
}
