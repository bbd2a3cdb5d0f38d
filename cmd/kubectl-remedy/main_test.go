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

func TestWhatCannotBeMeantIsRefusedWithAWayOut(t *testing.T) {
	for line, test := range map[string]struct {
		args []string
		says string
	}{
		"nothing":                         {nil, "say what to do: release; see kubectl remedy --help"},
		"another word":                    {[]string{"explain"}, `there is no "explain": say release`},
		"no scope":                        {[]string{"release"}, "say which: the name of a check, a namespace by -n, or --all for everything"},
		"two checks":                      {[]string{"release", "a", "b"}, `one check at a time: ["b"] is too much`},
		"all and one":                     {[]string{"release", "a", "--all"}, "--all is everything: leave out the name and --namespace"},
		"all and a namespace":             {[]string{"release", "--all", "-n", "team-a"}, "--all is everything"},
		"an empty name":                   {[]string{"release", ""}, "the name is empty, as that of a variable that is not set: name a check, or leave the name out for all of the namespace that -n names"},
		"an empty name in a namespace":    {[]string{"release", "", "-n", "team-a"}, "the name is empty"},
		"an empty name and all":           {[]string{"release", "--all", ""}, "the name is empty"},
		"an empty name beside another":    {[]string{"release", "a", ""}, "the name is empty"},
		"an empty namespace":              {[]string{"release", "a", "-n", ""}, "--namespace is empty, as that of a variable that is not set: give it a value, or leave it out"},
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
			g.Expect(code(err)).To(Equal(misled))
			g.Expect(out.String()).To(BeEmpty())
		})
	}
}

func TestHelpAndVersion(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"-h"}, {"help"}, {"release", "--help"}} {
		g := NewWithT(t)
		var out bytes.Buffer
		g.Expect(run(t.Context(), args, &out)).To(Succeed())
		g.Expect(out.String()).To(And(ContainSubstring("kubectl remedy release --all"), ContainSubstring("Exit codes: 0"), ContainSubstring("--context"), ContainSubstring("--dry-run")))
	}
	g := NewWithT(t)
	var out bytes.Buffer
	g.Expect(run(t.Context(), []string{"version"}, &out)).To(Succeed())
	g.Expect(out.String()).ToNot(BeEmpty())
}

func TestWhoNamesNoClusterIsToldHow(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	one := filepath.Join(t.TempDir(), "kubeconfig")
	NewWithT(t).Expect(os.WriteFile(one, []byte("{apiVersion: v1, kind: Config, clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}], contexts: [{name: a, context: {cluster: a}}]}"), 0o600)).To(Succeed())
	for line, test := range map[string]struct {
		args []string
		says string
	}{
		"no kubeconfig":        {nil, "name the management cluster by --kubeconfig or --context"},
		"a file that is not":   {[]string{"--kubeconfig", "/nowhere"}, "/nowhere"},
		"a context that isn't": {[]string{"--kubeconfig", one, "--context", "b"}, `context "b" does not exist`},
		"one that is away":     {[]string{"--kubeconfig", one, "--context", "a"}, "nothing was done: failed to look for our managers"},
	} {
		t.Run(line, func(t *testing.T) {
			g := NewWithT(t)
			var out bytes.Buffer
			err := run(t.Context(), append([]string{"release", "--all"}, test.args...), &out)
			g.Expect(err).To(MatchError(ContainSubstring(test.says)))
			g.Expect(code(err)).To(Equal(failed))
		})
	}
}
