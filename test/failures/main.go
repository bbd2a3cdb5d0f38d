// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Command failures copies the output of 'go test' and repeats at its end what failed, so that nothing has to be searched for:
//
//	go test -v ./... 2>&1 | failures
//
// It does not change the exit code: use 'set -o pipefail'. report.go defines what it repeats.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/pkg/errors"
)

func main() {
	// Ctrl-C ends the tests, and then their output ends.
	signal.Ignore(syscall.SIGINT)
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "failures:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	r := newReport()
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		r.read(strings.TrimRight(line, "\r\n"))
		if err != nil {
			line += r.String()
		}
		if _, failed := io.WriteString(out, line); failed != nil || err != nil {
			return failed
		}
	}
}
