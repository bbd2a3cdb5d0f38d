//go:build houserules

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package houserules proves that the linter keeps the house rules: for each there is code that breaks it, and must be refused.
package houserules_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

const header = "// Copyright The cluster-api-provider-remedy Authors.\n// SPDX-License-Identifier: Apache-2.0\n\n"

func long(lines int) string {
	text := ""
	for range lines {
		text += "\n\t_ = 0"
	}
	return text
}

func TestBreakingAHouseRuleFailsTheLint(t *testing.T) {
	tests := []struct {
		reason  string
		file    string
		content string
		says    string
	}{
		{
			"a pure package imports a client", "internal/health/broken.go",
			"package health\n\nimport \"sigs.k8s.io/controller-runtime/pkg/client\"\n\nvar _ client.Client\n",
			"pure packages read nothing but their arguments",
		},
		{
			"a pure package imports client-go", "internal/remediation/broken.go",
			"package remediation\n\nimport \"k8s.io/client-go/rest\"\n\nvar _ rest.Config\n",
			"pure packages read nothing but their arguments",
		},
		{
			"a pure package asks for the time", "internal/health/broken.go",
			"package health\n\nimport \"time\"\n\nvar _ = time.Now\n",
			"take the time as an argument, or inject a clock",
		},
		{
			"a pure package asks for the time by way of a library", "internal/explain/broken.go",
			"package explain\n\nimport metav1 \"k8s.io/apimachinery/pkg/apis/meta/v1\"\n\nvar _ = metav1.Now\n",
			"take the time as an argument, or inject a clock",
		},
		{
			"a pure package imports a clock", "internal/health/broken.go",
			"package health\n\nimport \"k8s.io/utils/clock\"\n\nvar _ clock.Clock\n",
			"pure packages are told the time",
		},
		{
			"a pure package imports a logger", "internal/explain/broken.go",
			"package explain\n\nimport \"github.com/go-logr/logr\"\n\nvar _ logr.Logger\n",
			"pure packages return what they have to say",
		},
		{
			"a pure package draws lots", "internal/remediation/broken.go",
			"package remediation\n\nimport \"math/rand/v2\"\n\nvar _ = rand.Int()\n",
			"pure packages decide the same every time",
		},
		{
			"a pure package waits", "internal/health/broken.go",
			"package health\n\nimport \"context\"\n\nvar _ context.Context\n",
			"pure packages neither wait nor call out",
		},
		{
			"the core judges by what it may do", "internal/health/broken.go",
			"package health\n\nimport _ \"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation\" // because.\n",
			"not allowed from list 'health'",
		},
		{
			"the API imports the product", "api/v1alpha1/broken.go",
			"package v1alpha1\n\nimport _ \"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health\" // because.\n",
			"not allowed from list 'api'",
		},
		{
			"the sequence writes by itself", "internal/checkup/broken.go",
			"package checkup\n\nimport \"sigs.k8s.io/controller-runtime/pkg/client\"\n\nvar _ client.Client\n",
			"reading and writing are behind ports",
		},
		{
			"the product imports test code", "internal/probes/broken.go",
			"package probes\n\nimport _ \"github.com/onsi/gomega\" // because.\n",
			"test code stays out of the product",
		},
		{
			"the shell does not inject its clock", "internal/probes/broken.go",
			"package probes\n\nimport \"time\"\n\nvar _ = time.Now\n",
			"take the time as an argument, or inject a clock",
		},
		{
			"a function is too long", "internal/probes/broken.go",
			"package probes\n\n// Endless never ends.\nfunc Endless() {" + long(70) + "\n}\n",
			"Function 'Endless' is too long",
		},
		{
			"a file is too long", "internal/probes/broken.go",
			"package probes\n\nvar (" + long(410) + "\n)\n",
			"file length is",
		},
		{
			"a package is called by what it is not", "internal/utils/broken.go",
			"// Package utils is a drawer.\npackage utils\n",
			"utils",
		},
		{
			"an exception has no reason", "internal/probes/broken.go",
			"package probes\n\nimport \"time\"\n\nvar _ = time.Now //nolint:forbidigo\n",
			"should provide explanation",
		},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			g := NewWithT(t)
			out, err := lint(t, test.file, header+test.content)
			g.Expect(err).To(HaveOccurred(), "the linter let it pass")
			g.Expect(out).To(ContainSubstring(test.says))
		})
	}
	t.Run("a file has no licence", func(t *testing.T) {
		g := NewWithT(t)
		out, err := lint(t, "internal/probes/broken.go", "package probes\n")
		g.Expect(err).To(HaveOccurred(), "the linter let it pass")
		g.Expect(out).To(ContainSubstring("goheader"))
	})
	t.Run("what breaks no rule passes", func(t *testing.T) {
		g := NewWithT(t)
		out, err := lint(t, "internal/health/fine.go", header+"package health\n\nimport \"time\"\n\nvar _ time.Duration\n")
		g.Expect(err).ToNot(HaveOccurred(), out)
	})
}

// lint adds one file to a copy of the package it belongs to, in a copy of the module that holds nothing else, and lints that.
func lint(t *testing.T, file, content string) (string, error) {
	t.Helper()
	g := NewWithT(t)
	linter := os.Getenv("GOLANGCI_LINT")
	g.Expect(linter).ToNot(BeEmpty(), "call this by 'make check', which builds the linter")
	root, err := filepath.Abs(filepath.Join("..", ".."))
	g.Expect(err).ToNot(HaveOccurred())
	copied := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum", ".golangci.yml", "hack/boilerplate.txt", "internal/health/doc.go", "internal/remediation/doc.go", "internal/probes/probes.go", filepath.Join(filepath.Dir(file), "doc.go")} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue
		}
		g.Expect(err).ToNot(HaveOccurred())
		put(g, filepath.Join(copied, name), string(text))
	}
	put(g, filepath.Join(copied, file), content)
	cmd := exec.Command(linter, "run", "./"+filepath.Dir(file))
	cmd.Dir = copied
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func put(g Gomega, path, content string) {
	g.Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
	g.Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
}
