// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

var update = flag.Bool("update", false, "rewrite the golden files with the output of kubectl")

const goldenFolder = "testdata/golden"

// outputs are commands of users. A change of their output is a change of the product, so a review has to show it.
// The resource names are those that Cluster API does not have.
var outputs = map[string][]string{
	"explain-machines-spec":             {"explain", "machinehealthchecks.remedy.cluster.x-k8s.io.spec"},
	"explain-machines-spec-recursive":   {"explain", "machinehealthchecks.remedy.cluster.x-k8s.io.spec", "--recursive"},
	"explain-machines-status-recursive": {"explain", "machinehealthchecks.remedy.cluster.x-k8s.io.status", "--recursive"},
	"explain-nodes-spec":                {"explain", "nodehealthchecks.remedy.cluster.x-k8s.io.spec"},
	"explain-nodes-spec-recursive":      {"explain", "nodehealthchecks.remedy.cluster.x-k8s.io.spec", "--recursive"},
	"explain-nodes-status-recursive":    {"explain", "nodehealthchecks.remedy.cluster.x-k8s.io.status", "--recursive"},
	"get-machines":                      {"get", "rmhc", "-n", outputNamespace},
	"get-machines-wide":                 {"get", "rmhc", "-n", outputNamespace, "-o", "wide"},
	"get-nodes":                         {"get", "rnhc", "-l", outputLabel},
	"get-nodes-wide":                    {"get", "rnhc", "-l", outputLabel, "-o", "wide"},
}

// Other tests create objects, too. The objects of this one have a namespace, or a label if they are cluster-scoped.
const (
	outputNamespace = "output"
	outputLabel     = "output"
)

func TestOutput_OfKubectl_EqualsGoldenFiles(t *testing.T) {
	createListedChecks(t)
	for name, args := range outputs {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			out := kubectl(t, args...)
			if args[0] == "get" {
				out = withoutAge(t, out)
			}
			// Editors and git report trailing spaces and empty lines.
			out = strings.TrimRight(trailingSpaces.ReplaceAllString(out, ""), "\n") + "\n"
			file := filepath.Join(goldenFolder, name+".txt")
			if *update {
				g.Expect(os.MkdirAll(goldenFolder, 0o755)).To(Succeed())
				g.Expect(os.WriteFile(file, []byte(out), 0o600)).To(Succeed())
			}
			golden, err := os.ReadFile(file)
			g.Expect(err).ToNot(HaveOccurred())
			g.Expect(out).To(Equal(string(golden)), "if this is intended: go test ./test/admission -run Output -update, and review the difference")
		})
	}
}

func TestOutput_GoldenFiles_AreAllCompared(t *testing.T) {
	g := NewWithT(t)
	files, err := filepath.Glob(filepath.Join(goldenFolder, "*"))
	g.Expect(err).ToNot(HaveOccurred())
	for _, file := range files {
		g.Expect(outputs).To(HaveKey(strings.TrimSuffix(filepath.Base(file), ".txt")))
	}
	g.Expect(files).To(HaveLen(len(outputs)))
}

// createListedChecks creates, of each kind, a check with a complete status and a new one without a status.
func createListedChecks(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: outputNamespace}}
	g.Expect(client.IgnoreAlreadyExists(cp.API.Create(t.Context(), namespace))).To(Succeed())
	for _, kind := range []string{"full-machines", "full-nodes"} {
		reported := createForOutput(t, kind+"-template", "with-a-status")
		status := example(t, kind+"-status").Object
		status["conditions"] = append(status["conditions"].([]any), map[string]any{
			"type": remedyv1.PausedCondition, "status": "False", "reason": remedyv1.NotPausedReason,
			"message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
		})
		reported.Object["status"] = status
		g.Expect(cp.API.Status().Update(t.Context(), reported)).To(Succeed())
		createForOutput(t, kind+"-escalation", "without-a-status")
	}
}

func createForOutput(t *testing.T, from, name string) *unstructured.Unstructured {
	t.Helper()
	object := example(t, from)
	object.SetName(name)
	object.SetLabels(map[string]string{outputLabel: ""})
	if object.GetNamespace() != "" {
		object.SetNamespace(outputNamespace)
	}
	cp.CreateUntilEnd(t, object)
	return object
}

// kubectl runs kubectl. The API server publishes the schema of new CRDs a moment after it serves them, so the command is repeated
// until it succeeds.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	g := NewWithT(t)
	kubeconfig := cp.Kubeconfig(t)
	var out bytes.Buffer
	g.Eventually(func() error {
		var stderr bytes.Buffer
		out.Reset()
		cmd := exec.CommandContext(t.Context(), cp.Kubectl, append(args, "--kubeconfig", kubeconfig, "--cache-dir", t.TempDir())...)
		cmd.Stdout, cmd.Stderr = &out, &stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, stderr.String())
		}
		return nil
	}).Should(Succeed())
	return out.String()
}

var (
	word           = regexp.MustCompile(`\S+`)
	trailingSpaces = regexp.MustCompile(`(?m) +$`)
)

// withoutAge replaces every age by <age> and aligns the columns again, because their width depends on it. Empty cells stay empty.
func withoutAge(t *testing.T, out string) string {
	t.Helper()
	g := NewWithT(t)
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	titles, starts := word.FindAllString(lines[0], -1), word.FindAllStringIndex(lines[0], -1)
	age := slices.Index(titles, "AGE")
	g.Expect(age).To(BeNumerically(">=", 0), out)
	var table bytes.Buffer
	columns := tabwriter.NewWriter(&table, 0, 0, 3, ' ', 0)
	for row, line := range lines {
		cells := make([]string, len(titles))
		for column, start := range starts {
			end := len(line)
			if column+1 < len(starts) {
				end = min(end, starts[column+1][0])
			}
			cells[column] = strings.TrimSpace(line[min(start[0], end):end])
		}
		if row > 0 {
			g.Expect(cells[age]).To(MatchRegexp(`^[0-9msh]+$`), line)
			cells[age] = "<age>"
		}
		lines[row] = strings.Join(cells, "\t") + "\n"
	}
	_, err := columns.Write([]byte(strings.Join(lines, "")))
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(columns.Flush()).To(Succeed())
	return table.String()
}
