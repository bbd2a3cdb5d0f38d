// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestShare_Command_PassesItsExitCodeOn(t *testing.T) {
	for command, code := range map[string]int{
		"exit 0":        0,
		"exit 7":        7,
		"kill -KILL $$": 128 + 9,
		// The signal comes back from the process that received it.
		"trap 'exit 3' TERM; kill -TERM $PPID; while :; do sleep 0.1; done": 3,
	} {
		t.Run(command, func(t *testing.T) {
			NewWithT(t).Expect(run([]string{"--", "/bin/sh", "-c", command})).To(Equal(code))
		})
	}
}
