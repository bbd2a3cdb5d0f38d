// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// reported is what follows the output that was read.
func reported(t *testing.T, output string) string {
	t.Helper()
	var all bytes.Buffer
	NewWithT(t).Expect(run(strings.NewReader(output), &all)).To(Succeed())
	text, copied := strings.CutPrefix(all.String(), output)
	NewWithT(t).Expect(copied).To(BeTrue(), "the output itself is not changed")
	return text
}

func TestReport_TestsFailed_RepeatsTheirMessages(t *testing.T) {
	for name, test := range map[string]struct{ output, report string }{
		"verbose": {`=== RUN   TestA
=== PAUSE TestA
=== RUN   TestB
=== CONT  TestA
    a_test.go:1: the log of another test
=== CONT  TestB
    b_test.go:2: a log
=== RUN   TestB/sub
=== NAME  TestA
    a_test.go:3: another one
=== NAME  TestB/sub
    b_test.go:4: 
        Expected
            <string>: unhealthy
world: 3.1 s: what another program prints
=== NAME  TestA
--- PASS: TestA (0.10s)
--- FAIL: TestB (2.00s)
    --- FAIL: TestB/sub (1.00s)
`, `--- FAIL: TestB
    b_test.go:2: a log
--- FAIL: TestB/sub
    b_test.go:4: 
        Expected
            <string>: unhealthy
`},
		"without -v, a test that only has subtests has no message": {`--- FAIL: TestA (0.10s)
    --- FAIL: TestA/sub (0.00s)
        a_test.go:1: second
`, `--- FAIL: TestA/sub
        a_test.go:1: second
`},
		"a test logs the output of another program of tests": {`=== RUN   TestMove
    own_process_test.go:35: === RUN   TestMove
        === RUN   TestMove/back
            move_test.go:7: 
                Expected success
        --- FAIL: TestMove (1.00s)
            --- FAIL: TestMove/back (1.00s)
`, `--- FAIL: TestMove
    own_process_test.go:35: === RUN   TestMove
--- FAIL: TestMove/back
            move_test.go:7: 
                Expected success
`},
	} {
		t.Run(name, func(t *testing.T) {
			// Another package has a test with the same name.
			first := "--- FAIL: TestA (0.10s)\n    a_test.go:1: first\nFAIL\texample.com/one\t0.1s\nok  \texample.com/two\t0.1s\n"
			NewWithT(t).Expect(reported(t, first+test.output+"FAIL\texample.com/three\t2.1s\n")).To(Equal(
				"=== failed: example.com/one example.com/three\n--- FAIL: TestA\n    a_test.go:1: first\n" + test.report))
		})
	}
}

func TestReport_NothingFailed_IsEmpty(t *testing.T) {
	NewWithT(t).Expect(reported(t, "=== RUN   TestA\n    a_test.go:1: of another program:\n        --- FAIL: TestB (1.00s)\n"+
		"--- PASS: TestA (0.10s)\nPASS\nok  \texample.com/one\t0.1s\n")).To(BeEmpty())
}

func TestReport_NoTestFailed_RepeatsTheCrash(t *testing.T) {
	for name, output := range map[string]string{
		"panic":     "=== RUN   TestA\npanic: boom\n\ngoroutine 1 [running]:\n",
		"timeout":   "panic: test timed out after 1s\n\trunning tests:\n\t\tTestA (1s)\n",
		"build":     "# example.com/one\n./one.go:3:1: undefined: boom\n",
		"data race": "==================\nWARNING: DATA RACE\nWrite at 0x00c0 by goroutine 7:\n",
	} {
		t.Run(name, func(t *testing.T) {
			text := reported(t, output+"FAIL\texample.com/one [build failed]\n")
			crash := strings.Split(strings.TrimPrefix(strings.TrimPrefix(output, "=== RUN   TestA\n"), "==================\n"), "\n")
			NewWithT(t).Expect(strings.Split(text, "\n")[1:]).To(ContainElements(crash))
		})
	}
}

func TestReport_ManyOrLong_FitsIntoItsLines(t *testing.T) {
	g := NewWithT(t)
	var many, long strings.Builder
	for i := range 200 {
		fmt.Fprintf(&many, "--- FAIL: Test%d (0.10s)\n    a_test.go:1: \n        message %d\n", i, i)
	}
	long.WriteString("--- FAIL: TestLong (0.10s)\n    a_test.go:1: \n        the begin\n" + strings.Repeat("        more\n", 500))
	for i := range 5 {
		fmt.Fprintf(&long, "    a_test.go:%d: record %d\n%s", i, i, strings.Repeat("        more\n", 500))
	}
	long.WriteString("        what was expected\n")
	const end = "FAIL\texample.com/one\t0.1s\n"
	text := reported(t, many.String()+end)
	g.Expect(strings.Count(text, "\n")).To(BeNumerically("<=", maxLines))
	g.Expect(text).To(And(ContainSubstring("--- FAIL: Test9\n    a_test.go:1: \n        message 9\n"), MatchRegexp(`=== and 1\d\d more\n$`)))
	text = reported(t, long.String()+end)
	g.Expect(strings.Count(text, "\n")).To(BeNumerically("<=", maxLines))
	g.Expect(text).To(And(ContainSubstring("--- FAIL: TestLong\n"), ContainSubstring("record 2"), ContainSubstring("record 4"),
		HaveSuffix("what was expected\n")))
}
