// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pkg/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Scenario is a sequence of steps with a controller. It runs many times, each time on a stage of its own, and must end in the same state.
type Scenario[Stage any] struct {
	// Begin creates what exists before the controller starts, usually in a new namespace.
	Begin func(ctx context.Context) (Stage, error)
	// Run starts the controller as this process, and returns when it has nothing left to do; or with an error, when the process has crashed.
	// It is called again with a new process then. Its context ends when the process crashes.
	Run func(ctx context.Context, process *Process, stage Stage) error
	// State is what the story has led to: every object that matters. It may be as the API server gives it.
	State func(ctx context.Context, stage Stage) ([]client.Object, error)
	// Names are strings that differ from one stage to the next, such as its namespace. They become <1>, <2> and so on.
	Names func(stage Stage) []string
	// Check verifies the end of each run, in addition to the state; nil if there is nothing else. The writes are those of all processes of the run.
	Check func(ctx context.Context, stage Stage, writes []Write) error
	// End takes the stage down; nil if there is nothing to take down.
	End func(ctx context.Context, stage Stage)

	// Options are those of every process. Ignoring selects writes that are no steps of the scenario.
	Options []Option
	// Faults are those that each write meets; CrashBefore and CrashAfter if empty. After the others the same process has to go on.
	Faults []Fault
	// OncePerKind: of the writes with the same verb and resource only the first and the last one meet the faults. Usually the first one starts
	// something, and the last one cleans up.
	OncePerKind bool
}

// Report is the result of a scenario.
type Report struct {
	// Writes are those of the run without a fault. State is how it ended.
	Writes []Write
	State  string
	// Runs is the number of runs. Missed is the number of runs without the write that should have had a fault: there were fewer of its kind
	// this time.
	Runs, Missed int
	Failures     []Failure
}

// Failure is a run that did not end as it should.
type Failure struct {
	// N is the write that met the fault; 0 for the run without one. Write is that write.
	N     int
	Write Write
	Fault Fault
	// Writes are those of the run, of all its processes.
	Writes []Write
	Err    error
}

// String contains everything that is needed to understand it.
func (f Failure) String() string {
	var b strings.Builder
	if f.N == 0 {
		b.WriteString("without a fault")
	} else {
		fmt.Fprintf(&b, "write %d (%s) met %s", f.N, f.Write.What(), f.Fault)
	}
	fmt.Fprintf(&b, ": %v\nwrites of this run:\n", f.Err)
	for i, w := range f.Writes {
		fmt.Fprintf(&b, "%4d %s\n", i+1, w)
	}
	return b.String()
}

// EachWrite runs the scenario without a fault, and then once for each write in it and each kind of fault. It fails the test for every run
// that does not end in the same state.
//
// A write is identified by its object and kind, and by the number of equal ones before it. A controller with a stale cache sometimes makes an
// unnecessary write, so the number of all writes differs between runs.
func EachWrite[Stage any](t testing.TB, scenario Scenario[Stage]) *Report {
	t.Helper()
	report := Try(t.Context(), scenario)
	for _, failure := range report.Failures {
		t.Errorf("%s", failure)
	}
	t.Logf("%d writes, %d runs, %d of them without their fault", len(report.Writes), report.Runs, report.Missed)
	return report
}

// Try is EachWrite without a test: it returns the failures.
func Try[Stage any](ctx context.Context, scenario Scenario[Stage]) *Report {
	report := &Report{}
	clean := scenario.play(ctx, nil, "")
	report.Runs++
	if clean.err != nil {
		report.Failures = append(report.Failures, Failure{Writes: clean.writes, Err: clean.err})
		return report
	}
	report.Writes, report.State = clean.writes[:clean.before], clean.state
	if len(report.Writes) == 0 {
		report.Failures = append(report.Failures, Failure{Err: errors.New("nothing was written: there is nothing that could go wrong")})
		return report
	}
	faults := scenario.Faults
	if len(faults) == 0 {
		faults = []Fault{CrashBefore, CrashAfter}
	}
	for n, at := range clean.chapters {
		same := func(other chapter) bool { return other.kind.withoutObject() == at.kind.withoutObject() }
		between := slices.ContainsFunc(clean.chapters[:n], same) && slices.ContainsFunc(clean.chapters[n+1:], same)
		if scenario.OncePerKind && between {
			continue
		}
		for _, fault := range faults {
			report.Runs++
			run := scenario.play(ctx, &at, fault)
			if run.missed {
				report.Missed++
			}
			if run.err == nil && run.state != clean.state {
				run.err = errors.Errorf("it ends in another state:\n%s", difference(clean.state, run.state))
			}
			if run.err != nil {
				report.Failures = append(report.Failures, Failure{n + 1, report.Writes[n], fault, run.writes, run.err})
			}
		}
	}
	return report
}

// chapter is a write of a story: the n-th of its kind.
type chapter struct {
	kind Write
	n    int
}

// chapters are all writes of a telling.
func (s *Scenario[Stage]) chapters(stage Stage, writes []Write) []chapter {
	kindOf, seen := s.kinds(stage), map[Write]int{}
	all := make([]chapter, len(writes))
	for i, w := range writes {
		kind := kindOf(w)
		seen[kind]++
		all[i] = chapter{kind, seen[kind]}
	}
	return all
}

// kinds identifies a write in every run, without its result and without the names of the stage.
func (s *Scenario[Stage]) kinds(stage Stage) func(Write) Write {
	var names []string
	if s.Names != nil {
		names = s.Names(stage)
	}
	pairs := make([]string, 0, 2*len(names))
	for i, name := range names {
		pairs = append(pairs, name, fmt.Sprintf("<%d>", i+1))
	}
	rename := strings.NewReplacer(pairs...)
	return func(w Write) Write {
		w.Fault, w.Code = "", 0
		w.Group, w.Namespace, w.Name = rename.Replace(w.Group), rename.Replace(w.Namespace), rename.Replace(w.Name)
		return w
	}
}

// run is one telling of the story.
type run struct {
	// before is how many of the writes were made before the last process, which has nothing to do.
	before int
	writes []Write
	// chapters are what the writes are in every telling.
	chapters []chapter
	// missed: the write was not made that should have met a fault.
	missed bool
	state  string
	err    error
}

// play runs the scenario. One write of its first process meets the fault, if there is one.
func (s *Scenario[Stage]) play(ctx context.Context, at *chapter, fault Fault) (r run) {
	stage, err := s.Begin(ctx)
	if err != nil {
		r.err = errors.Wrap(err, "failed to begin the scenario")
		return r
	}
	if s.End != nil {
		defer s.End(ctx, stage)
	}
	if r.err = s.live(ctx, stage, at, fault, &r); r.err != nil {
		return r
	}
	r.before, r.chapters = len(r.writes), s.chapters(stage, r.writes)
	if r.state, r.err = s.look(ctx, stage); r.err != nil {
		return r
	}
	if s.Check != nil {
		if err := s.Check(ctx, stage, r.writes); err != nil {
			r.err = errors.Wrap(err, "the check at the end")
			return r
		}
	}
	r.err = s.rest(ctx, stage, &r)
	return r
}

// live runs the controller, and a second time if it crashes.
func (s *Scenario[Stage]) live(ctx context.Context, stage Stage, at *chapter, fault Fault, r *run) error {
	first := Start(ctx, s.Options...)
	defer first.Crash()
	var met <-chan Write
	if at != nil {
		var err error
		kindOf := s.kinds(stage)
		if met, err = first.FailWriteOf(func(w Write) bool { return kindOf(w) == at.kind }, at.n, fault); err != nil {
			return err
		}
	}
	err := s.Run(first.Context(), first, stage)
	r.writes = append(r.writes, first.Writes()...)
	crashed := first.Crashed()
	r.missed = at != nil && len(met) == 0
	switch {
	case err != nil && !crashed:
		return errors.Wrap(err, "the controller fails")
	case r.missed && at.n == 1:
		return errors.Errorf("the controller was done after %d writes, and never made this one", len(r.writes))
	case at != nil && !r.missed && fault.lands() && (<-met).Code == 0:
		return errors.New("this write should have landed, and could not be sent: is the API server there?")
	}
	if !crashed {
		return nil
	}
	second := Start(ctx, s.Options...)
	defer second.Crash()
	err = s.Run(second.Context(), second, stage)
	r.writes = append(r.writes, second.Writes()...)
	return errors.Wrap(err, "the controller fails after its restart")
}

// rest starts the controller again, when everything is done. A write would be seen forever.
func (s *Scenario[Stage]) rest(ctx context.Context, stage Stage, r *run) error {
	last := Start(ctx, s.Options...)
	defer last.Crash()
	err := s.Run(last.Context(), last, stage)
	again := last.Writes()
	r.writes = append(r.writes, again...)
	switch {
	case err != nil:
		return errors.Wrap(err, "the controller fails when everything is done")
	case len(again) > 0:
		return errors.Errorf("the controller writes when everything is done: %s", again[0])
	}
	return nil
}

func (s *Scenario[Stage]) look(ctx context.Context, stage Stage) (string, error) {
	objects, err := s.State(ctx, stage)
	if err != nil {
		return "", errors.Wrap(err, "failed to look at the state")
	}
	var names []string
	if s.Names != nil {
		names = s.Names(stage)
	}
	return Normalise(objects, names...)
}
