// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// isolation is the environment variable that marks the program as the inner one, isolationError the one with the reason why there is
// none.
const (
	isolation      = "REMEDY_WORLD_ISOLATION"
	isolationError = "REMEDY_WORLD_REFUSAL"
)

// The values of isolation.
const (
	isolated = "namespace"
	exposed  = "none"
	probing  = "probe"
)

// Main is for TestMain: it runs the tests in a network namespace of their own, and after them what is given.
func Main(m *testing.M, after ...func()) {
	if err := Isolate(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	for _, f := range after {
		f()
	}
	os.Exit(code)
}

// Isolate returns in a program that has a network namespace of its own. It runs the same program again, with the same arguments, in a new
// one, waits for it and exits as it did; in the inner program it returns. Call it first: what runs before it runs twice.
func Isolate() error {
	switch os.Getenv(isolation) {
	case isolated:
		return raiseLoopback()
	case exposed:
		return nil
	case probing:
		if err := raiseLoopback(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	var refused error
	for _, attributes := range namespaces() {
		// Some systems allow the namespace and then refuse everything in it, so a first run of this program only raises loopback.
		if refused = try(attributes); refused == nil {
			become(attributes, isolated)
		}
	}
	fmt.Fprintf(os.Stderr, "world: no network namespace of its own (%v): one world at a time fits on this machine\n", refused)
	if err := os.Setenv(isolationError, refused.Error()); err != nil {
		return errors.Wrap(err, "failed to note why there is no isolation")
	}
	return errors.Wrap(os.Setenv(isolation, exposed), "failed to note that there is no isolation")
}

// Isolated reports whether this program has a network namespace of its own, and if it does not, why.
func Isolated() (is bool, why string) {
	switch os.Getenv(isolation) {
	case isolated:
		return true, ""
	case "":
		return false, "world.Main or world.Isolate was not called"
	}
	return false, cmp.Or(os.Getenv(isolationError), "because of "+isolation)
}

// namespaces are the ways to get a network namespace: as root, and as any user.
func namespaces() []*syscall.SysProcAttr {
	inUserNamespace := &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		// Users stay who they are, so that files belong to whom they should.
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
		// To bring loopback up.
		AmbientCaps: []uintptr{unix.CAP_NET_ADMIN},
	}
	if os.Getuid() == 0 {
		return []*syscall.SysProcAttr{{Cloneflags: syscall.CLONE_NEWNET}, inUserNamespace}
	}
	return []*syscall.SysProcAttr{inUserNamespace}
}

func try(attributes *syscall.SysProcAttr) error {
	probe := exec.Command(thisProgram()) //nolint:noctx // it ends at once.
	probe.Env = append(os.Environ(), isolation+"="+probing)
	probe.SysProcAttr = attributes
	output, err := probe.CombinedOutput()
	if text := strings.TrimSpace(string(output)); err != nil && text != "" {
		return errors.New(text)
	}
	return err
}

func thisProgram() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

// become runs this program again and exits with its exit code.
func become(attributes *syscall.SysProcAttr, state string) {
	// The inner program ends with this one; the kernel means the thread that started it by that, so that this thread must stay.
	runtime.LockOSThread()
	inner := exec.Command(thisProgram(), os.Args[1:]...) //nolint:noctx,gosec // it is this program, and ends with it.
	inner.Stdin, inner.Stdout, inner.Stderr = os.Stdin, os.Stdout, os.Stderr
	inner.Env = append(os.Environ(), isolation+"="+state)
	attributes.Pdeathsig = syscall.SIGKILL
	// Ctrl-C is passed on: once, and only to the program, not to what it has started.
	attributes.Setpgid = true
	inner.SysProcAttr = attributes

	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	if err := inner.Start(); err != nil {
		fmt.Fprintf(os.Stderr, "world: %v\n", err)
		os.Exit(1)
	}
	go func() {
		for s := range signals {
			_ = inner.Process.Signal(s)
		}
	}()
	_ = inner.Wait()
	os.Exit(exitCode(inner.ProcessState))
}

// exitCode is what a shell would return.
func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
