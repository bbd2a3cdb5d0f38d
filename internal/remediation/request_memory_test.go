// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestRequestMemory_RequestMissing_IsDeletedByOther(t *testing.T) {
	first := &Request{Step: stepA, Attempt: 1, Started: noon}
	deleting := &Request{Step: stepA, Attempt: 1, Started: noon, DeletingSince: noon}
	stopped := &Request{Step: stepA, Attempt: 1, Started: noon, TimedOut: true}
	for name, test := range map[string]struct {
		happens func(m *RequestMemory)
		times   int
		last    bool
	}{
		"never seen":                {func(*RequestMemory) {}, 0, false},
		"read before":               {func(m *RequestMemory) { m.Read("t", first, noon) }, 1, true},
		"created, not read":         {func(m *RequestMemory) { m.Created("t", stepA, 1, noon.Add(-UnreadTime)) }, 1, true},
		"the cache is behind":       {func(m *RequestMemory) { m.Created("t", stepA, 1, noon.Add(moment-UnreadTime)) }, 0, false},
		"another client deletes it": {func(m *RequestMemory) { m.Read("t", first, noon); m.Read("t", deleting, noon) }, 1, true},
		"the manager deletes it":    {func(m *RequestMemory) { m.Read("t", first, noon); m.Ended("t"); m.Read("t", first, noon) }, 0, false},
		"another process ends it":   {func(m *RequestMemory) { m.Read("t", first, noon); m.Read("t", stopped, noon) }, 0, false},
		"deleted before a restart":  {func(m *RequestMemory) { m.Read("t", deleting, noon) }, 0, false},
		"twice": {func(m *RequestMemory) {
			m.Read("t", first, noon)
			m.Read("t", nil, noon)
			m.Created("t", stepA, 2, noon.Add(-UnreadTime))
		}, 2, true},
		"then one that the manager deletes": {func(m *RequestMemory) {
			m.Read("t", first, noon)
			m.Read("t", nil, noon)
			m.Created("t", stepA, 2, noon.Add(-UnreadTime))
			m.Ended("t")
		}, 1, false},
		"healthy meanwhile": {func(m *RequestMemory) { m.Read("t", first, noon); m.Read("t", nil, noon); m.Recovered("t") }, 0, false},
		"another target":    {func(m *RequestMemory) { m.Read("other", first, noon) }, 0, false},
		"not selected":      {func(m *RequestMemory) { m.Read("t", first, noon); m.Keep(func(string) bool { return false }) }, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			g, m := NewWithT(t), &RequestMemory{}
			test.happens(m)
			for range 2 {
				deleted := m.Read("t", nil, noon)
				g.Expect(deleted.Times).To(Equal(test.times))
				g.Expect(deleted.Last != nil).To(Equal(test.last))
			}
		})
	}
}

// A remediator or a webhook may remove annotations that it does not define.
func TestRequestMemory_AnnotationsRemoved_KeepsStep(t *testing.T) {
	without := func(uid string) *Request { return &Request{UID: uid, Step: StepID{Order: -1}, Attempt: 1} }
	for name, test := range map[string]struct {
		happens func(m *RequestMemory)
		kept    bool
	}{
		"read before":           {func(m *RequestMemory) { m.Read("t", &Request{UID: "1", Step: stepB, Attempt: 3}, noon) }, true},
		"created":               {func(m *RequestMemory) { m.Created("t", stepB, 3, noon) }, true},
		"twice":                 {func(m *RequestMemory) { m.Created("t", stepB, 3, noon); m.Read("t", without("1"), noon) }, true},
		"another request":       {func(m *RequestMemory) { m.Read("t", &Request{UID: "2", Step: stepB, Attempt: 3}, noon) }, false},
		"it never had any":      {func(m *RequestMemory) { m.Read("t", without("1"), noon) }, false},
		"of an earlier manager": {func(*RequestMemory) {}, false},
		"of another target":     {func(m *RequestMemory) { m.Read("other", &Request{UID: "1", Step: stepB, Attempt: 3}, noon) }, false},
		"the earlier one was deleted": {func(m *RequestMemory) {
			m.Read("t", &Request{UID: "2", Step: stepB, Attempt: 3}, noon)
			m.Read("t", nil, noon)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g, m, request := NewWithT(t), &RequestMemory{}, without("1")
			test.happens(m)
			m.Read("t", request, noon)
			if test.kept {
				g.Expect([]any{request.Step, request.Attempt}).To(Equal([]any{stepB, 3}))
			} else {
				g.Expect(request).To(Equal(without("1")))
			}
		})
	}
}

// A kind of requests that cannot be read may have the last request.
func TestRequestMemory_KindUnreadable_NeedsLastRequest(t *testing.T) {
	g, m := NewWithT(t), &RequestMemory{}
	g.Expect(m.Unread("t")).To(BeZero())
	m.Read("t", &Request{Step: stepA, Attempt: 1}, noon)
	g.Expect(m.Unread("t")).To(Equal(DeletedRequests{Unread: true}))
	m.Ended("t")
	g.Expect(m.Unread("t")).To(BeZero())
}
