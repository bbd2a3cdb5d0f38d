// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestRun_InvalidCommandLine_Fails(t *testing.T) {
	for line, test := range map[string]struct {
		args []string
		says string
	}{
		"nothing":       {nil, "missing command: explain, status, history, convert, release, uninstall or version\nSee"},
		"another word":  {[]string{"remove"}, `unknown command "remove"`},
		"no scope":      {[]string{"release"}, "missing scope: set a name or --namespace"},
		"two checks":    {[]string{"release", "a", "b"}, `accepts at most one name: unexpected ["b"]`},
		"uninstall one": {[]string{"uninstall", "a"}, `unexpected argument "a"`},
		"all and a namespace": {[]string{"uninstall", "-n", "team-a"}, "--namespace cannot be used: kubectl remedy " +
			"uninstall is for the management cluster"},
		"an empty name": {
			[]string{"release", ""},
			"the name is empty: set a name, or omit it to release all MachineHealthChecks of the namespace",
		},
		"an empty name in a namespace":    {[]string{"release", "", "-n", "team-a"}, "the name is empty"},
		"an empty name next to another":   {[]string{"release", "a", ""}, "the name is empty"},
		"an empty namespace":              {[]string{"release", "a", "-n", ""}, "--namespace is empty: set a value or omit the flag"},
		"an empty namespace, and no name": {[]string{"release", "--namespace="}, "--namespace is empty"},
		"an empty context":                {[]string{"uninstall", "--context", ""}, "--context is empty"},
		"an empty kubeconfig":             {[]string{"release", "a", "--kubeconfig="}, "--kubeconfig is empty"},
		"an empty group":                  {[]string{"release", "a", "--as", "b", "--as-group", ""}, "--as-group is empty"},
		"an unknown flag":                 {[]string{"release", "--everything"}, "unknown flag: --everything"},
		"a flag without value":            {[]string{"release", "-n"}, "flag needs an argument"},
		"no target":                       {[]string{"explain"}, "accepts one target, such as machine/NAME or node/NAME: 0 are set"},
		"another kind":                    {[]string{"explain", "pod/a"}, `invalid target "pod/a": use machine/NAME or node/NAME`},
		"a target without a name":         {[]string{"history", "machine/"}, `invalid target "machine/": use machine/NAME or node/NAME`},
		"a target without a kind":         {[]string{"explain", "a"}, `invalid target "a": use machine/NAME or node/NAME`},
		"all namespaces and one":          {[]string{"status", "-A", "-n", "a"}, "--all-namespaces cannot be used with --namespace"},
		"watch as JSON":                   {[]string{"status", "-w", "-o", "json"}, "--watch cannot be used with --output=json"},
		"a cluster twice": {
			[]string{"explain", "node/a", "--this-cluster", "--cluster", "b"}, "--this-cluster cannot be used with --cluster",
		},
		"a Machine of this cluster": {[]string{"explain", "machine/a", "--this-cluster"}, "--this-cluster cannot be used with machine/a"},
		"nothing to convert":        {[]string{"convert"}, "missing source: set --filename or --all"},
		"two sources":               {[]string{"convert", "--all", "-f", "a"}, "--all cannot be used with --filename"},
		"a file as argument":        {[]string{"convert", "-f", "a", "b"}, `unexpected argument "b"`},
		"an empty file name":        {[]string{"convert", "-f", ""}, "--filename is empty"},
		"another format":            {[]string{"status", "-o", "wide"}, `invalid output format "wide": use text, json or yaml`},
	} {
		t.Run(line, func(t *testing.T) {
			g := NewWithT(t)
			var out bytes.Buffer
			err := run(t.Context(), test.args, &out, &out)
			g.Expect(err).To(MatchError(ContainSubstring(test.says)))
			g.Expect(err).To(MatchError(HaveSuffix("\nSee 'kubectl remedy --help' for help and examples")))
			g.Expect(out.String()).To(BeEmpty())
		})
	}
}

func TestRun_HelpAndVersion_Print(t *testing.T) {
	printed := func(args ...string) string {
		var out bytes.Buffer
		NewWithT(t).Expect(run(t.Context(), args, &out, &out)).To(Succeed())
		return out.String()
	}
	g := NewWithT(t)
	for _, help := range []string{"--help", "-h", "help"} {
		g.Expect(printed(help)).To(And(ContainSubstring("kubectl remedy [command]"), ContainSubstring("Exit codes: 0"),
			ContainSubstring("--context"), ContainSubstring("completion"), ContainSubstring("uninstall")))
	}
	for _, command := range []string{"explain", "status", "history", "convert", "release", "uninstall"} {
		g.Expect(printed(command, "--help")).To(And(ContainSubstring("kubectl remedy "+command), ContainSubstring("--kubeconfig")))
	}
	g.Expect(printed("version")).ToNot(BeEmpty())
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
			err := run(t.Context(), append([]string{"uninstall"}, test.args...), &out, &out)
			g.Expect(err).To(MatchError(ContainSubstring(test.says)))
		})
	}
}

// Manifests are on stdout, differences on stderr. A check that cannot be converted does not stop the others.
func TestRun_Convert_PrintsManifests(t *testing.T) {
	g := NewWithT(t)
	list := filepath.Join("..", "..", "internal", "medik8s", "testdata", "list.yaml")
	invalid := filepath.Join(t.TempDir(), "invalid.yaml")
	noSpec := "{apiVersion: remediation.medik8s.io/v1alpha1, kind: NodeHealthCheck, metadata: {name: a}}"
	g.Expect(os.WriteFile(invalid, []byte(noSpec), 0o600)).To(Succeed())
	var out, errOut bytes.Buffer
	err := run(t.Context(), []string{"convert", "-f", invalid, "-f", list}, &out, &errOut)
	g.Expect(err).To(MatchError("1 of 3 objects were not converted"))
	g.Expect(errOut.String()).To(And(
		ContainSubstring("error: failed to convert NodeHealthCheck a: it has neither remediationTemplate nor escalatingRemediations"),
		ContainSubstring("NodeHealthCheck escalating: medik8s rounds maxUnhealthy up and Remedy rounds it down"),
	))
	golden, err := os.ReadFile(filepath.Join(filepath.Dir(list), "list.golden.yaml"))
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(out.String()).To(Equal(string(golden)))
	g.Expect(run(t.Context(), []string{"convert", "-f", "/nowhere"}, &out, &out)).To(MatchError(ContainSubstring("/nowhere")))
}

// ConfigMaps of one file use templates of another. Other objects are named, and a file without anything to convert is an error.
func TestRun_ConvertDocument_PrintsManifests(t *testing.T) {
	g := NewWithT(t)
	data := filepath.Join("..", "..", "exp", "fencing", "convert", "testdata")
	rack, err := os.ReadFile(filepath.Join(data, "rack.yaml"))
	g.Expect(err).ToNot(HaveOccurred())
	const first = "- kind: ConfigMap\n  apiVersion: v1\n  metadata:\n    name: fence-method-template-fc\n"
	configs, templates, found := strings.Cut(string(rack), first)
	g.Expect(found).To(BeTrue())
	one, two := filepath.Join(t.TempDir(), "one.yaml"), filepath.Join(t.TempDir(), "two.yaml")
	g.Expect(os.WriteFile(one, []byte(configs), 0o600)).To(Succeed())
	g.Expect(os.WriteFile(two, []byte("- {kind: ConfigMap, apiVersion: v1, metadata: {name: other}}\n"+
		first+templates), 0o600)).To(Succeed())
	var out, errOut bytes.Buffer
	args := []string{"convert", "-f", one, "-f", two, "-f", filepath.Join(data, "configuration.yaml")}
	g.Expect(run(t.Context(), args, &out, &errOut)).To(Succeed())
	golden, err := os.ReadFile(filepath.Join(data, "rack.golden"))
	g.Expect(err).ToNot(HaveOccurred())
	configuration, err := os.ReadFile(filepath.Join(data, "configuration.golden"))
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(out.String()).To(Equal(string(configuration) + string(golden)))
	g.Expect(errOut.String()).To(And(ContainSubstring("ConfigMap other is not converted"),
		ContainSubstring("NodeRemedy compute: clean-resourece is cleanResources"), ContainSubstring("FenceProfile fence-config: ")))

	g.Expect(os.WriteFile(two, []byte("---\n"), 0o600)).To(Succeed())
	g.Expect(run(t.Context(), []string{"convert", "-f", two}, &out, &out)).To(MatchError(And(
		ContainSubstring("two.yaml has no NodeHealthCheck of remediation.medik8s.io, a Configuration of node-remedy/v1alpha"))))
	g.Expect(os.WriteFile(two, []byte("{kind: ConfigMap, apiVersion: v1, metadata: {name: other}}"), 0o600)).To(Succeed())
	g.Expect(run(t.Context(), []string{"convert", "-f", two}, &out, &out)).To(MatchError(And(
		ContainSubstring(`unexpected kind "ConfigMap"`), ContainSubstring("fence-config-NODE"))))
}

func TestRun_ConvertHelp_FitsTerminal(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	g.Expect(run(t.Context(), []string{"convert", "--help"}, &out, &out)).To(Succeed())
	_, examples, _ := strings.Cut(out.String(), "Examples:")
	examples, _, _ = strings.Cut(examples, "Flags:")
	g.Expect(strings.Split(examples, "\n")).To(HaveEach(WithTransform(func(line string) int { return len(line) }, BeNumerically("<=", 100))))
}
