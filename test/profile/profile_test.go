// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
)

func TestCovered_OverlappingSpans_CountOnce(t *testing.T) {
	at := func(begin, end int) controlplane.Span {
		zero := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
		return controlplane.Span{Begin: zero.Add(time.Duration(begin) * time.Second), End: zero.Add(time.Duration(end) * time.Second)}
	}
	for name, test := range map[string]struct {
		spans   []controlplane.Span
		seconds time.Duration
	}{
		"none":       {nil, 0},
		"apart":      {[]controlplane.Span{at(10, 12), at(1, 4)}, 5},
		"overlap":    {[]controlplane.Span{at(1, 4), at(3, 6)}, 5},
		"one inside": {[]controlplane.Span{at(1, 9), at(2, 3), at(8, 10)}, 9},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(covered(test.spans)).To(Equal(test.seconds * time.Second))
		})
	}
}

// A suite exits as its command does, and its test binaries are recorded under its name.
func TestRun_FailingCommand_RecordsAndPassesItsCode(t *testing.T) {
	g := NewWithT(t)
	folder := t.TempDir()
	t.Setenv(folderVariable, folder)
	t.Setenv(suiteVariable, "outer")
	code, err := run([]string{"/bin/sh", "-c", "echo '{}' >> \"$" + controlplane.SpansVariable + "\"; exit 3"})
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(code).To(Equal(3))
	code, err = run([]string{"suite", "inner", "/bin/sh", "-c", "echo \"$GOFLAGS\" | grep -q exec= && exit 4"})
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(code).To(Equal(4))

	records, err := read(folder)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(records).To(HaveLen(2))
	g.Expect(records[0].Suite + " " + records[0].Package).To(Equal("outer sh"))
	g.Expect(records[0].Starts).To(HaveLen(1))
	g.Expect(records[1].Suite + " " + records[1].Package).To(Equal("inner "))
	g.Expect(records[1].End).To(BeTemporally(">=", records[1].Begin))
}

func TestRun_WithoutFolder_ReturnsUsage(t *testing.T) {
	t.Setenv(folderVariable, "")
	_, err := run([]string{"table"})
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("make profile-tests")))
}
