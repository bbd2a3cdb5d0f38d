// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	kjson "sigs.k8s.io/json"
)

// The limits of the watch of Nodes of one connection.
const (
	// maxWatchEvent and maxEventValues limit one event. An API server stores no Node of this size.
	maxWatchEvent, maxEventValues = 8 << 20, 50_000
	// maxUpdates is how many updates one connection delivers in a second. The Nodes of the largest cluster are delivered at once.
	maxUpdates = 1000
	// maxKept is the memory of all stripped Nodes of a cluster, by an estimate: that of 5,000 Nodes with a hundred labels.
	maxKept = 96 << 20
	// maxIdle is the memory that a watch keeps between two events.
	maxIdle = 256 << 10
	// watchTimeout is longer than any watch, which the API server ends after ten minutes at the latest. The timeout of a connection is
	// for short calls.
	watchTimeout = 11 * time.Minute
)

// watchLimits are those of the watches of one connection.
type watchLimits struct {
	updates *rate.Limiter
	// nodes is the cache that the watches fill; nil until they have started.
	nodes atomic.Pointer[nodeCache]
}

func newUpdateLimiter() *rate.Limiter { return rate.NewLimiter(maxUpdates, maxItems) }

// trimmed returns the config of a connection for a client that trims the Nodes that a watch in protobuf delivers. For other answers, it is the
// same as LimitAnswers.
func trimmed(connection *rest.Config, share answerMemory, limits *watchLimits) *rest.Config {
	config := rest.CopyConfig(connection)
	config.DisableCompression, config.Timeout = true, watchTimeout
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return nodeTrimmer{answerLimit{next, share}, limits} })
	return config
}

// nodeTrimmer is the transport of a watch of Nodes.
type nodeTrimmer struct {
	answerLimit
	limits *watchLimits
}

// RoundTrip implements http.RoundTripper.
func (n nodeTrimmer) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Query().Get("watch") == "" {
		return n.answerLimit.RoundTrip(request)
	}
	response, err := withoutRedirect(n.next, request)
	if err != nil {
		return nil, err
	}
	format := response.Header.Get("Content-Type")
	events := limitedEvents{body: response.Body, limits: n.limits, ctx: request.Context(), nodes: map[string]int{}}
	switch {
	// An error is no event.
	case response.StatusCode != http.StatusOK:
		return n.limit(request, response)
	case strings.HasPrefix(format, runtime.ContentTypeProtobuf):
		events.read = events.inProtobuf
	case strings.HasPrefix(format, runtime.ContentTypeJSON):
		events.read = events.inJSON
	default:
		_ = response.Body.Close()
		return nil, &ReadError{Reason: Failing}
	}
	events.source = bufio.NewReaderSize(response.Body, 32<<10)
	response.Body = &events
	return response, nil
}

// limitedEvents is the body of a watch. It delivers whole events.
type limitedEvents struct {
	body   io.ReadCloser
	source *bufio.Reader
	// read returns the next event, as the client gets it, and the name of its Node.
	read   func() (event []byte, node string, err error)
	limits *watchLimits
	// ctx is that of the request.
	ctx context.Context //nolint:containedctx // A body has no other.
	// nodes are the Nodes that were delivered, with the memory of each, and kept is that of all. values are those of the event.
	nodes  map[string]int
	kept   int
	values int
	// event is as the API server has sent it. next is what was not read yet of framed.
	event        bytes.Buffer
	framed, next []byte
}

// Close implements io.Closer.
func (l *limitedEvents) Close() error { return l.body.Close() }

// Read implements io.Reader.
func (l *limitedEvents) Read(into []byte) (int, error) {
	if len(l.next) == 0 {
		event, node, err := l.read()
		if err != nil {
			return 0, err
		}
		needed := nodeMemory + len(event) + l.values*valueOnWire
		l.kept += needed - l.nodes[node]
		if l.nodes[node] = needed; len(l.nodes) > maxItems || l.kept > maxKept {
			if cache := l.limits.nodes.Load(); cache != nil {
				cache.overflow()
			}
			return 0, errTooManyNodes
		}
		if err := l.limits.updates.Wait(l.ctx); err != nil {
			return 0, err
		}
		l.next = event
	}
	n := copy(into, l.next)
	l.next = l.next[n:]
	return n, nil
}

// release releases the memory of a large event. A watch may deliver none for a long time.
func (l *limitedEvents) release() {
	if l.event.Cap() > maxIdle || cap(l.framed) > maxIdle {
		l.event, l.framed = bytes.Buffer{}, nil
	}
}

// inProtobuf returns the next event in protobuf, which has a length of four bytes.
func (l *limitedEvents) inProtobuf() ([]byte, string, error) {
	l.release()
	var length [4]byte
	if _, err := io.ReadFull(l.source, length[:]); err != nil {
		return nil, "", err
	}
	announced := binary.BigEndian.Uint32(length[:])
	if announced > maxWatchEvent {
		return nil, "", errTooLargeUpdate
	}
	l.event.Reset()
	// A buffer grows with what has arrived, and not with the length that a cluster announces.
	if _, err := io.CopyN(&l.event, l.source, int64(announced)); errors.Is(err, io.EOF) {
		return nil, "", io.ErrUnexpectedEOF
	} else if err != nil {
		return nil, "", err
	}
	event := TrimEvent(l.event.Bytes())
	object := objectOf(event)
	var found size
	found.addFields(object, 0)
	l.values = found.values
	// A client may find more in what is not valid.
	if found.values > maxEventValues || object == nil && len(event) > 4<<10 {
		return nil, "", errTooLargeUpdate
	}
	l.framed = append(binary.BigEndian.AppendUint32(l.framed[:0], uint32(len(event))), event...) //nolint:gosec // It is not longer.
	return l.framed, string(field(field(field(object, unknownContent), objectMetadata), metadataName)), nil
}

// inJSON returns the next event in JSON, which ends with its last bracket.
func (l *limitedEvents) inJSON() ([]byte, string, error) {
	l.release()
	l.event.Reset()
	var found size
	for counter := (jsonCounter{size: &found}); counter.documents == 0; {
		c, err := l.source.ReadByte()
		if err != nil {
			if errors.Is(err, io.EOF) && len(bytes.TrimSpace(l.event.Bytes())) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, "", err
		}
		l.event.WriteByte(c)
		counter.add([]byte{c})
		if l.event.Len() > maxWatchEvent || found.values > maxEventValues {
			return nil, "", errTooLargeUpdate
		}
	}
	event, node := stripEvent(l.event.Bytes())
	found = size{}
	(&jsonCounter{size: &found}).add(event)
	l.values = found.values
	return event, node, nil
}

// stripEvent returns an event in JSON whose Node is stripped, and the name of the Node. It returns every other event as it is: the client
// reports what is not valid.
func stripEvent(event []byte) (stripped []byte, node string) {
	var envelope struct {
		Type   string      `json:"type"`
		Object corev1.Node `json:"object"`
	}
	if kjson.UnmarshalCaseSensitivePreserveInts(event, &envelope) != nil {
		return event, ""
	}
	node = envelope.Object.Name
	if kind := watch.EventType(envelope.Type); kind != watch.Added && kind != watch.Modified && kind != watch.Deleted {
		return event, node
	}
	envelope.Object = *Strip(&envelope.Object)
	if short, err := json.Marshal(envelope); err == nil && len(short) < len(event) {
		return short, node
	}
	return event, node
}
