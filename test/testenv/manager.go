// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"os"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/instance"
)

// build builds the manager once.
var build = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "remedy-manager-")
	if err != nil {
		return "", err
	}
	AtEnd(func() { _ = os.RemoveAll(folder) })
	return instance.Build(context.Background(), folder)
})

// ManagerBinary returns the path of the manager, which the first test builds.
func ManagerBinary(t testing.TB) string {
	t.Helper()
	binary, err := build()
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	return binary
}

// StartManager runs the manager as a process with its own permissions, until the end of the test.
func (e *Environment) StartManager(t testing.TB, args ...string) (*instance.Instance, Log) {
	t.Helper()
	log := Log{gbytes.NewBuffer()}
	i, err := instance.Start(ManagerBinary(t), e.ControlPlane, log, args...)
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	t.Cleanup(func() {
		i.Kill()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return i, log
}

// Log collects what a process prints, and can be read while the process runs.
type Log struct{ *gbytes.Buffer }

// String returns the output so far.
func (l Log) String() string { return string(l.Contents()) }
