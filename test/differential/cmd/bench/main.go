// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures the manager of Remedy and Cluster API's MachineHealthCheck reconciler side by side: the same API server, the same
// objects, the same limits of the clients, each in a process of its own, one after the other. docs/performance.md describes the results.
//
// Every benchmark is a function in a file of its own and an entry of the list below. Start reading there, then at fleet.go (what the API
// server holds) and system.go (what is measured).
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	ctrl "sigs.k8s.io/controller-runtime"
)

// benchmark is one entry of the list. It runs for each of the systems in each round, one after the other, so that a machine that becomes
// slower is slower for all of them.
type benchmark struct {
	name, question string
	rounds         int
	systems        []*system
	// run ends the benchmark by succeed and must if anything fails.
	run func(ctx context.Context, b *bench, s *system)
}

var benchmarks = []benchmark{
	{"B0", "How fast is the API server without a controller?", 3, []*system{floor}, benchmarkFloor},
	{"B1", "What does a heartbeat cost?", 5, []*system{floor, remedy, inTree, inTreeUnlimited}, benchmarkHeartbeats},
	{"B2", "How long from a failed Node to the decision?", 5, []*system{remedy, inTree, inTreeUnlimited}, benchmarkLatency},
	{"B3", "How long until a tenth of 1,000 Machines is marked?", 5, []*system{remedy, inTree, inTreeUnlimited}, benchmarkTenth},
	{"B4", "How long until 20 remediation requests exist?", 3, []*system{remedy, inTree, inTreeUnlimited}, benchmarkRequests},
	{"B5", "How much memory does a cached Node need?", 3, []*system{remedy, inTree}, benchmarkMemory},
	{"B6", "How long from a lost leader to the first decision?", 3, failoverSystems, benchmarkFailover},
	{"B7", "How many API requests does a day cost?", 3, []*system{remedy, inTree, inTreeUnlimited}, benchmarkDay},
	{"B8", "How late are decisions that wait for a deadline?", 5, []*system{remedy, inTree, inTreeUnlimited}, benchmarkDeadlines},
	{"B9", "What does the evaluation of a healthy Machine cost?", 3, []*system{remedy, inTreeUnlimited}, benchmarkEvaluation},
	{"B10", "How do the costs grow with Nodes and with clusters?", 1, []*system{remedy, inTreeUnlimited}, benchmarkScale},
	{"B11", "How late are they while heartbeats arrive?", 3, []*system{remedy, inTree, inTreeUnlimited}, benchmarkDeadlinesUnderLoad},
	{"B12", "What happens when many Nodes are lost at once?", 3, []*system{remedy, inTree, inTreeUnlimited}, benchmarkBadDay},
	{"B13", "What does it cost to decode a heartbeat?", 3, []*system{remedy, inTree}, benchmarkDecode},
}

func main() {
	selected := flag.String("run", "", "Benchmarks to run, for example B1,B2; all of them if empty.")
	out := flag.String("out", "bench.json", "File for the results.")
	manager := flag.String("manager", "bin/manager", "The manager of Remedy.")
	intree := flag.String("intree", "bin/intree", "The program in cmd/intree.")
	rounds := flag.Int("rounds", 0, "Rounds of each benchmark; its own number if 0.")
	page := flag.String("page", "", "docs/performance.md: write the results in the file of -out to it, and measure nothing.")
	receiver := flag.String("receive", "", "A kubeconfig: receive the watch of its Nodes, and measure nothing. B1 runs it.")
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case *receiver != "":
		err = receive(ctx, *receiver)
	case *page != "":
		err = writePage(*out, *page)
	default:
		err = runAll(ctx, *selected, *out, *manager, *intree, *rounds)
	}
	if err != nil {
		stop()
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1) //nolint:gocritic // stop was called.
	}
}

func runAll(ctx context.Context, selected, out, manager, intree string, rounds int) error {
	chosen, err := choose(selected)
	if err != nil {
		return err
	}
	if manager, err = filepath.Abs(manager); err != nil {
		return err
	}
	if intree, err = filepath.Abs(intree); err != nil {
		return err
	}
	earlier, err := readResults(out)
	if err != nil {
		return err
	}
	b := &bench{programs: map[string]string{"manager": manager, "intree": intree}, results: earlier}
	begin := time.Now()
	var failed []error
	for i := range chosen {
		if rounds > 0 {
			chosen[i].rounds = rounds
		}
		b.results.drop(chosen[i].name)
		// The others run even if one fails: together they take more than an hour. A part of a benchmark is no result.
		if err := b.runOne(ctx, &chosen[i]); err != nil {
			fmt.Printf("  failed: %v\n", err)
			failed = append(failed, fmt.Errorf("%s: %w", chosen[i].name, err))
			b.results.drop(chosen[i].name)
		}
		if err := b.results.write(out); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	fmt.Print(b.results.table())
	fmt.Printf("%d benchmarks took %s; all values are in %s\n", len(chosen), time.Since(begin).Round(time.Second), out)
	return utilerrors.NewAggregate(failed)
}

func choose(selected string) ([]benchmark, error) {
	if selected == "" {
		return benchmarks, nil
	}
	var chosen []benchmark
	for name := range strings.SplitSeq(selected, ",") {
		if strings.EqualFold(name, "B14") {
			// It is the same failover, with the lease times in docs/flags.md.
			name = "B6"
		}
		found := false
		for i := range benchmarks {
			if strings.EqualFold(benchmarks[i].name, name) {
				chosen, found = append(chosen, benchmarks[i]), true
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no benchmark %q: write B0 to B14, separated by commas", name)
		}
	}
	return chosen, nil
}

// runOne runs a benchmark on an API server of its own: what an earlier one has left would make lists longer.
func (b *bench) runOne(ctx context.Context, m *benchmark) error {
	fmt.Printf("%s: %s\n", m.name, m.question)
	if err := attempt(func() { b.start(ctx) }); err != nil {
		return err
	}
	defer b.stop()
	for round := range m.rounds {
		for _, s := range m.systems {
			if s.isSecondary && round > 0 && !isCompared(m.name, s) {
				continue
			}
			b.results.begin(m.name, s.name, round)
			began := time.Now()
			if err := attempt(func() { m.run(ctx, b, s) }); err != nil {
				return fmt.Errorf("round %d, %s: %w", round+1, s.name, err)
			}
			fmt.Printf("  round %d, %s: %s (%.0f s)\n", round+1, s.name, b.results.last(), time.Since(began).Seconds())
		}
	}
	return nil
}

// failure is the panic of succeed. A benchmark is a long series of steps, and none is worth anything after one that has failed.
type failure struct{ err error }

// succeed ends a benchmark if a step has failed. The clean-up of the steps before runs.
func succeed(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// must is succeed for a step with a result.
func must[T any](value T, err error) T {
	succeed(err)
	return value
}

// attempt returns the error of the step that has failed.
func attempt(steps func()) (err error) {
	defer func() {
		if recovered := recover(); recovered != nil {
			failed, expected := recovered.(failure)
			if !expected {
				panic(recovered)
			}
			err = failed.err
		}
	}()
	steps()
	return nil
}
