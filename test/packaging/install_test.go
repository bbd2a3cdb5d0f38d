// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// The command that docs/install.md gives to those who have no clusterctl is run as it stands there.
func TestInstallPage_KubectlCommand_InstallsComponents(t *testing.T) {
	g := NewWithT(t)
	docs, err := os.ReadFile(filepath.Join(root, "docs", "install.md"))
	g.Expect(err).ToNot(HaveOccurred())
	command := regexp.MustCompile(`(?m)^sed -E .* out/infrastructure-components.yaml \| kubectl apply --server-side -f -$`).FindString(string(docs))
	g.Expect(command).ToNot(BeEmpty())

	cp := testenv.Start(t)
	dir := t.TempDir()
	g.Expect(os.Symlink(releaseFolder(t), filepath.Join(dir, "out"))).To(Succeed())
	g.Expect(os.Symlink(cp.Kubectl, filepath.Join(dir, "kubectl"))).To(Succeed())
	run := func(command string) string {
		cmd := exec.Command("/bin/sh", "-c", command)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "KUBECONFIG="+cp.Kubeconfig(t), "PATH="+dir+":"+os.Getenv("PATH"), "image=registry.example.com/remedy:v0.1.0")
		out, err := cmd.CombinedOutput()
		g.Expect(err).ToNot(HaveOccurred(), string(out))
		return string(out)
	}
	g.Expect(run(command)).To(ContainSubstring("deployment.apps/remedy-controller-manager serverside-applied"))
	container := func(field string) string {
		return run("kubectl get deployment remedy-controller-manager -n remedy-system -o jsonpath='{.spec.template.spec.containers[0]." + field + "}'")
	}
	g.Expect(container("image")).To(Equal("registry.example.com/remedy:v0.1.0"))
	g.Expect(container("args")).To(And(
		ContainSubstring("--mode=Enforce"), ContainSubstring("--diagnostics-address=:8443"), Not(ContainSubstring("${"))))

	stop, err := os.ReadFile(filepath.Join(root, "docs", "stop.md"))
	g.Expect(err).ToNot(HaveOccurred())
	patch := regexp.MustCompile(`(?m)^kubectl patch deployment [^\n]* \\\n.*$`).FindString(string(stop))
	g.Expect(patch).ToNot(BeEmpty())
	run(patch)
	g.Expect(container("args")).To(HaveSuffix(`"--mode=Observe"]`), "the last value of a flag counts")
	scale := regexp.MustCompile(`(?m)^kubectl scale deployment .*$`).FindString(string(stop))
	g.Expect(scale).ToNot(BeEmpty())
	run(scale)
	g.Expect(run("kubectl get deployment remedy-controller-manager -n remedy-system -o jsonpath='{.spec.replicas}'")).To(Equal("0"))
}

func TestRelease_UnusableVersion_IsRejected(t *testing.T) {
	for version, says := range map[string]string{"v9.9.0": "no release series 9.9", "1.0": "is no version", "v0.1": "is no version"} {
		g := NewWithT(t)
		folder := filepath.Join(t.TempDir(), "out")
		out, err := exec.Command("../../hack/release.sh", folder, version).CombinedOutput()
		g.Expect(err).To(HaveOccurred())
		g.Expect(string(out)).To(ContainSubstring(says))
		g.Expect(folder).ToNot(BeADirectory(), "nothing half-done")
	}
}
