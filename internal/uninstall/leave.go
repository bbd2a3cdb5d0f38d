// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/pkg/errors"
	"k8s.io/utils/clock"
)

// Leaver takes what is ours off clusters, and says what it does. It does one thing in its life.
type Leaver struct {
	Management *Cluster
	// DryRun: it only says what it would do.
	DryRun bool
	Out    io.Writer
	Clock  clock.PassiveClock
	Patience

	// stopped is when our managers had stopped. alone: they were told that Cluster API's own controller does not run.
	stopped time.Time
	alone   bool

	// lock guards what is below: several workload clusters are cleaned at a time.
	lock sync.Mutex
	done int
	// left is what could not be done, or could not be seen.
	left []string
}

// All stops our managers and takes everything of ours off the management cluster and all workload clusters that can be reached.
func (l *Leaver) All(ctx context.Context) error {
	if err := l.stopManagers(ctx); err != nil {
		return err
	}
	l.stopped = l.Clock.Now()
	err := l.sweep(ctx, l.Management)
	if err == nil {
		l.hushAll(ctx)
		err = l.sweepWorkloads(ctx)
	}
	if err == nil {
		err = l.stayStopped(ctx)
	}
	return l.sum(ctx, err)
}

// say tells what was done, or would be.
func (l *Leaver) say(c *Cluster, kind, namespace, name, what string) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.done++
	l.print(c, kind, namespace, name, what)
}

// print is a line of its own about an object.
func (l *Leaver) print(c *Cluster, kind, namespace, name, what string) {
	if namespace != "" {
		name = namespace + "/" + name
	}
	if c != l.Management {
		name += " in " + c.name
	}
	if l.DryRun {
		what += " (dry run)"
	}
	_, _ = fmt.Fprintf(l.Out, "%s %s: %s\n", kind, name, what)
}

// miss notes what is left to do.
func (l *Leaver) miss(format string, args ...any) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.left = append(l.left, fmt.Sprintf(format, args...))
}

// sum says what was done and what is left to do. It is no error if nothing is.
func (l *Leaver) sum(ctx context.Context, err error) error {
	for _, one := range l.left {
		_, _ = fmt.Fprintln(l.Out, "left: "+one)
	}
	did := fmt.Sprintf("%d changes", l.done)
	switch {
	case l.DryRun:
		did = fmt.Sprintf("dry run: %d changes to make", l.done)
	case l.done == 0 && len(l.left) == 0 && err == nil:
		did = "there was nothing of ours to take off"
	}
	_, _ = fmt.Fprintln(l.Out, did)
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted: run it again, it goes on where it was")
	case err != nil:
		return err
	case len(l.left) > 0:
		return errors.Errorf("not everything could be cleaned up or seen: %d lines above begin with 'left:' and say why; run this again when that is mended", len(l.left))
	}
	return nil
}
