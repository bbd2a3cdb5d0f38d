// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"context"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A workload cluster may answer anything, and decoding needs up to a thousand times the memory that an answer has bytes. So a transport reads
// each answer, counts what it contains, and waits for the memory that decoding it needs, before a client decodes it.
const (
	// maxAnswer is how many bytes of an answer are read. A page of 250 Nodes with many images has 6 MiB.
	maxAnswer = 8 << 20
	// maxItems is how many objects a list can have, in one page or in all. Kubernetes supports 5,000 Nodes.
	maxItems = 20_000
	// maxValues is how many values an answer can have. A page of 250 Nodes in JSON has two thirds of it.
	maxValues = 150_000

	// smallAnswer is the size up to which any number of answers are read at the same time. Of larger ones, one of each cluster is, five of
	// the clusters of a namespace, and eight in all: a tenant whose clusters answer slowly leaves three to the others.
	smallAnswer                                             = 1 << 20
	maxLargeOfCluster, maxLargeOfNamespace, maxLargeAnswers = 1, 5, 8
	// smallMemory is what an answer can need without waiting for others: a probe would wait for a list that another cluster has sent.
	smallMemory = 4 << 20
	// answerTimeout is how long an answer can take after its begin.
	answerTimeout = 10 * time.Second
	// maxMemory is what decoding the answers of all clusters can need at the same time, and maxNamespaceMemory those of the clusters of one
	// namespace: so one tenant cannot take all of it from the others.
	maxMemory, maxNamespaceMemory = 224 << 20, 128 << 20
	// maxOther is what an answer can need whose caller does not report when it is decoded, such as discovery, and maxWritten the answer to
	// a write, which is one object.
	maxOther, maxWritten = 64 << 20, 16 << 20
)

// budget is what answers can take at the same time, in the order in which they take it: first of their cluster, then of its namespace, then
// of all. So no two answers wait for each other.
type budget []*semaphore.Weighted

// answerMemory limits how many large answers are read at the same time, and what decoding answers needs at the same time. An answer takes
// each of them once, in this order.
type answerMemory struct{ large, decoding budget }

// allMemory is shared by the answers of all clusters.
var allMemory = newAnswerMemory(maxLargeAnswers, maxMemory)

func newAnswerMemory(large, decoding int64) answerMemory {
	return answerMemory{large: budget{semaphore.NewWeighted(large)}, decoding: budget{semaphore.NewWeighted(decoding)}}
}

// ofNamespace is the share of the clusters of one namespace.
func (a answerMemory) ofNamespace() answerMemory {
	share := newAnswerMemory(maxLargeOfNamespace, maxNamespaceMemory)
	return answerMemory{append(share.large, a.large...), append(share.decoding, a.decoding...)}
}

// ofCluster is the share of one cluster of a namespace.
func (a answerMemory) ofCluster() answerMemory {
	return answerMemory{append(budget{semaphore.NewWeighted(maxLargeOfCluster)}, a.large...), a.decoding}
}

// take waits for an amount, and returns what releases it.
func (b budget) take(ctx context.Context, amount int64) (giveBack func(), err error) {
	for i, one := range b {
		if err := one.Acquire(ctx, amount); err != nil {
			b[:i].release(amount)
			return nil, err
		}
	}
	return sync.OnceFunc(func() { b.release(amount) }), nil
}

func (b budget) release(amount int64) {
	for _, one := range b {
		one.Release(amount)
	}
}

// heldMemory is the memory that the answer of a request takes until it is decoded. A request that is repeated has several answers.
type heldMemory struct {
	mu       sync.Mutex
	giveBack []func()
}

func (h *heldMemory) add(giveBack func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.giveBack = append(h.giveBack, giveBack)
}

func (h *heldMemory) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, giveBack := range h.giveBack {
		giveBack()
	}
	h.giveBack = nil
}

type heldKey struct{}

// holdMemory returns a context for one request. Its answer keeps its memory until the release, which follows when it was decoded.
func holdMemory(ctx context.Context) (_ context.Context, release func()) {
	h := &heldMemory{}
	return context.WithValue(ctx, heldKey{}, h), h.release
}

// holdingClient is a client whose reads hold the memory of their answers until these are decoded.
type holdingClient struct{ client.Client }

// Get implements client.Reader.
func (h holdingClient) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	ctx, release := holdMemory(ctx)
	defer release()
	return h.Client.Get(ctx, key, object, options...)
}

// List implements client.Reader.
func (h holdingClient) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	ctx, release := holdMemory(ctx)
	defer release()
	return h.Client.List(ctx, list, options...)
}

// LimitAnswers makes clients reject redirects, and answers of a workload cluster that are too large. Answers are not compressed, because a
// small one could become a large one.
func LimitAnswers(config *rest.Config) { limitAnswers(config, allMemory.ofNamespace().ofCluster()) }

func limitAnswers(config *rest.Config, share answerMemory) {
	config.DisableCompression = true
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return answerLimit{next, share} })
}

// answerLimit is a transport that rejects redirects and answers that are too large.
type answerLimit struct {
	next  http.RoundTripper
	share answerMemory
}

// RoundTrip implements http.RoundTripper.
func (a answerLimit) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := withoutRedirect(a.next, request)
	if err != nil {
		return nil, err
	}
	return a.limit(request, response)
}

// limit returns a response whose body has been read.
func (a answerLimit) limit(request *http.Request, response *http.Response) (*http.Response, error) {
	defer response.Body.Close() //nolint:errcheck // It was read.
	onlyKnownFormats(response)
	content, found, done, err := a.read(request, response.Body)
	defer done()
	if err == nil {
		err = found.tooLarge()
	}
	if err != nil {
		return nil, err
	}
	held, holds := request.Context().Value(heldKey{}).(*heldMemory)
	limit := int64(maxNamespaceMemory)
	switch {
	case response.StatusCode >= http.StatusMultipleChoices:
		// A client may wait before it reads an error.
		limit, holds = smallMemory, false
	case request.Method != http.MethodGet:
		limit, holds = maxWritten, false
	case !holds:
		limit = maxOther
	}
	needed := found.memory(request.URL.Path) + int64(len(content))*copies
	if needed > limit {
		return nil, errTooMuchMemory
	}
	giveBack := func() {}
	if needed > smallMemory {
		if giveBack, err = a.share.decoding.take(request.Context(), needed); err != nil {
			return nil, err
		}
	}
	result := *response
	body := &readBody{bytes.NewReader(content), giveBack}
	if holds {
		held.add(giveBack)
		body.close = func() {}
	}
	result.Body, result.ContentLength = body, int64(len(content))
	return &result, nil
}

// closeLate closes a body if it takes too long, until the returned function is called. A watch whose answer is an error has no other timeout.
func closeLate(request *http.Request, body io.Closer) (stop func()) {
	inTime, cancel := context.WithTimeout(request.Context(), answerTimeout)
	inVain := context.AfterFunc(inTime, func() { _ = body.Close() })
	return func() {
		inVain()
		cancel()
	}
}

// read reads an answer, and counts what it contains. It ends when a limit is reached. Its timeout does not count the time that the answer
// waits for others.
func (a answerLimit) read(request *http.Request, body io.ReadCloser) (_ []byte, found size, done func(), err error) {
	stop := closeLate(request, body)
	defer func() { stop() }()
	var content bytes.Buffer
	inJSON := &jsonCounter{size: &found}
	piece, large := make([]byte, 32<<10), false
	for done = func() {}; ; {
		n, err := body.Read(piece)
		if content.Len()+n > maxAnswer {
			return nil, found, done, errTooLarge
		}
		content.Write(piece[:n])
		protobuf := isProtobuf(content.Bytes())
		if !protobuf {
			inJSON.add(piece[:n])
		}
		switch tooLarge := found.tooLarge(); {
		case tooLarge != nil:
			return nil, found, done, tooLarge
		case errors.Is(err, io.EOF) && !protobuf:
			return content.Bytes(), found, done, nil
		case errors.Is(err, io.EOF):
			result := content.Bytes()
			if strings.HasSuffix(request.URL.Path, "/nodes") {
				result = trimList(result)
			}
			return result, sizeOfProtobuf(result), done, nil
		case err != nil:
			return nil, found, done, err
		}
		if !large && content.Len() > smallAnswer {
			large = true
			stop()
			giveBack, err := a.share.large.take(request.Context(), 1)
			if err != nil {
				return nil, found, done, err
			}
			done, stop = giveBack, closeLate(request, body)
		}
	}
}

// onlyKnownFormats keeps clients from decoding other formats that they support, such as YAML.
func onlyKnownFormats(response *http.Response) {
	kind := response.Header.Get("Content-Type")
	format, _, err := mime.ParseMediaType(kind)
	if kind != "" && (err != nil || format != runtime.ContentTypeJSON && format != runtime.ContentTypeProtobuf) {
		response.Header.Set("Content-Type", "text/plain")
	}
}

// readBody is a body that was read.
type readBody struct {
	*bytes.Reader
	close func()
}

// Close implements io.Closer.
func (b *readBody) Close() error {
	b.close()
	return nil
}

func withoutRedirect(next http.RoundTripper, request *http.Request) (*http.Response, error) {
	response, err := next.RoundTrip(request)
	if err == nil && response.Header.Get("Location") != "" && response.StatusCode/100 == http.StatusMultipleChoices/100 {
		_ = response.Body.Close()
		return nil, errRedirected
	}
	return response, err
}
