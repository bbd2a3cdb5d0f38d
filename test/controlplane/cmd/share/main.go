// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Command share runs a command, and lets the tests below it share control planes: share -- go test ./...
// A control plane starts when the first package leases it, and stops when the command has ended.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/pkg/errors"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
)

// usageCode is the exit code for a wrong call, failedCode the one for a command that could not be run.
const (
	usageCode  = 2
	failedCode = 125
)

func main() {
	os.Exit(run(os.Args[1:]))
}

// run returns the exit code of the command.
func run(args []string) int {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "usage: share -- command [argument ...]")
		return usageCode
	}
	lender, err := controlplane.NewLender()
	if err != nil {
		fmt.Fprintf(os.Stderr, "share: %v\n", err)
		return failedCode
	}
	defer lender.Stop()
	code, err := call(args, lender.Environment())
	if err != nil {
		fmt.Fprintf(os.Stderr, "share: %v\n", err)
	}
	return code
}

// call runs the command, and passes on the signals that end this process.
func call(args []string, environment string) (int, error) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer close(signals)
	defer signal.Stop(signals)
	cmd := exec.Command(args[0], args[1:]...) //nolint:gosec,noctx // the caller chose the command; it ends by itself or by a forwarded signal.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), environment)
	if err := cmd.Start(); err != nil {
		return failedCode, err
	}
	go func() {
		for s := range signals {
			// A command that has ended needs no signal.
			_ = cmd.Process.Signal(s)
		}
	}()
	var ended *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &ended) {
		return failedCode, err
	}
	if status, is := cmd.ProcessState.Sys().(syscall.WaitStatus); is && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return cmd.ProcessState.ExitCode(), nil
}
