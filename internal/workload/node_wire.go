// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/client-go/rest"
)

// Most of a Node is never read, and kubelets send it every few minutes: a list of images, for example. Decoding it costs more than everything
// else that the manager does with a heartbeat, so it is removed from the answer before that. Strip decides what is kept of a decoded Node; the
// fields here are those that it keeps.

// message selects the fields of a protobuf message to keep, and what to keep of them: all of it if the value is nil.
type message map[protowire.Number]message

// The numbers are those of generated.proto in k8s.io/api and k8s.io/apimachinery.
var (
	nodeOnWire = message{
		// metadata: name, uid, resourceVersion, creationTimestamp, deletionTimestamp, labels, annotations.
		1: {1: nil, 5: nil, 6: nil, 8: nil, 9: nil, 11: nil, 12: nil},
		// spec: providerID, taints.
		2: {3: nil, 5: nil},
		// status: conditions without lastHeartbeatTime and message.
		3: {4: {1: nil, 2: nil, 4: nil, 5: nil}},
	}
	unknownOnWire = message{1: nil, 2: nodeOnWire, 3: nil, 4: nil}
)

const (
	// The fields of a WatchEvent, a RawExtension and a TypeMeta.
	eventObject, extensionRaw, typeMetaKind protowire.Number = 2, 1, 2
	// protobufMagic is the prefix of each object in protobuf.
	protobufMagic = "k8s\x00"
	// maxWatchEvent limits one event. An API server stores no Node of this size.
	maxWatchEvent = 8 << 20
)

// trim appends a message with only the fields to keep. It returns false if the message is not valid protobuf.
func (m message) trim(to, from []byte) ([]byte, bool) {
	for len(from) > 0 {
		number, kind, n := protowire.ConsumeTag(from)
		if n < 0 {
			return nil, false
		}
		length := protowire.ConsumeFieldValue(number, kind, from[n:])
		if length < 0 {
			return nil, false
		}
		field, value := from[:n+length], from[n:n+length]
		from = from[n+length:]
		inner, kept := m[number]
		switch {
		case !kept:
		case inner == nil || kind != protowire.BytesType:
			to = append(to, field...)
		default:
			content, _ := protowire.ConsumeBytes(value)
			to = protowire.AppendTag(to, number, kind)
			begin, valid := len(to), false
			if to, valid = inner.trim(to, content); !valid {
				return nil, false
			}
			to = insertLength(to, begin)
		}
	}
	return to, true
}

// insertLength moves what follows a position, and writes its length there.
func insertLength(to []byte, begin int) []byte {
	var length [binary.MaxVarintLen64]byte
	return slices.Insert(to, begin, protowire.AppendVarint(length[:0], uint64(len(to)-begin))...) //nolint:gosec // It is not negative.
}

// field returns the content of a field of a message, the last one as decoders do; nil without one.
func field(of []byte, wanted protowire.Number) (content []byte) {
	for len(of) > 0 {
		number, kind, n := protowire.ConsumeTag(of)
		if n < 0 {
			return nil
		}
		length := protowire.ConsumeFieldValue(number, kind, of[n:])
		if length < 0 {
			return nil
		}
		if number == wanted && kind == protowire.BytesType {
			content, _ = protowire.ConsumeBytes(of[n:])
		}
		of = of[n+length:]
	}
	return content
}

// TrimEvent returns a watch event whose Node is trimmed, and every other event as it is.
func TrimEvent(event []byte) []byte {
	object, is := bytes.CutPrefix(field(field(event, eventObject), extensionRaw), []byte(protobufMagic))
	if !is || string(field(field(object, 1), typeMetaKind)) != "Node" {
		return event
	}
	// The other field of an event is its type.
	result, _ := message{1: nil}.trim(make([]byte, 0, len(event)/4), event)
	result = protowire.AppendTag(result, eventObject, protowire.BytesType)
	extension := len(result)
	result = protowire.AppendTag(result, extensionRaw, protowire.BytesType)
	raw := len(result)
	result, valid := unknownOnWire.trim(append(result, protobufMagic...), object)
	if !valid {
		return event
	}
	return insertLength(insertLength(result, raw), extension)
}

// trimmedEvents is the body of a watch, whose events have a length of four bytes each.
type trimmedEvents struct {
	body   io.ReadCloser
	events *bufio.Reader
	event  bytes.Buffer
	// next is what was not read yet of trimmed.
	trimmed, next []byte
}

func newTrimmedEvents(body io.ReadCloser) *trimmedEvents {
	return &trimmedEvents{body: body, events: bufio.NewReaderSize(body, 32<<10)}
}

// Close implements io.Closer.
func (t *trimmedEvents) Close() error { return t.body.Close() }

// Read implements io.Reader.
func (t *trimmedEvents) Read(into []byte) (int, error) {
	if len(t.next) == 0 {
		var length [4]byte
		if _, err := io.ReadFull(t.events, length[:]); err != nil {
			return 0, err
		}
		size := binary.BigEndian.Uint32(length[:])
		if size > maxWatchEvent {
			return 0, errTooLarge
		}
		t.event.Reset()
		// A buffer grows with what has arrived, and not with the length that a cluster announces.
		if _, err := io.CopyN(&t.event, t.events, int64(size)); errors.Is(err, io.EOF) {
			return 0, io.ErrUnexpectedEOF
		} else if err != nil {
			return 0, err
		}
		event := TrimEvent(t.event.Bytes())
		t.trimmed = append(binary.BigEndian.AppendUint32(t.trimmed[:0], uint32(len(event))), event...) //nolint:gosec // It is not longer.
		t.next = t.trimmed
	}
	n := copy(into, t.next)
	t.next = t.next[n:]
	return n, nil
}

// watchTimeout is longer than any watch, which the API server ends after ten minutes at the latest. ClusterCache's timeout of ten seconds is for
// short calls.
const watchTimeout = 11 * time.Minute

// trimmed returns the config of a connection for a client that trims the Nodes that a watch in protobuf delivers. For other answers, it is the
// same as LimitAnswers.
func trimmed(connection *rest.Config) *rest.Config {
	config := rest.CopyConfig(connection)
	config.DisableCompression, config.Timeout = true, watchTimeout
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return nodeTrimmer{next} })
	return config
}

// nodeTrimmer is the transport of a watch of Nodes.
type nodeTrimmer struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (n nodeTrimmer) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Query().Get("watch") == "" {
		return answerLimit(n).RoundTrip(request)
	}
	response, err := withoutRedirect(n.next, request)
	// An error has no length.
	if err == nil && response.StatusCode == http.StatusOK && strings.HasPrefix(response.Header.Get("Content-Type"), "application/vnd.kubernetes.protobuf") {
		response.Body = newTrimmedEvents(response.Body)
	}
	return response, err
}
