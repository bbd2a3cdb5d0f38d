// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"io"
	"net/http"
	"time"

	"github.com/pkg/errors"
	"k8s.io/client-go/rest"
)

// firstReads is a transport that repeats the first reads of a kind. An API server rejects them until its cache of the kind is filled, which
// takes milliseconds, and a client would wait for the second that the answer asks for.
type firstReads struct{ next http.RoundTripper }

func repeatFirstReads(config *rest.Config) *rest.Config {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return firstReads{next} })
	return config
}

// How often and how long a read is repeated. A cache that is not filled by then never will be, as when a conversion webhook is down.
const firstReadInterval, firstReadLimit = 20 * time.Millisecond, 300 * time.Millisecond

// RoundTrip implements http.RoundTripper.
func (f firstReads) RoundTrip(request *http.Request) (*http.Response, error) {
	for end := time.Now().Add(firstReadLimit); ; {
		response, err := f.next.RoundTrip(request)
		if err != nil || request.Method != http.MethodGet || response.StatusCode != http.StatusTooManyRequests || time.Now().After(end) {
			return response, err
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil {
			return nil, errors.Wrap(err, "failed to read an answer of the API server")
		}
		if !bytes.Contains(body, []byte("storage is (re)initializing")) {
			response.Body = io.NopCloser(bytes.NewReader(body))
			return response, nil
		}
		select {
		case <-time.After(firstReadInterval):
		case <-request.Context().Done():
			return nil, errors.WithStack(request.Context().Err())
		}
	}
}

// WrappedRoundTripper lets client-go find the transport below.
func (f firstReads) WrappedRoundTripper() http.RoundTripper { return f.next }
