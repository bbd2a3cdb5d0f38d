// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/pkg/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	machinerywatch "k8s.io/apimachinery/pkg/watch"
)

// stream is the body of the answer to a watch: events that come one after the other. All but the body is under the lock of the watches.
type stream struct {
	watches *Watches
	about   *watch
	body    io.ReadCloser

	// queue are the events that have come and were not delivered. rest is what is left of the one that is being delivered.
	queue []event
	rest  []byte
	// err is how the body has ended.
	err         error
	cut, closed bool
}

// event is one event of a watch, as it came.
type event struct {
	text     []byte
	bookmark bool
}

// follow reads a watch from now on.
func (w *Watches) follow(about *watch, response *http.Response) io.ReadCloser {
	s := &stream{watches: w, about: about, body: response.Body}
	w.lock.Lock()
	defer w.lock.Unlock()
	w.open[s] = true
	go s.pump(nextEvent(response.Header.Get("Content-Type"), response.Body))
	return s
}

// pump takes events as they come, however long they are held back. It ends with the body.
func (s *stream) pump(next func() (event, error)) {
	for {
		e, err := next()
		s.watches.lock.Lock()
		if err == nil {
			s.queue = append(s.queue, e)
		} else {
			s.err = err
		}
		s.watches.changed.Broadcast()
		s.watches.lock.Unlock()
		if err != nil {
			return
		}
	}
}

// Read implements io.Reader. It waits for an event that may be delivered. A body that has ended looks like one in which nothing happens, as
// long as anything is held back.
func (s *stream) Read(into []byte) (int, error) {
	w := s.watches
	w.lock.Lock()
	defer w.lock.Unlock()
	for {
		switch {
		case w.ended:
			return 0, ErrCrashed
		case s.closed:
			return 0, errors.New("read from a watch that was closed")
		case len(s.rest) > 0:
			n := copy(into, s.rest)
			s.rest = s.rest[n:]
			return n, nil
		case s.cut:
			return 0, io.EOF
		case len(s.queue) > 0 && !s.queue[0].bookmark && w.ruleFor(s.about.resource).drop:
			w.dropped[s.about.resource]++
			s.queue = s.queue[1:]
		case s.deliverable():
			s.rest, s.queue = s.queue[0].text, s.queue[1:]
		case len(s.queue) == 0 && s.err != nil:
			return 0, s.err
		default:
			w.changed.Wait()
		}
	}
}

// deliverable reports whether the next event may be delivered. A bookmark covers nothing that comes after it.
func (s *stream) deliverable() bool {
	r := s.watches.ruleFor(s.about.resource)
	switch {
	case len(s.queue) == 0 || r.held:
		return false
	case s.queue[0].bookmark:
		return true
	}
	return s.events() > r.lag
}

// events are those that were not delivered.
func (s *stream) events() int {
	n := 0
	for i := range s.queue {
		if !s.queue[i].bookmark {
			n++
		}
	}
	return n
}

// Close implements io.Closer.
func (s *stream) Close() error {
	s.watches.lock.Lock()
	s.closed = true
	delete(s.watches.open, s)
	s.watches.changed.Broadcast()
	s.watches.lock.Unlock()
	return errors.WithStack(s.body.Close())
}

// nextEvent takes one event after the other out of a body.
func nextEvent(contentType string, body io.Reader) func() (event, error) {
	if strings.Contains(contentType, "protobuf") {
		return func() (event, error) { return nextFrame(body) }
	}
	decoder := json.NewDecoder(body)
	return func() (event, error) {
		text := json.RawMessage{}
		if err := decoder.Decode(&text); err != nil {
			return event{}, err //nolint:wrapcheck // io.EOF has to stay what it is.
		}
		var kind struct{ Type string }
		err := json.Unmarshal(text, &kind)
		return event{slices.Concat(text, json.RawMessage("\n")), kind.Type == string(machinerywatch.Bookmark)}, errors.Wrap(err, "an event of a watch is no object")
	}
}

// longest is how long an event may be; etcd allows less.
const longest = 64 << 20

// nextFrame takes one frame: its length in four bytes, and then the event.
func nextFrame(body io.Reader) (event, error) {
	var head [4]byte
	if _, err := io.ReadFull(body, head[:]); err != nil {
		return event{}, err //nolint:wrapcheck // io.EOF has to stay what it is.
	}
	length := binary.BigEndian.Uint32(head[:])
	if length > longest {
		return event{}, errors.Errorf("an event of a watch has %d bytes: this is not what a watch in protobuf looks like", length)
	}
	text := make([]byte, len(head)+int(length))
	copy(text, head[:])
	if _, err := io.ReadFull(body, text[4:]); err != nil {
		return event{}, err //nolint:wrapcheck // io.ErrUnexpectedEOF has to stay what it is.
	}
	var e metav1.WatchEvent
	err := e.Unmarshal(text[4:])
	return event{text, e.Type == string(machinerywatch.Bookmark)}, errors.Wrap(err, "an event of a watch cannot be read")
}
