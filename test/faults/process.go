// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/pkg/errors"
	"k8s.io/client-go/rest"
)

// Process is one life of a program that talks to API servers: from its start to its crash, or to the end of the test. A restart is a new
// one.
type Process struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	ignored []func(Write) bool
	watches *Watches

	lock    sync.Mutex
	crashed bool
	writes  []Write
	counted []int
	planned []*plannedFault
	trouble Trouble
	asked   map[string]uint64
	sent    map[string]int
}

// plannedFault is the one of a given write: of the last of so many that are still to come and fit.
type plannedFault struct {
	fault   Fault
	met     chan Write
	fits    func(Write) bool
	pending int
}

// Option changes what a process is like.
type Option func(*Process)

// Ignoring leaves writes out that come when they come. Without it, events are.
func Ignoring(these ...func(Write) bool) Option {
	return func(p *Process) { p.ignored = these }
}

// Start begins the life of a process.
func Start(ctx context.Context, options ...Option) *Process {
	p := &Process{ignored: []func(Write) bool{Events}, watches: newWatches(), asked: map[string]uint64{}, sent: map[string]int{}}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	for _, option := range options {
		option(p)
	}
	context.AfterFunc(p.ctx, p.watches.end)
	return p
}

// Context ends when the process crashes. Everything that the process does should end by it.
func (p *Process) Context() context.Context { return p.ctx }

// Config is how this process reaches an API server.
func (p *Process) Config(config *rest.Config) *rest.Config { return p.ConfigOf("", config) }

// ConfigOf returns the config of this process for another API server. Its writes have the name of that cluster.
func (p *Process) ConfigOf(cluster string, config *rest.Config) *rest.Config {
	own := rest.CopyConfig(config)
	own.Wrap(func(next http.RoundTripper) http.RoundTripper { return p.Wrap(cluster, next) })
	return own
}

// Wrap is the same without a config.
func (p *Process) Wrap(cluster string, next http.RoundTripper) http.RoundTripper {
	return &transport{process: p, cluster: cluster, next: next}
}

// Watches are those that this process has.
func (p *Process) Watches() *Watches { return p.watches }

// Crash ends the process at once: whatever it asks for fails, answers that are under way are lost, and its context ends.
func (p *Process) Crash() {
	p.lock.Lock()
	p.crashed = true
	p.lock.Unlock()
	p.cancel(ErrCrashed)
	p.watches.end()
}

// Crashed reports whether the process has crashed.
func (p *Process) Crashed() bool {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.crashed
}

// FailWriteOf lets the n-th write meet a fault of those that fit, are not ignored, and are made from now on. It does not matter how many
// others there are. The channel gets the write when it has met it, with what became of it.
func (p *Process) FailWriteOf(fits func(Write) bool, n int, fault Fault) (<-chan Write, error) {
	if n < 1 || !slices.Contains(plannable, fault) {
		return nil, errors.Errorf("no write number %d can fail by %q", n, fault)
	}
	f := &plannedFault{fault: fault, met: make(chan Write, 1), fits: fits, pending: n}
	p.lock.Lock()
	defer p.lock.Unlock()
	p.planned = append(p.planned, f)
	return f.met, nil
}

// plannable are the faults of a given write.
var plannable = []Fault{Refuse, LoseRequest, LoseAnswer, CrashBefore, CrashAfter}

// Writes are those that count, in the order in which they were asked for.
func (p *Process) Writes() []Write {
	p.lock.Lock()
	defer p.lock.Unlock()
	counted := make([]Write, len(p.counted))
	for i, at := range p.counted {
		counted[i] = p.writes[at]
	}
	return counted
}

// AllWrites are those that are ignored, too.
func (p *Process) AllWrites() []Write {
	p.lock.Lock()
	defer p.lock.Unlock()
	return slices.Clone(p.writes)
}

// Requests counts what the process has sent, except watches and discovery, by method and resource.
func (p *Process) Requests() map[string]int {
	p.lock.Lock()
	defer p.lock.Unlock()
	return maps.Clone(p.sent)
}

func (p *Process) count(r *http.Request) {
	w, ok := place(r.URL.Path)
	if !ok {
		return
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	w.Verb = r.Method
	p.sent[w.withoutObject().What()]++
}

// note puts a write down, and finds the fault that it meets. From a crash on there are no others.
func (p *Process) note(w Write) (int, *plannedFault, error) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.crashed {
		return 0, nil, ErrCrashed
	}
	p.writes = append(p.writes, w)
	at := len(p.writes) - 1
	if slices.ContainsFunc(p.ignored, func(ignored func(Write) bool) bool { return ignored(w) }) {
		return at, nil, nil
	}
	p.counted = append(p.counted, at)
	met := p.meets(w)
	if met != nil {
		p.writes[at].Fault = met.fault
		p.crashed = met.fault == CrashBefore || met.fault == CrashAfter
	}
	return at, met, nil
}

// meets finds the fault of a write. Every plan counts it; where it is the last one of two, the first counts. The lock is held.
func (p *Process) meets(w Write) *plannedFault {
	var met *plannedFault
	for _, f := range p.planned {
		if !f.fits(w) {
			continue
		}
		if f.pending--; f.pending == 0 && met == nil {
			met = f
		}
	}
	return met
}

// became notes what came of a write, and returns it.
func (p *Process) became(at int, fault Fault, response *http.Response) Write {
	p.lock.Lock()
	defer p.lock.Unlock()
	if fault != "" {
		p.writes[at].Fault = fault
	}
	if response != nil {
		p.writes[at].Code = response.StatusCode
	}
	return p.writes[at]
}
