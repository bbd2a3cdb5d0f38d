// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/pkg/errors"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
)

const explanation = `
Times are seconds on %d cores. compile: no test binary of the suite was running. start: control planes were starting.
work: CPU seconds of the test binary and of all its processes, divided by the cores, at most what the starts leave. wait: the rest.
`

func printTable(folder string) error {
	records, err := read(folder)
	if err != nil {
		return err
	}
	fmt.Printf(explanation, runtime.NumCPU())
	fmt.Print("\n| suite | total | compile | run | CPU busy |\n|---|---:|---:|---:|---:|\n")
	for _, s := range records {
		if s.Package != "" {
			continue
		}
		var runs []controlplane.Span
		for _, r := range records {
			if r.isTest() && r.Suite == s.Suite {
				runs = append(runs, controlplane.Span{Begin: r.Begin, End: r.End})
			}
		}
		total, run := s.End.Sub(s.Begin), covered(runs)
		busy := 100 * s.CPU.Seconds() / total.Seconds() / float64(runtime.NumCPU())
		fmt.Printf("| %s | %.0f | %.0f | %.0f | %.0f %% |\n", s.Suite, total.Seconds(), (total - run).Seconds(), run.Seconds(), busy)
	}
	fmt.Print("\n| suite | package | run | start | work | wait |\n|---|---|---:|---:|---:|---:|\n")
	slices.SortStableFunc(records, func(a, b record) int { return cmp.Compare(b.End.Sub(b.Begin), a.End.Sub(a.Begin)) })
	for _, r := range records {
		run := r.End.Sub(r.Begin)
		if !r.isTest() || run < time.Second {
			continue
		}
		start := covered(r.Starts)
		work := min(r.CPU/time.Duration(runtime.NumCPU()), run-start)
		fmt.Printf("| %s | %s | %.0f | %.0f (%d) | %.0f | %.0f |\n",
			r.Suite, r.Package, run.Seconds(), start.Seconds(), len(r.Starts), work.Seconds(), (run - start - work).Seconds())
	}
	return nil
}

// read returns the records in the order in which they began.
func read(folder string) ([]record, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil, errors.WithStack(err)
	}
	records := make([]record, len(files))
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &records[i])
		}
		if err != nil {
			return nil, errors.Wrapf(err, "failed to read the record %s", file)
		}
	}
	slices.SortFunc(records, func(a, b record) int { return a.Begin.Compare(b.Begin) })
	return records, nil
}

// covered is the time in which at least one of the spans was going on.
func covered(spans []controlplane.Span) time.Duration {
	sorted := slices.SortedFunc(slices.Values(spans), func(a, b controlplane.Span) int { return a.Begin.Compare(b.Begin) })
	var total time.Duration
	var end time.Time
	for _, s := range sorted {
		begin := s.Begin
		if begin.Before(end) {
			begin = end
		}
		if s.End.After(begin) {
			total += s.End.Sub(begin)
			end = s.End
		}
	}
	return total
}
