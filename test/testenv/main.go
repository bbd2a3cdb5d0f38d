// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/onsi/gomega"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Timeout is how long Eventually waits by default. It only has to be long enough for a busy machine: nothing else depends on it.
const Timeout = 10 * time.Minute

// Logger writes the controllers' log with go test -v.
var Logger = logr.Discard()

// ended has what Main does after the tests.
var ended struct {
	sync.Mutex
	actions []func()
}

// AtEnd lets Main do something after the tests.
func AtEnd(action func()) {
	ended.Lock()
	defer ended.Unlock()
	ended.actions = append(ended.actions, action)
}

func end() {
	ended.Lock()
	defer ended.Unlock()
	for _, action := range ended.actions {
		action()
	}
}

// Main is the TestMain of a package. It starts some environments, runs the tests, and stops what was started. Other environments start with
// the first test that uses them. It returns the exit code.
func Main(m *testing.M, eager ...*Environment) int {
	if !flag.Parsed() {
		flag.Parse()
	}
	if !parallelIsSet() {
		// Tests wait for API servers more than for processors.
		_ = flag.Set("test.parallel", "8")
	}
	if testing.Verbose() {
		Logger = funcr.New(func(prefix, args string) { _, _ = fmt.Fprintln(os.Stdout, prefix, args) }, funcr.Options{Verbosity: 4})
	}
	ctrl.SetLogger(Logger)
	gomega.SetDefaultEventuallyTimeout(Timeout)
	gomega.SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	if err := start(eager); err != nil {
		fmt.Fprintln(os.Stderr, err)
		end()
		os.Exit(1)
	}
	defer end()
	return m.Run()
}

// parallelIsSet reports whether the command line has -parallel: under the race detector, tests wait for processors.
func parallelIsSet() bool {
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	return set
}
