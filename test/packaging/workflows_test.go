// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

type workflow struct {
	Permissions map[string]string `json:"permissions"`
	Jobs        map[string]struct {
		Permissions map[string]string `json:"permissions"`
		Needs       []string          `json:"needs"`
		Strategy    struct {
			Matrix struct {
				Suite []string `json:"suite"`
			} `json:"matrix"`
		} `json:"strategy"`
		Steps []struct {
			Uses, Run string
			With      map[string]any
		} `json:"steps"`
	} `json:"jobs"`
}

func readWorkflow(t *testing.T, name string) workflow {
	t.Helper()
	g := NewWithT(t)
	content, err := os.ReadFile(filepath.Join(root, ".github/workflows", name))
	g.Expect(err).ToNot(HaveOccurred())
	var w workflow
	g.Expect(yaml.Unmarshal(content, &w)).To(Succeed())
	return w
}

// targets returns the targets of the make commands of a job. A workflow runs no other command.
func targets(g Gomega, w *workflow, job string) []string {
	var found []string
	for _, step := range w.Jobs[job].Steps {
		if step.Uses != "" {
			g.Expect(step.Uses).To(MatchRegexp(`^[\w-]+/[\w-]+@[0-9a-f]{40}$`), "a tag can be moved")
			continue
		}
		g.Expect(step.Run).To(MatchRegexp(`^make [^;&|\n]+$`), "what a workflow does, a person can do")
		arguments := regexp.MustCompile(` (?:-\S+|VERSION=\S+|>>\S+)`).ReplaceAllString(strings.TrimPrefix(step.Run, "make"), "")
		if strings.TrimSpace(arguments) == "${{ matrix.suite }}" {
			found = append(found, w.Jobs[job].Strategy.Matrix.Suite...)
		} else {
			found = append(found, strings.Fields(arguments)...)
		}
	}
	return found
}

func TestWorkflows_MakeTargets_Exist(t *testing.T) {
	g := NewWithT(t)
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	g.Expect(err).ToNot(HaveOccurred())
	module, err := os.ReadFile(filepath.Join(root, "go.mod"))
	g.Expect(err).ToNot(HaveOccurred())
	minor := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(module))[1]
	for _, name := range []string{"test.yaml", "release.yaml"} {
		w := readWorkflow(t, name)
		g.Expect(w.Permissions).To(Equal(map[string]string{"contents": "read"}), name)
		for job := range w.Jobs {
			for _, step := range w.Jobs[job].Steps {
				if strings.HasPrefix(step.Uses, "actions/setup-go@") {
					// The file go.mod names the oldest patch release, and govulncheck reports the vulnerabilities of that.
					g.Expect(step.With).To(And(HaveKeyWithValue("go-version", minor+".x"), HaveKeyWithValue("check-latest", true)), name)
				}
			}
			found := targets(g, &w, job)
			g.Expect(found).ToNot(BeEmpty())
			for _, target := range found {
				g.Expect(string(makefile)).To(MatchRegexp(`(?m)^`+regexp.QuoteMeta(target)+`:`), name)
			}
		}
	}
	tests, release := readWorkflow(t, "test.yaml"), readWorkflow(t, "release.yaml")
	g.Expect(targets(g, &tests, "test")).To(ContainElements("test", "check", "proof", "e2e", "bench-guard", "demo", "release-dry-run"))
	g.Expect(targets(g, &release, "test")).To(ContainElements("test", "check", "proof", "e2e", "demo", "release-dry-run"))
	g.Expect(release.Jobs["publish"].Needs).To(ConsistOf("test", "vulnerabilities"), "nothing is published that no test has seen")
	g.Expect(targets(g, &release, "vulnerabilities")).To(Equal([]string{"vulnerabilities"}))
	published := targets(g, &release, "publish")
	g.Expect(published).To(Equal([]string{"release-files", "image-login", "image", "sign", "image-subject", "publish"}))
	g.Expect(slices.Sorted(func(yield func(string) bool) {
		for permission := range release.Jobs["publish"].Permissions {
			if !yield(permission) {
				return
			}
		}
	})).To(Equal([]string{"attestations", "contents", "id-token", "packages"}))
}

// Dependabot updates each module of the repository.
func TestDependabot_EveryModule_IsListed(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile(filepath.Join(root, ".github/dependabot.yml"))
	g.Expect(err).ToNot(HaveOccurred())
	var config struct {
		Updates []struct {
			Ecosystem   string   `json:"package-ecosystem"`
			Directories []string `json:"directories"`
		} `json:"updates"`
	}
	g.Expect(yaml.Unmarshal(content, &config)).To(Succeed())
	out, err := exec.Command("git", "-C", root, "ls-files", "go.mod", "*/go.mod").Output()
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(config.Updates[0].Ecosystem).To(Equal("gomod"))
	for file := range strings.FieldsSeq(string(out)) {
		folder := "/" + strings.TrimPrefix(filepath.Dir(file), ".")
		// The pinned control plane changes as a whole, by hand: CONTRIBUTING.md.
		if strings.HasPrefix(folder, "/test/controlplane/build") {
			continue
		}
		listed := slices.ContainsFunc(config.Updates[0].Directories, func(pattern string) bool {
			matches, err := filepath.Match(pattern, folder)
			return err == nil && matches
		})
		g.Expect(listed).To(BeTrue(), folder)
	}
}

// The checksums are those of every other file of the release.
func TestChecksums_EveryFile_IsListed(t *testing.T) {
	g := NewWithT(t)
	open(t, "hack/checksums.sh")
	folder := t.TempDir()
	for _, name := range []string{"a.yaml", "b.tar.gz"} {
		g.Expect(os.WriteFile(filepath.Join(folder, name), []byte(name), 0o600)).To(Succeed())
	}
	for range 2 {
		out, err := exec.Command("../../hack/checksums.sh", folder).CombinedOutput()
		g.Expect(err).ToNot(HaveOccurred(), string(out))
	}
	content, err := os.ReadFile(filepath.Join(folder, "checksums.txt"))
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(string(content)).To(And(MatchRegexp(`(?m)^[0-9a-f]{64}  a\.yaml$`), MatchRegexp(`(?m)^[0-9a-f]{64}  b\.tar\.gz$`), Not(ContainSubstring("checksums"))))
}
