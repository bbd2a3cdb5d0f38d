// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// transport stands between the client of a process and one API server.
type transport struct {
	process *Process
	cluster string
	next    http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.process.Crashed() {
		return nil, forget(r, ErrCrashed)
	}
	// The caller's request stays as it is.
	r = r.WithContext(r.Context())
	if watch, is := asWatch(t.cluster, r); is {
		return t.watch(r, watch)
	}
	t.process.count(r)
	write, is, err := asWrite(t.cluster, r)
	if err != nil {
		return nil, err
	}
	if is {
		return t.write(r, write)
	}
	if trouble := t.process.chance(t.cluster, r, ""); trouble.refused() {
		return troubled(r, trouble)
	}
	return t.pass(r)
}

// pass asks the server. A crash breaks off what is under way.
func (t *transport) pass(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	stop := context.AfterFunc(t.process.ctx, func() { cancel(context.Cause(t.process.ctx)) })
	end := func() {
		stop()
		cancel(nil)
	}
	response, err := t.next.RoundTrip(r.WithContext(ctx))
	if t.process.Crashed() {
		end()
		lose(response)
		return nil, ErrCrashed
	}
	if err != nil {
		end()
		return nil, err //nolint:wrapcheck // clients look at what kind of error it is.
	}
	response.Body = &answer{ReadCloser: response.Body, process: t.process, end: end}
	return response, nil
}

// answer breaks off when the process crashes.
type answer struct {
	io.ReadCloser
	process *Process
	end     func()
}

// Read implements io.Reader.
func (a *answer) Read(into []byte) (int, error) {
	n, err := a.ReadCloser.Read(into)
	if a.process.Crashed() {
		return 0, ErrCrashed
	}
	return n, err //nolint:wrapcheck // io.EOF has to stay what it is.
}

// Close implements io.Closer.
func (a *answer) Close() error {
	defer a.end()
	return errors.WithStack(a.ReadCloser.Close())
}

// write lets a write meet its fault, if it has one.
func (t *transport) write(r *http.Request, w Write) (*http.Response, error) {
	p := t.process
	at, met, err := p.note(w)
	if err != nil {
		return nil, forget(r, err)
	}
	if met != nil {
		return t.meet(r, at, met)
	}
	trouble := p.chance(t.cluster, r, w.Verb)
	if trouble.refused() {
		p.became(at, trouble, nil)
		return troubled(r, trouble)
	}
	response, err := t.pass(r)
	p.became(at, trouble, response)
	if trouble == TimeoutAfter {
		lose(response)
		return nil, tooLate()
	}
	return response, err
}

// meet lets a write fail as planned.
func (t *transport) meet(r *http.Request, at int, met *plannedFault) (*http.Response, error) {
	var landed *http.Response
	if met.fault.lands() {
		// It lands, even if the client has ended. If the API server does not answer, the write has no code.
		landed, _ = t.next.RoundTrip(r.WithContext(context.WithoutCancel(r.Context())))
		lose(landed)
	} else {
		_ = forget(r, nil)
	}
	write := t.process.became(at, "", landed)
	if met.fault == CrashBefore || met.fault == CrashAfter {
		t.process.Crash()
		met.met <- write
		return nil, ErrCrashed
	}
	met.met <- write
	if met.fault == Refuse {
		return status(r, apierrors.NewInternalError(errors.New("refused by the test")).Status()), nil
	}
	return nil, broken()
}

// forget does with a request what a transport has to do even if it fails.
func forget(r *http.Request, err error) error {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return err
}

// lose reads an answer to its end, so that the server has completed it, and drops the answer.
func lose(response *http.Response) {
	if response == nil {
		return
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
}

// troubled is the answer of a server in trouble.
func troubled(r *http.Request, trouble Fault) (*http.Response, error) {
	_ = forget(r, nil)
	resource := schema.GroupResource{}
	name := ""
	if at, ok := place(r.URL.Path); ok {
		resource, name = schema.GroupResource{Group: at.Group, Resource: at.Resource}, at.Name
	}
	const said = "trouble made by the test"
	switch trouble {
	case Conflict:
		return status(r, apierrors.NewConflict(resource, name, errors.New(said)).Status()), nil
	case TooManyRequests:
		return status(r, apierrors.NewTooManyRequestsError(said).Status()), nil
	case InternalError:
		return status(r, apierrors.NewInternalError(errors.New(said)).Status()), nil
	case Unavailable:
		return status(r, apierrors.NewServiceUnavailable(said).Status()), nil
	case Refuse, LoseRequest, LoseAnswer, CrashBefore, CrashAfter, TimeoutBefore, TimeoutAfter:
	}
	return nil, tooLate()
}

// status is an answer with an error.
func status(r *http.Request, s metav1.Status) *http.Response {
	s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	content, err := json.Marshal(s)
	if err != nil {
		content = []byte(err.Error())
	}
	return &http.Response{
		Status: strconv.Itoa(int(s.Code)) + " " + http.StatusText(int(s.Code)), StatusCode: int(s.Code),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(content)), ContentLength: int64(len(content)), Request: r,
	}
}
