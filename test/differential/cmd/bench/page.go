// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The tables of docs/performance.md are between these lines.
const (
	tablesBegin = "<!-- The tables are written by 'make bench-page'. -->\n"
	tablesEnd   = "<!-- The end of the tables. -->\n"
)

// curve is a picture of benchmarkScale.
type curve struct {
	file, title, by, metric string
	sizes                   []int
}

var curves = []curve{
	{"cpu-by-nodes.svg", "CPU for each heartbeat (µs), by Nodes under one check", "Nodes", "cpu µs/heartbeat above idle", nodeCounts},
	{"change-by-nodes.svg", "CPU for each change of a Node (µs), by Nodes under one check", "Nodes", "cpu µs/change", nodeCounts},
	{"memory-by-nodes.svg", "Heap (MiB), by Nodes under one check", "Nodes", "heap MiB", nodeCounts},
	{"start-by-nodes.svg", "Start to first decision (s), by Nodes under one check", "Nodes", "start to first decision s", nodeCounts},
	{"cpu-by-clusters.svg", "CPU for each heartbeat (µs), by workload clusters", "clusters", "cpu µs/heartbeat above idle", clusterCounts},
	{"start-by-clusters.svg", "Start to first decision (s), by workload clusters", "clusters", "start to first decision s", clusterCounts},
	{"memory-by-clusters.svg", "Heap (MiB), by workload clusters of 300 Nodes", "clusters", "heap MiB", clusterCounts},
}

// writePage writes the results in a file of make bench to docs/performance.md, and the pictures of the curves to its images.
func writePage(file, page string) error {
	r, err := readResults(file)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(text), tablesBegin)
	_, after, ended := strings.Cut(rest, tablesEnd)
	if !found || !ended {
		return fmt.Errorf("%s has no place for the tables: between %q and %q", page, tablesBegin, tablesEnd)
	}
	if err := os.WriteFile(page, []byte(before+tablesBegin+"\n"+r.markdown()+"\n"+tablesEnd+after), 0o600); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(filepath.Dir(page), "images"), 0o750); err != nil {
		return err
	}
	for i := range curves {
		picture := curves[i].svg(r)
		if picture == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(filepath.Dir(page), "images", curves[i].file), []byte(picture), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// markdown returns the targets, and the medians of all that was measured.
func (r *results) markdown() string {
	var text strings.Builder
	text.WriteString("| target | measured | goal | |\n|---|---|---|---|\n")
	for _, t := range r.evaluate() {
		fmt.Fprintf(&text, "| %s | %s | %s | %s |\n", t.Name, number(t.Measured), t.Goal, t.Result)
	}
	systems, rows := r.axes()
	fmt.Fprintf(&text, "\n| benchmark | value | rounds | %s |\n", strings.Join(systems, " | "))
	text.WriteString("|---|---|---|" + strings.Repeat("---|", len(systems)) + "\n")
	for _, at := range rows {
		rounds := 0
		for _, s := range systems {
			rounds = max(rounds, len(r.values(at.benchmark, s, at.metric)))
		}
		fmt.Fprintf(&text, "| %s | %s | %d |", at.benchmark, at.metric, rounds)
		for _, s := range systems {
			fmt.Fprintf(&text, " %s |", number(median(r.values(at.benchmark, s, at.metric))))
		}
		text.WriteString("\n")
	}
	return text.String()
}

// The size of a picture, and of the space around its curves.
const (
	pictureWidth, pictureHeight = 480, 300
	pictureMargin               = 50
)

var colours = map[string]string{remedy.name: "#1f6feb", inTreeUnlimited.name: "#d1742f"}

// svg draws the curve of each system with two logarithmic axes; it is empty if nothing was measured.
func (c *curve) svg(r *results) string {
	lines, least, most := map[string][]float64{}, math.Inf(1), math.Inf(-1)
	for name := range colours {
		for _, size := range c.sizes {
			value := median(r.values("B10", name, fmt.Sprintf("%d %s: %s", size, c.by, c.metric)))
			lines[name] = append(lines[name], value)
			if value > 0 {
				least, most = min(least, value), max(most, value)
			}
		}
	}
	if math.IsInf(least, 1) {
		return ""
	}
	// The axis ends at powers of ten.
	low, high := math.Floor(math.Log10(least)), math.Max(math.Floor(math.Log10(least))+1, math.Ceil(math.Log10(most)))
	first, last := math.Log10(float64(c.sizes[0])), math.Log10(float64(c.sizes[len(c.sizes)-1]))
	x := func(size int) float64 {
		return pictureMargin + (math.Log10(float64(size))-first)/(last-first)*(pictureWidth-2*pictureMargin)
	}
	y := func(value float64) float64 {
		return pictureHeight - pictureMargin - (math.Log10(value)-low)/(high-low)*(pictureHeight-2*pictureMargin)
	}
	var text strings.Builder
	add := func(format string, args ...any) { fmt.Fprintf(&text, format+"\n", args...) }
	add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`, pictureWidth, pictureHeight)
	add(`<rect width="100%%" height="100%%" fill="white"/><text x="%d" y="20" font-size="13">%s</text>`, pictureMargin, c.title)
	for power := low; power <= high; power++ {
		at := y(math.Pow(10, power))
		add(`<path d="M%d %.1fH%d" stroke="#ddd"/><text x="8" y="%.1f">%s</text>`,
			pictureMargin, at, pictureWidth-pictureMargin, at+4, number(math.Pow(10, power)))
	}
	for _, size := range c.sizes {
		add(`<text x="%.1f" y="%d" text-anchor="middle">%d</text>`, x(size), pictureHeight-pictureMargin+18, size)
	}
	for i, name := range slices.Sorted(maps.Keys(colours)) {
		points := make([]string, 0, len(c.sizes))
		for at, size := range c.sizes {
			if value := lines[name][at]; value > 0 {
				points = append(points, fmt.Sprintf("%.1f,%.1f", x(size), y(value)))
			}
		}
		add(`<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`, strings.Join(points, " "), colours[name])
		add(`<text x="%d" y="%d" fill="%s">%s</text>`, pictureMargin+180*i, pictureHeight-10, colours[name], name)
	}
	add(`</svg>`)
	return text.String()
}
