//go:build houserules

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package houserules proves that the linter keeps the house rules: for each there is code that breaks it, and must be refused.
package houserules_test

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// root is the checkout.
const root = "../.."

const module = "github.com/cluster-api-remedy/cluster-api-provider-remedy"

const header = "// Copyright The cluster-api-provider-remedy Authors.\n// SPDX-License-Identifier: Apache-2.0\n\n"

// broken is a file that breaks a house rule, and what the linter reports. Without a name, the file gets one.
type broken struct{ dir, name, content, reported string }

// imports is the content of a file that imports a package, which is one of the module if it has no host.
func imports(imported string) string {
	if strings.HasPrefix(imported, "internal/") || strings.HasPrefix(imported, "controllers/") || strings.HasPrefix(imported, "exp/") {
		imported = module + "/" + imported
	}
	return "import _ \"" + imported + "\" // because.\n"
}

// uses is the content of a file that uses a name of a package.
func uses(imported, name string) string { return "import " + imported + "\n\nvar _ = " + name + "\n" }

const (
	readsNothing = "pure packages read nothing but their arguments"
	injectClock  = "take the time as an argument, or inject a clock"
	passTime     = "the reconciler passes the time to adapters"
	notPrinted   = "return it or log it"
	wrapErrors   = "wrap at boundaries with github.com/pkg/errors"
)

// brokenRules has at least one file for each rule of .golangci.yml that belongs to the project.
var brokenRules = []broken{
	{"internal/health", "", imports("sigs.k8s.io/controller-runtime/pkg/client"), readsNothing},
	{"internal/health", "", imports("syscall"), readsNothing},
	{"internal/health", "", uses(`"time"`, "time.Now"), injectClock},
	{"internal/health", "zz_generated.go", uses(`"time"`, "time.Since"), injectClock},
	{"internal/health", "", imports("k8s.io/utils/clock"), "pure packages take the time as an argument"},
	{"internal/health", "", imports("context"), "pure packages neither wait nor call out"},
	{"internal/health", "", imports("hash/maphash"), "not allowed from list 'health'"},
	{"internal/health", "", imports("internal/remediation"), "not allowed from list 'health'"},
	{"internal/remediation", "", imports("k8s.io/client-go/rest"), readsNothing},
	{"internal/remediation", "", imports("math/rand/v2"), "pure packages decide the same every time"},
	{"internal/explain", "", uses(`metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"`, "metav1.Now"), injectClock},
	{"internal/explain", "", imports("github.com/go-logr/logr"), "pure packages return values"},
	{"api/v1alpha1", "", imports("internal/health"), "not allowed from list 'api'"},
	{"internal/pipeline", "", imports("sigs.k8s.io/controller-runtime/pkg/client"), "reading and writing are behind ports"},
	{"internal/workload", "", imports("internal/remediation"), "reading does not decide"},
	{"internal/report", "", imports("internal/workload"), "reporting does not read"},
	{"internal/healthcheck", "", imports("controllers/nodehealthcheck"), "the reconciler imports no kind"},
	{"internal/healthcheck", "", imports("internal/adoption"), "adoption of in-tree checks is behind a port"},
	{"controllers/machinehealthcheck", "main.go", imports("exp/fencing"), "nothing but main.go imports an experiment"},
	{"cmd/remedy", "", imports("exp/fencing/lifecycle"), "the plugin imports of an experiment only what describes or converts its objects"},
	{"exp/fencing/api/v1alpha1", "", imports("exp/fencing/profile"), "not allowed from list 'api'"},
	{"exp/fencing/lifecycle", "", imports("k8s.io/utils/clock"), "pure packages take the time as an argument"},
	{"exp/fencing/lifecycle", "", imports("exp/fencing/controller"), "not allowed from list 'fencing-decides'"},
	{"exp/fencing/profile", "", imports("sigs.k8s.io/controller-runtime/pkg/client"), readsNothing},
	{"exp/fencing/jobs", "", imports("context"), "pure packages neither wait nor call out"},
	{"exp/fencing/jobs", "", imports("exp/fencing/lifecycle"), "not allowed from list 'fencing-jobs'"},
	{"exp/fencing/controller", "", imports("internal/healthcheck"), "fencing plugs in by requests"},
	{"exp/fencing/controller", "", imports("github.com/onsi/gomega"), "test code stays out of the product"},
	{"controllers/nodehealthcheck", "", imports("controllers/machinehealthcheck"), "an adapter imports no other adapter"},
	{"controllers/nodehealthcheck", "", imports("k8s.io/utils/clock"), passTime},
	{
		"controllers/nodehealthcheck", "", "import \"time\"\n\n// Clock is one.\ntype Clock interface{ Now() time.Time }\n\n" +
			"// Late reads it.\nfunc Late(c Clock) bool { return c.Now().IsZero() }\n", passTime,
	},
	{"controllers/intree", "", imports("controllers/nodehealthcheck"), "adoption uses the Machine adapter only"},
	{"internal/probes", "", imports("github.com/onsi/gomega"), "test code stays out of the product"},
	{"internal/probes", "", uses(`"time"`, "time.Now"), injectClock},
	{"internal/probes", "", uses(`"errors"`, "errors.New"), wrapErrors},
	{"internal/probes", "", "import \"fmt\"\n\n// Print prints.\nfunc Print() { fmt.Println() }\n", notPrinted},
	{
		"internal/probes", "", "import \"github.com/go-logr/logr\"\n\n// Log logs.\nfunc Log(l logr.Logger) { l.Info(\"Saying\", \"key\") }\n",
		"odd number of arguments",
	},
	{
		"internal/probes", "", "// Endless never ends.\nfunc Endless() {" + strings.Repeat("\n\t_ = 0", 70) + "\n}\n",
		"Function 'Endless' is too long",
	},
	{"internal/probes", "", "var (" + strings.Repeat("\n\t_ = 0", 410) + "\n)\n", "file length is"},
	{"internal/probes", "", "// Long " + strings.Repeat("x", 132) + ".\nconst Long = 0\n", "The line is 141 characters long"},
	{"internal/probes", "", "// Do does.\nfunc Do() {\n\n\t_ = 0\n}\n", "not properly formatted (gofumpt)"},
	{"internal/probes", "", "import \"time\"\n\nvar _ = time.Now //nolint:forbidigo\n", "should provide explanation"},
	{"internal/utils", "", "// Drawer holds anything.\nconst Drawer = 0\n", "utils"},
	// These break no rule.
	{"cmd/remedy", "", imports("exp/fencing/describe"), ""},
	{"exp/fencing/controller", "", imports("internal/workload"), ""},
	{"internal/health", "", "import \"time\"\n\nvar _ time.Duration\n", ""},
	{"internal/probes", "", "// Wide " + strings.Repeat("x", 131) + ".\nconst Wide = 0\n", ""},
}

// TestLint_BrokenRule_IsReported lints a copy of the module that has only the files of brokenRules and their package comments.
func TestLint_BrokenRule_IsReported(t *testing.T) {
	g := NewWithT(t)
	linter := os.Getenv("GOLANGCI_LINT")
	g.Expect(linter).ToNot(BeEmpty(), "call this by 'make check', which builds the linter")
	linter, err := filepath.Abs(linter)
	g.Expect(err).ToNot(HaveOccurred())
	copied := t.TempDir()
	put(g, filepath.Join(copied, "exp/fencing/doc.go"), "package fencing\n")
	put(g, filepath.Join(copied, "exp/fencing/describe/doc.go"), "package describe\n")
	put(g, filepath.Join(copied, "internal/probes/unlicensed.go"), "package probes\n")
	names := map[string]bool{"internal/adoption/doc.go": true, "internal/probes/probes.go": true}
	for _, name := range []string{"go.mod", "go.sum", ".golangci.yml", "hack/boilerplate.txt"} {
		names[name] = true
	}
	for i, b := range brokenRules {
		names[filepath.Join(b.dir, "doc.go")] = true
		put(g, filepath.Join(copied, b.file(i)), header+"package "+filepath.Base(b.dir)+"\n\n"+b.content)
	}
	for name := range names {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err == nil {
			put(g, filepath.Join(copied, name), string(text))
		}
		g.Expect(err == nil || os.IsNotExist(err)).To(BeTrue())
	}
	cmd := exec.Command(linter, "run", "./...")
	cmd.Dir = copied
	out, err := cmd.CombinedOutput()
	g.Expect(err).To(HaveOccurred(), "the linter accepts everything")
	reports := strings.Split(string(out), "\n")
	g.Expect(reports).To(ContainElement(And(HavePrefix("internal/probes/unlicensed.go:"), HaveSuffix("(goheader)"))))
	for i, b := range brokenRules {
		ofFile := slices.DeleteFunc(slices.Clone(reports), func(line string) bool { return !strings.HasPrefix(line, b.file(i)+":") })
		if b.reported == "" {
			g.Expect(ofFile).To(BeEmpty(), b.content)
		} else {
			g.Expect(ofFile).To(ContainElement(ContainSubstring(b.reported)), b.content)
		}
	}
}

// file is the path of the i-th file.
func (b *broken) file(i int) string {
	return filepath.Join(b.dir, cmp.Or(b.name, fmt.Sprintf("broken%d.go", i)))
}

func put(g Gomega, path, content string) {
	g.Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
	g.Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
}

// TestPurePackagesAreWholeOnEveryMachine: what a build tag hides, the linter does not see.
func TestPurePackagesAreWholeOnEveryMachine(t *testing.T) {
	g := NewWithT(t)
	seen := 0
	for _, file := range tracked(t) {
		// A test of exp/fencing/jobs runs agents that only some machines have.
		pure := regexp.MustCompile(`^(internal/(health|remediation|adoption|explain)/|exp/fencing/(lifecycle|profile|jobs)/\w+\.go$)`)
		if !strings.HasSuffix(file, ".go") || !pure.MatchString(file) || strings.HasPrefix(file, "exp/") && strings.HasSuffix(file, "_test.go") {
			continue
		}
		seen++
		text, err := os.ReadFile(filepath.Join(root, file))
		g.Expect(err).ToNot(HaveOccurred())
		g.Expect(string(text)).ToNot(MatchRegexp(`(?m)^//(go:build| \+build|go:linkname)|^import "C"`), file)
		g.Expect(file).ToNot(MatchRegexp(`_(linux|darwin|windows|amd64|arm64)(_test)?\.go$`))
	}
	g.Expect(seen).To(BeNumerically(">=", 3))
}

// TestEverySourceFileNamesItsLicence: also where the linter does not look, in other modules and other languages.
func TestEverySourceFileNamesItsLicence(t *testing.T) {
	seen := 0
	for _, file := range tracked(t) {
		if !regexp.MustCompile(`(\.go|\.sh|Makefile|Dockerfile|\.ci/run)$`).MatchString(file) {
			continue
		}
		seen++
		text, err := os.ReadFile(filepath.Join(root, file))
		NewWithT(t).Expect(err).ToNot(HaveOccurred())
		head := string(text[:min(len(text), 300)])
		if !strings.Contains(head, "Copyright The cluster-api-provider-remedy Authors.") ||
			!strings.Contains(head, "SPDX-License-Identifier: Apache-2.0") {
			t.Errorf("%s does not begin with the lines of hack/boilerplate.txt", file)
		}
	}
	NewWithT(t).Expect(seen).To(BeNumerically(">", 40))
}

// TestTheVersionsAreThePinnedOnes: these belong together, and a careless tidy raises them.
func TestTheVersionsAreThePinnedOnes(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, "go.mod"))
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	for module, version := range map[string]string{
		"sigs.k8s.io/cluster-api": "v1.14.2", "sigs.k8s.io/cluster-api/api": "v1.14.2", "sigs.k8s.io/controller-runtime": "v0.24.1",
		"k8s.io/api": "v0.36.3", "k8s.io/apimachinery": "v0.36.3", "k8s.io/client-go": "v0.36.3",
		"k8s.io/component-base": "v0.36.3", "k8s.io/apiextensions-apiserver": "v0.36.3",
	} {
		NewWithT(t).Expect(string(content)).To(MatchRegexp(`(?m)^\s*%s %s( // indirect)?$`, regexp.QuoteMeta(module), regexp.QuoteMeta(version)))
	}
	NewWithT(t).Expect(string(content)).ToNot(MatchRegexp(`k8s\.io/kubernetes|cluster-api/test|etcd/server`),
		"heavy test dependencies have modules of their own")
}

// tracked lists the files of the index, and the new ones that git does not ignore.
func tracked(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	var files []string
	for _, file := range strings.Fields(string(out)) {
		if _, err := os.Stat(filepath.Join(root, file)); err == nil {
			files = append(files, file)
		}
	}
	return files
}
