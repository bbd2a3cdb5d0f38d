// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// maxLines is how many lines a report has at most, so that the last 60 lines of a suite contain it.
const maxLines = 50

// fewLines are enough for the name of a test and the begin of its message.
const fewLines = 6

// lastRecords is how many of the last records of a failed test are repeated. After a failure that ends a test, its cleanup can add some.
const lastRecords = 3

var (
	// Also in the output of a test that has run another program of tests, which is indented.
	current = regexp.MustCompile(`^\s*=== (?:RUN|CONT|NAME|PAUSE) +(\S+)`)
	result  = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+) \(`)
	record  = regexp.MustCompile(`^\s+\S+\.go:\d+: `)
	// What no test reports by itself: the program ends, does not compile, or has a data race.
	crash       = regexp.MustCompile(`^(panic: |fatal error: |WARNING: DATA RACE|# [\w./-]+$)`)
	packageEnds = regexp.MustCompile(`^(ok  |FAIL|\?   )\t(\S+)`)
)

// failure is a test with its records, or a crash with one record.
type failure struct {
	title           string
	isCrash, failed bool
	records         [][]string
}

// report collects what failed in the order in which it ended.
type report struct {
	// tests are those of the package that is being read, by name.
	tests    map[string]*failure
	now      *failure
	failures []*failure
	packages []string
}

func newReport() *report { return &report{tests: map[string]*failure{}} }

// read takes the next line.
func (r *report) read(line string) {
	if found := current.FindStringSubmatch(line); found != nil {
		r.now = r.test(found[1])
	} else if found := result.FindStringSubmatch(line); found != nil {
		r.now = r.test(found[2])
		if found[1] == "FAIL" && !r.now.failed {
			r.now.failed = true
			r.failures = append(r.failures, r.now)
		}
	} else if found := packageEnds.FindStringSubmatch(line); found != nil {
		if found[1] == "FAIL" {
			r.packages = append(r.packages, found[2])
		}
		// Another package can have a test with the same name.
		r.tests, r.now = map[string]*failure{}, nil
	} else if crash.MatchString(line) {
		r.now = &failure{title: line, isCrash: true, records: [][]string{nil}}
		r.failures = append(r.failures, r.now)
	} else if r.now != nil {
		r.now.add(line)
	}
}

func (r *report) test(name string) *failure {
	if r.tests[name] == nil {
		r.tests[name] = &failure{title: "--- FAIL: " + name}
	}
	return r.tests[name]
}

// add adds a line to the records. What other programs print is not indented.
func (f *failure) add(line string) {
	last := len(f.records) - 1
	switch {
	case record.MatchString(line):
		f.records = append(f.records, []string{line})
	case last >= 0 && (f.isCrash || line == "" || strings.TrimLeft(line, " \t") != line):
		f.records[last] = append(f.records[last], line)
	}
}

// String is the report, or empty if nothing failed.
func (r *report) String() string {
	if len(r.packages) == 0 {
		return ""
	}
	shown := slices.DeleteFunc(slices.Clone(r.failures), r.isExplained)
	lines := []string{"=== failed: " + strings.Join(r.packages, " ")}
	for i, f := range shown {
		left := maxLines - len(lines)
		if left <= 1 && i < len(shown)-1 {
			lines = append(lines, fmt.Sprintf("=== and %d more", len(shown)-i))
			break
		}
		// What the first ones do not need is for the others. The first messages help more than all names.
		share := max(fewLines, (left-1)/(len(shown)-i))
		lines = append(lines, f.lines(min(left-1, share))...)
	}
	return strings.Join(lines, "\n") + "\n"
}

// isExplained reports whether a test has failed only because of its subtests.
func (r *report) isExplained(f *failure) bool {
	isSubtest := func(other *failure) bool { return strings.HasPrefix(other.title, f.title+"/") }
	return len(f.records) == 0 && slices.ContainsFunc(r.failures, isSubtest)
}

// lines is the title and the last records.
func (f *failure) lines(limit int) []string {
	records := f.records[max(0, len(f.records)-lastRecords):]
	lines := append(make([]string, 0, limit), f.title)
	for i, one := range records {
		lines = append(lines, shortened(one, (limit-len(lines))/(len(records)-i))...)
	}
	return lines
}

// shortened leaves out the middle of a record that is longer than the limit: what was expected stands at its end.
func shortened(record []string, limit int) []string {
	switch {
	case len(record) <= limit:
		return record
	case limit <= 0:
		return nil
	}
	tail := (limit - 1) / 2
	return slices.Concat(record[:limit-1-tail], []string{"        [...]"}, record[len(record)-tail:])
}
