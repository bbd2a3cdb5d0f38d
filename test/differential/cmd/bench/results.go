// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/pkg/errors"
)

// measurement is a value of one system in one round.
type measurement struct {
	Benchmark string  `json:"benchmark"`
	System    string  `json:"system"`
	Round     int     `json:"round"`
	Metric    string  `json:"metric"`
	Value     float64 `json:"value"`
}

// results holds all measurements, in the order in which they were made.
type results struct {
	all               []measurement
	benchmark, system string
	round             int
	first             int
}

// readResults returns what an earlier run has written, so that the benchmarks can run one by one; nothing if there is no file.
func readResults(file string) (*results, error) {
	content, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return &results{}, nil
	}
	if err != nil {
		return nil, err
	}
	written := struct {
		Measurements []measurement `json:"measurements"`
	}{}
	if err := json.Unmarshal(content, &written); err != nil {
		return nil, fmt.Errorf("%s is no file of make bench, delete it: %w", file, err)
	}
	return &results{all: written.Measurements}, nil
}

// drop removes the values of a benchmark that runs again.
func (r *results) drop(benchmark string) {
	r.all = slices.DeleteFunc(r.all, func(m measurement) bool { return m.Benchmark == benchmark })
}

func (r *results) begin(benchmark, system string, round int) {
	r.benchmark, r.system, r.round, r.first = benchmark, system, round, len(r.all)
}

// add records a value of the present system. What is not a number was not measured.
func (r *results) add(metric string, value float64) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return
	}
	r.all = append(r.all, measurement{r.benchmark, r.system, r.round, metric, value})
}

// addQuantiles records the median, the 99th percentile and the largest of the values, all in milliseconds.
func (r *results) addQuantiles(metric string, values []float64) {
	r.add(metric+" p50 ms", quantile(values, 0.5))
	r.add(metric+" p99 ms", quantile(values, 0.99))
	r.add(metric+" max ms", quantile(values, 1))
}

// last describes what was measured since begin.
func (r *results) last() string {
	all := make([]string, 0, len(r.all)-r.first)
	for _, m := range r.all[r.first:] {
		all = append(all, fmt.Sprintf("%s %s", m.Metric, number(m.Value)))
	}
	return strings.Join(all, ", ")
}

func (r *results) write(file string) error {
	slices.SortStableFunc(r.all, func(a, b measurement) int { return cmp.Compare(order(a.Benchmark), order(b.Benchmark)) })
	content, err := json.MarshalIndent(map[string]any{"measurements": r.all, "targets": r.evaluate()}, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(content, '\n'), 0o600)
}

// order is the position of a benchmark in the list.
func order(name string) int {
	return slices.IndexFunc(benchmarks, func(b benchmark) bool { return b.name == name })
}

// values returns the values of a metric in the order of rounds.
func (r *results) values(benchmark, system, metric string) []float64 {
	var all []float64
	for _, m := range r.all {
		if m.Benchmark == benchmark && m.System == system && m.Metric == metric {
			all = append(all, m.Value)
		}
	}
	return all
}

// ratio returns the median of the ratios of the rounds that both systems have: in one round both ran within a minute.
func (r *results) ratio(benchmark, metric, system, other string) float64 {
	theirs := map[int]float64{}
	for _, m := range r.all {
		if m.Benchmark == benchmark && m.System == other && m.Metric == metric {
			theirs[m.Round] = m.Value
		}
	}
	var all []float64
	for _, m := range r.all {
		if m.Benchmark == benchmark && m.System == system && m.Metric == metric && theirs[m.Round] != 0 {
			all = append(all, m.Value/theirs[m.Round])
		}
	}
	return median(all)
}

// row is a metric of a benchmark.
type row struct{ benchmark, metric string }

// axes returns the systems and the metrics that were measured, in that order.
func (r *results) axes() (systems []string, rows []row) {
	for _, m := range r.all {
		if !slices.Contains(systems, m.System) {
			systems = append(systems, m.System)
		}
		if next := (row{m.Benchmark, m.Metric}); !slices.Contains(rows, next) {
			rows = append(rows, next)
		}
	}
	return systems, rows
}

// table prints the median of each metric by system, and the targets.
func (r *results) table() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	add := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
	systems, rows := r.axes()
	add("\nBENCHMARK\tMETRIC (MEDIAN OF ROUNDS)\t%s\n", strings.ToUpper(strings.Join(systems, "\t")))
	for _, at := range rows {
		add("%s\t%s", at.benchmark, at.metric)
		for _, s := range systems {
			add("\t%s", number(median(r.values(at.benchmark, s, at.metric))))
		}
		add("\n")
	}
	add("\nTARGET\tMEASURED\tGOAL\t\n")
	for _, t := range r.evaluate() {
		add("%s\t%s\t%s\t%s\n", t.Name, number(t.Measured), t.Goal, t.Result)
	}
	_ = w.Flush()
	return text.String() + "\n"
}

// median returns the middle value, or the middle of the two middle ones; not a number if there are no values.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		return math.NaN()
	}
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// quantile returns the nearest-rank quantile; not a number if there are no values.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// number prints a value with three significant digits.
func number(value float64) string {
	switch {
	case math.IsNaN(value):
		return "-"
	case value == 0:
		return "0"
	case math.Abs(value) >= 1000:
		return fmt.Sprintf("%.0f", value)
	}
	return fmt.Sprintf("%.3g", value)
}
