// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Command profile measures where the minutes of the tests go:
//
//	profile suite NAME COMMAND...   runs a suite and records each of its test binaries
//	profile table                   prints everything that was recorded, as Markdown
//	profile BINARY ARGS...          runs one test binary and records it; 'suite' has 'go test -exec' call this
//
// REMEDY_PROFILE names the folder of the records. table.go defines the columns.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pkg/errors"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
)

const (
	folderVariable = "REMEDY_PROFILE"
	suiteVariable  = "REMEDY_PROFILE_SUITE"
)

// record is one program that ran below 'go test' or 'go run', or a whole suite, which has no package.
type record struct {
	Suite   string              `json:"suite"`
	Package string              `json:"package,omitempty"`
	Begin   time.Time           `json:"begin"`
	End     time.Time           `json:"end"`
	CPU     time.Duration       `json:"cpu"`
	Starts  []controlplane.Span `json:"starts,omitempty"`
}

// isTest reports whether the record is of a package's tests, which have the name of their folder, and not of a program of 'go run'.
func (r *record) isTest() bool { return strings.HasPrefix(r.Package, ".") }

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "profile:", err)
		code = 2
	}
	os.Exit(code)
}

func run(args []string) (code int, err error) {
	folder := os.Getenv(folderVariable)
	switch {
	case folder == "":
		return 0, errors.Errorf("set %s to a folder for the records, or call 'make profile-tests'", folderVariable)
	case len(args) == 1 && args[0] == "table":
		return 0, printTable(folder)
	case len(args) > 2 && args[0] == "suite":
		return runSuite(folder, args[1], args[2:])
	case len(args) > 0 && args[0] != "suite" && args[0] != "table":
		return runBinary(folder, args)
	}
	return 0, errors.New("usage: profile suite NAME COMMAND..., or profile table")
}

// runSuite has every 'go test' below the command run its binaries through this program.
func runSuite(folder, name string, command []string) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, errors.Wrap(err, "failed to find this program")
	}
	r, code, err := measure(command, suiteVariable+"="+name, "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -exec="+self))
	if err != nil {
		return 0, err
	}
	r.Suite = name
	return code, write(folder, r)
}

func runBinary(folder string, command []string) (int, error) {
	starts, err := os.CreateTemp("", "remedy-profile-")
	if err != nil {
		return 0, errors.Wrap(err, "failed to make a file for the starts of API servers")
	}
	defer func() { _ = os.Remove(starts.Name()) }()
	if err := starts.Close(); err != nil {
		return 0, errors.WithStack(err)
	}
	name := filepath.Base(command[0])
	if strings.HasSuffix(name, ".test") {
		if name, err = packageFolder(); err != nil {
			return 0, err
		}
	}
	r, code, err := measure(command, controlplane.SpansVariable+"="+starts.Name())
	if err != nil {
		return 0, err
	}
	r.Suite, r.Package = os.Getenv(suiteVariable), name
	if r.Starts, err = controlplane.Spans(starts.Name()); err != nil {
		return 0, err
	}
	return code, write(folder, r)
}

// packageFolder is the current folder as the checkout sees it: ./internal/health.
func packageFolder() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", errors.WithStack(err)
	}
	for root := dir; root != filepath.Dir(root); root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, ".git")); err == nil {
			return "." + strings.TrimPrefix(dir, root), nil
		}
	}
	return dir, nil
}

// measure runs a command with additional variables, and passes signals on to it.
func measure(command []string, environment ...string) (r record, code int, err error) {
	cmd := exec.Command(command[0], command[1:]...) //nolint:gosec,noctx // the command is what this program is for; signals end it.
	cmd.Env = append(os.Environ(), environment...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	r.Begin = time.Now()
	if err := cmd.Start(); err != nil {
		return r, 0, errors.Wrapf(err, "failed to start %s", command[0])
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s)
		}
	}()
	err = cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return r, 0, errors.Wrapf(err, "failed to run %s", command[0])
	}
	r.End, r.CPU = time.Now(), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()
	if code = cmd.ProcessState.ExitCode(); code < 0 {
		// A signal ended the command.
		code = 1
	}
	return r, code, nil
}

func write(folder string, r record) error {
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // people read what is in it.
		return errors.Wrap(err, "failed to make the folder of records")
	}
	text, err := json.Marshal(r)
	if err != nil {
		return errors.WithStack(err)
	}
	file := filepath.Join(folder, fmt.Sprintf("%d-%d.json", r.Begin.UnixNano(), os.Getpid()))
	return errors.Wrap(os.WriteFile(file, text, 0o600), "failed to write a record")
}
