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
	// Reads meet it as well. Writes always do, and the opening of a watch never.
	Reads bool
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

// refused reports whether the server does not get a request that meets this trouble, which is empty for none.
func (f Fault) refused() bool { return f != "" && f != TimeoutAfter }

// chance returns the trouble of a request: of a read, if it has no verb. It depends on the request and on how often it was made before, not on what else goes on.
func (p *Process) chance(cluster string, r *http.Request, verb string) Fault {
	p.lock.Lock()
	defer p.lock.Unlock()
	trouble := &p.trouble
	if trouble.Chance <= 0 || verb == "" && !trouble.Reads {
		return ""
	}
	key := renamed(cluster+" "+r.Method+" "+r.URL.Path, trouble.Names)
	p.asked[key]++
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(key))
	dice := rand.New(rand.NewPCG(trouble.Seed, hash.Sum64()+p.asked[key])) //nolint:gosec // it has to be the same every time.
	kinds := fitting(trouble.Kinds, verb)
	if len(kinds) == 0 || dice.Float64() >= trouble.Chance {
		return ""
	}
	return kinds[dice.IntN(len(kinds))]
}

// fitting are the kinds that can happen to a request; a read has no verb. A time-out of a read is always the same one.
func fitting(kinds []Fault, verb string) []Fault {
	if len(kinds) == 0 {
		kinds = TroubleKinds()
	}
	return slices.DeleteFunc(slices.Clone(kinds), func(f Fault) bool {
		return f == Conflict && (verb == "" || verb == "create") || f == TimeoutAfter && verb == ""
	})
}
