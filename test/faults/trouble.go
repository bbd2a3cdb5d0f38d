// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"slices"
)

// Trouble is what requests meet at random. The zero value is none.
type Trouble struct {
	// Seed decides which requests it is. The same request meets the same, however many others are made at the same time.
	Seed uint64
	// Names are strings that differ from one run to the next, such as a namespace: what bears them meets the same all the same.
	Names []string
	// Chance is the share of requests that meet it, from 0 to 1.
	Chance float64
	// Kinds are the faults that it can be; all of them if empty.
	Kinds []Fault
	// Reads and Watches: reading, and the opening of watches, meet it as well. Writes always do.
	Reads, Watches bool
	// RetryAfter is how many seconds a 429 or 503 asks to wait; nil for none. Clients of Kubernetes wait by themselves, by the real
	// clock, and try again up to ten times: without it, the user of the client gets the error.
	RetryAfter *int
}

// TroubleKinds are all faults that trouble can be.
func TroubleKinds() []Fault {
	return []Fault{Conflict, TooManyRequests, InternalError, Unavailable, TimeoutBefore, TimeoutAfter}
}

// Trouble begins; the zero value ends it.
func (p *Process) Trouble(trouble Trouble) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.trouble = trouble
}

// hit is the trouble that a request meets; the zero value is none.
type hit struct {
	fault      Fault
	retryAfter *int
}

// refused reports whether the server does not get the request.
func (h hit) refused() bool { return h.fault != "" && h.fault != TimeoutAfter }

// chance returns the trouble of a request. It depends on the request and on how often it was made before, not on what else goes on.
func (p *Process) chance(cluster string, r *http.Request, kind requestKind, verb string) hit {
	p.lock.Lock()
	defer p.lock.Unlock()
	trouble := &p.trouble
	if trouble.Chance <= 0 || kind == aRead && !trouble.Reads || kind == aWatch && !trouble.Watches {
		return hit{}
	}
	key := renamed(cluster+" "+r.Method+" "+r.URL.Path, trouble.Names)
	p.asked[key]++
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(key))
	dice := rand.New(rand.NewPCG(trouble.Seed, hash.Sum64()+p.asked[key])) //nolint:gosec // it has to be the same every time.
	kinds := fitting(trouble.Kinds, kind, verb)
	if len(kinds) == 0 || dice.Float64() >= trouble.Chance {
		return hit{}
	}
	return hit{kinds[dice.IntN(len(kinds))], trouble.RetryAfter}
}

type requestKind uint8

const (
	aRead requestKind = iota
	aWatch
	aWrite
)

// fitting are the kinds that can happen to a request. A time-out of a read is always the same one.
func fitting(kinds []Fault, kind requestKind, verb string) []Fault {
	if len(kinds) == 0 {
		kinds = TroubleKinds()
	}
	return slices.DeleteFunc(slices.Clone(kinds), func(f Fault) bool {
		return f == Conflict && (kind != aWrite || verb == "create") || f == TimeoutAfter && kind != aWrite
	})
}
