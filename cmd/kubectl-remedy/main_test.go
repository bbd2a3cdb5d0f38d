// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

func TestRun_InvalidCommandLine_Fails(t *testing.T) {
	for line, test := range map[string]struct {
		args []string
		says string
	}{
		"nothing":             {nil, "missing command: release or version; see kubectl remedy --help"},
		"another word":        {[]string{"explain"}, `unknown command "explain"`},
		"no scope":            {[]string{"release"}, "missing scope: set a name, --namespace or --all"},
		"two checks":          {[]string{"release", "a", "b"}, `accepts at most one name: unexpected ["b"]`},
		"all and one":         {[]string{"release", "a", "--all"}, "--all cannot be used with a name or --namespace"},
		"all and a namespace": {[]string{"release", "--all", "-n", "team-a"}, "--all cannot be used with a name or --namespace"},
		"an empty name": {
			[]string{"release", ""},
			"the name is empty: set a name, or omit it to release all MachineHealthChecks of the namespace",
		},
		"an empty name in a namespace":    {[]string{"release", "", "-n", "team-a"}, "the name is empty"},
		"an empty name and all":           {[]string{"release", "--all", ""}, "the name is empty"},
		"an empty name next to another":   {[]string{"release", "a", ""}, "the name is empty"},
		"an empty namespace":              {[]string{"release", "a", "-n", ""}, "--namespace is empty: set a value or omit the flag"},
		"an empty namespace, and no name": {[]string{"release", "--namespace="}, "--namespace is empty"},
		"an empty namespace and all":      {[]string{"release", "--all", "-n", ""}, "--namespace is empty"},
		"an empty context":                {[]string{"release", "--all", "--context", ""}, "--context is empty"},
		"an empty kubeconfig":             {[]string{"release", "a", "--kubeconfig="}, "--kubeconfig is empty"},
		"an empty group":                  {[]string{"release", "a", "--as", "b", "--as-group", ""}, "--as-group is empty"},
		"an unknown flag":                 {[]string{"release", "--everything"}, "unknown flag: --everything"},
		"a flag without value":            {[]string{"release", "-n"}, "flag needs an argument"},
	} {
		t.Run(line, func(t *testing.T) {
			g := NewWithT(t)
			var out bytes.Buffer
			err := run(t.Context(), test.args, &out)
			g.Expect(err).To(MatchError(ContainSubstring(test.says)))
			g.Expect(err).To(MatchError(ContainSubstring("see kubectl remedy --help")))
			g.Expect(exitCode(err)).To(Equal(exitUsage))
			g.Expect(out.String()).To(BeEmpty())
		})
	}
}

func TestRun_HelpAndVersion_Print(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"-h"}, {"help"}, {"release", "--help"}} {
		g := NewWithT(t)
		var out bytes.Buffer
		g.Expect(run(t.Context(), args, &out)).To(Succeed())
		g.Expect(out.String()).To(And(ContainSubstring("kubectl remedy release --all"), ContainSubstring("Exit codes: 0"),
			ContainSubstring("--context"), ContainSubstring("--dry-run")))
	}
	g := NewWithT(t)
	var out bytes.Buffer
	g.Expect(run(t.Context(), []string{"version"}, &out)).To(Succeed())
	g.Expect(out.String()).ToNot(BeEmpty())
}

func TestRun_UnreachableCluster_Fails(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	one := filepath.Join(t.TempDir(), "kubeconfig")
	NewWithT(t).Expect(os.WriteFile(one,
		[]byte("{apiVersion: v1, kind: Config, clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}], "+
			"contexts: [{name: a, context: {cluster: a}}]}"), 0o600)).To(Succeed())
	for line, test := range map[string]struct {
		args []string
		says string
	}{
		"no kubeconfig":        {nil, "select the management cluster with --kubeconfig or --context"},
		"a file that is not":   {[]string{"--kubeconfig", "/nowhere"}, "/nowhere"},
		"a context that isn't": {[]string{"--kubeconfig", one, "--context", "b"}, `context "b" does not exist`},
		"one that is away": {
			[]string{"--kubeconfig", one, "--context", "a"},
			"nothing was changed: failed to list the Deployments of managers",
		},
	} {
		t.Run(line, func(t *testing.T) {
			g := NewWithT(t)
			var out bytes.Buffer
			err := run(t.Context(), append([]string{"release", "--all"}, test.args...), &out)
			g.Expect(err).To(MatchError(ContainSubstring(test.says)))
			g.Expect(exitCode(err)).To(Equal(exitFailed))
		})
	}
}
