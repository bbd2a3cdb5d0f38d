// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/describe"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/diagnose"
)

// The fences follow the explanation of the checks, and are a field of it.
func TestExplanation_Fences_AreAdded(t *testing.T) {
	g := NewWithT(t)
	x := &explanation{Explanation: &diagnose.Explanation{Node: "worker-1", Check: "NodeHealthCheck workers"}}
	printed := func(format string) string {
		var out bytes.Buffer
		g.Expect(write(&out, format, x, x.String)).To(Succeed())
		return out.String()
	}
	g.Expect(printed(text)).To(HaveSuffix("Check:       NodeHealthCheck workers\n"))
	g.Expect(printed("json")).ToNot(ContainSubstring("fences"))
	x.Fences = []describe.Fence{{Namespace: "default", Name: "worker-1", State: "waits to begin"}}
	g.Expect(printed(text)).To(HaveSuffix("Check:       NodeHealthCheck workers\n\nFence:       default/worker-1 waits to begin\n"))
	g.Expect(printed("yaml")).To(Equal("check: NodeHealthCheck workers\nfences:\n- name: worker-1\n  namespace: default\n" +
		"  state: waits to begin\nnode: worker-1\n"))
}

// Fencing can be installed without checks.
func TestWithoutChecks_KindsNotInstalled_IsNoError(t *testing.T) {
	g := NewWithT(t)
	notInstalled := errors.Wrap(&meta.NoKindMatchError{}, "failed to read the NodeHealthChecks")
	x := withoutChecks(diagnose.Subject{Node: true, Name: "worker-1"}, notInstalled)
	g.Expect(x.String()).To(ContainSubstring("Note:        The kinds of checks are not installed"))
	g.Expect(withoutChecks(diagnose.Subject{Node: true, Name: "worker-1"}, errors.New("timeout"))).To(BeNil())
	g.Expect(withoutChecks(diagnose.Subject{Name: "machine-1"}, notInstalled)).To(BeNil())
}
