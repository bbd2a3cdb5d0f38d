//go:build houserules

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package houserules_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// repository is a git repository with a copy of hack/commits.sh.
type repository struct {
	t   *testing.T
	dir string
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	g := NewWithT(t)
	script, err := os.ReadFile(filepath.Join(root, "hack", "commits.sh"))
	g.Expect(err).ToNot(HaveOccurred())
	r := &repository{t: t, dir: t.TempDir()}
	put(g, filepath.Join(r.dir, "hack", "commits.sh"), string(script))
	r.git("init", "--quiet", ".")
	return r
}

func (r *repository) git(args ...string) string {
	r.t.Helper()
	args = append([]string{"-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"}, args...)
	cmd := exec.Command("git", args...)
	cmd.Dir = r.dir
	out, err := cmd.CombinedOutput()
	NewWithT(r.t).Expect(err).ToNot(HaveOccurred(), string(out))
	return strings.TrimSpace(string(out))
}

// commit makes an empty commit and returns its hash.
func (r *repository) commit(subject string) string {
	r.t.Helper()
	r.git("commit", "--quiet", "--allow-empty", "--message", subject)
	return r.git("rev-parse", "HEAD")
}

// check returns the output of hack/commits.sh in a checkout, with or without a base.
func check(dir string, base ...string) (string, error) {
	cmd := exec.Command("bash", append([]string{"hack/commits.sh"}, base...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestCommitSubject_BreaksRule_IsRejected(t *testing.T) {
	r := newRepository(t)
	base := r.commit("The first commit is not checked.")
	for subject, reported := range map[string]string{
		"Retry listing after RBAC is restored":      "write `area: imperative summary`",
		"fixup! requests: retry listing":            "write `area: imperative summary`",
		"Makefile: pass the base":                   "one area in lower case",
		"test/world, test/sim: need one cluster":    "one area in lower case",
		": need one cluster":                        "one area in lower case",
		"requests:retry listing":                    "one area in lower case",
		"requests: fixup! retry listing":            "squash it",
		"requests: retries listing":                 `write "retries" as an imperative`,
		"requests: retried listing":                 `write "retried" as an imperative`,
		"requests: retrying to list":                `write "retrying" as an imperative`,
		"requests: retry listing.":                  "remove the full stop",
		"requests: " + strings.Repeat("x", 63):      "73 characters",
		"requests: retry listing after the restart": "",
		"test/world: need one cluster":              "",
		"requests: " + strings.Repeat("x", 62):      "",
	} {
		t.Run(subject, func(t *testing.T) {
			g := NewWithT(t)
			r.git("reset", "--quiet", "--soft", base)
			r.commit(subject)
			out, err := check(r.dir, base)
			if reported == "" {
				g.Expect(err).ToNot(HaveOccurred(), out)
				return
			}
			g.Expect(err).To(HaveOccurred(), "the subject is accepted")
			g.Expect(out).To(ContainSubstring(reported))
		})
	}
}

// What has no history is not checked.
func TestCommitSubject_NoHistory_IsNotChecked(t *testing.T) {
	g := NewWithT(t)
	r := newRepository(t)
	base := r.commit("The first commit is not checked.")
	r.git("add", ".")
	r.git("commit", "--quiet", "--message", "This subject is not checked.")
	shallow := filepath.Join(t.TempDir(), "shallow")
	r.git("clone", "--quiet", "--depth=1", "file://"+r.dir, shallow)
	for _, args := range [][]string{{base}, nil} {
		out, err := check(shallow, args...)
		g.Expect(err).ToNot(HaveOccurred(), out)
		g.Expect(out).To(ContainSubstring("this clone does not have the history since"))
	}
}
