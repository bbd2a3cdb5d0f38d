// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package demo prints what the programs of 'make demo' and 'make demo-nodes' do: headings, sentences with times, and the commands that a
// user types, with their output. It contains no scenario: those are in test/world/cmd/demo and test/demo/nodes. Start reading at Terminal.
package demo

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"
)

// The layout of the output.
const (
	width  = 118
	indent = "          "
)

// Timeout is how long the demo waits for what it has announced. It is generous, because a machine can be busy.
const Timeout = 3 * time.Minute

// interval is the time between two reads.
const interval = 50 * time.Millisecond

// Terminal prints a demo.
type Terminal struct {
	out   io.Writer
	begin time.Time
	lock  sync.Mutex

	// Kubeconfig, Folder and Path are what commands run with: the cluster, the current folder, and the folders of kubectl and its plugins.
	Kubeconfig, Folder string
	Path               []string
}

// NewTerminal returns a Terminal whose times start now.
func NewTerminal(out io.Writer) *Terminal {
	return &Terminal{out: out, begin: time.Now()}
}

// Heading begins a part.
func (t *Terminal) Heading(format string, args ...any) {
	title := fmt.Sprintf(format, args...)
	t.write("\n" + title + "\n" + strings.Repeat("=", len(title)) + "\n\n")
}

// Print prints sentences with the present time.
func (t *Terminal) Print(format string, args ...any) { t.PrintAt(time.Now(), format, args...) }

// PrintAt prints sentences with the time at which it happened.
func (t *Terminal) PrintAt(at time.Time, format string, args ...any) {
	stamp := fmt.Sprintf("[%6.1fs] ", at.Sub(t.begin).Seconds())
	t.write(stamp + wrap(fmt.Sprintf(format, args...)) + "\n")
}

// Lines prints lines as they are.
func (t *Terminal) Lines(text string) {
	t.write(indent + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n"+indent) + "\n")
}

func (t *Terminal) write(text string) {
	t.lock.Lock()
	defer t.lock.Unlock()
	_, _ = io.WriteString(t.out, text)
}

// wrap breaks sentences into lines, which begin below the first one.
func wrap(text string) string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(indent)+len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return strings.Join(append(lines, line), "\n"+indent)
}

// Run prints a command as a user types it, runs it in a shell, and prints its output. It returns the output, and an error if the command
// fails.
func (t *Terminal) Run(ctx context.Context, command string) (string, error) {
	text, err := t.run(ctx, command)
	if ctx.Err() != nil {
		return "", errors.WithStack(ctx.Err())
	}
	return text, errors.Wrapf(err, "failed to run %q", command)
}

// RunRejected is Run for a command that has to fail.
func (t *Terminal) RunRejected(ctx context.Context, command string) error {
	if _, err := t.run(ctx, command); err == nil {
		return errors.Errorf("%q should have been rejected", command)
	}
	return errors.WithStack(ctx.Err())
}

func (t *Terminal) run(ctx context.Context, command string) (string, error) {
	shell := exec.CommandContext(ctx, "sh", "-c", command)
	shell.Dir = t.Folder
	path := strings.Join(append(t.Path, os.Getenv("PATH")), string(filepath.ListSeparator))
	shell.Env = append(os.Environ(), "KUBECONFIG="+t.Kubeconfig, "PATH="+path)
	out, err := shell.CombinedOutput()
	t.write("\n")
	t.Lines("$ " + command + "\n" + string(out))
	t.write("\n")
	return string(out), errors.WithStack(err)
}

// Until waits until a function returns true. Its error is what the demo has announced, and the last error of the function.
func (t *Terminal) Until(ctx context.Context, announced string, done func(ctx context.Context) (bool, error)) error {
	limited, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	for {
		is, err := done(limited)
		if is && err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.WithStack(ctx.Err())
		case <-limited.Done():
			return errors.Errorf("this did not happen within %s: %s (%v)", Timeout, announced, err)
		case <-time.After(interval):
		}
	}
}
