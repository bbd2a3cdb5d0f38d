// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

// krewPlugin has the fields that krew reads and requires.
type krewPlugin struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string `json:"version"`
		Homepage         string `json:"homepage"`
		ShortDescription string `json:"shortDescription"`
		Description      string `json:"description"`
		Platforms        []struct {
			Selector struct {
				MatchLabels map[string]string `json:"matchLabels"`
			} `json:"selector"`
			URI    string `json:"uri"`
			SHA256 string `json:"sha256"`
			Bin    string `json:"bin"`
		} `json:"platforms"`
	} `json:"spec"`
}

// pluginPlatforms are those that the Makefile builds the plugin for.
func pluginPlatforms(t *testing.T) []string {
	t.Helper()
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	return strings.Fields(string(regexp.MustCompile(`(?m)^PLUGIN_PLATFORMS := (.*)$`).FindSubmatch(makefile)[1]))
}

// The programs are small files here: krew.sh does not execute them.
func TestKrewManifest_EveryPlatform_HasItsArchive(t *testing.T) {
	g := NewWithT(t)
	open(t, "hack/krew.sh", "docs/install.md", "LICENSE")
	out := t.TempDir()
	for _, platform := range pluginPlatforms(t) {
		name := "kubectl-remedy-" + platform
		if strings.HasPrefix(platform, "windows-") {
			name += ".exe"
		}
		g.Expect(os.WriteFile(filepath.Join(out, name), []byte("the program for "+platform), 0o700)).To(Succeed())
	}
	said, err := exec.Command(filepath.Join(root, "hack/krew.sh"), out, version).CombinedOutput()
	g.Expect(err).ToNot(HaveOccurred(), string(said))
	content, err := os.ReadFile(filepath.Join(out, "remedy.yaml"))
	g.Expect(err).ToNot(HaveOccurred())
	var plugin krewPlugin
	g.Expect(yaml.UnmarshalStrict(content, &plugin)).To(Succeed())
	g.Expect([]string{plugin.APIVersion, plugin.Kind, plugin.Metadata.Name, plugin.Spec.Version}).
		To(Equal([]string{"krew.googlecontainertools.github.com/v1alpha2", "Plugin", "remedy", version}))
	g.Expect(plugin.Spec.Homepage).To(HavePrefix("https://"))
	g.Expect(len(plugin.Spec.ShortDescription)).To(And(BeNumerically(">", 0), BeNumerically("<=", 50)), "what krew's list of plugins shows")

	platforms := make([]string, 0, len(plugin.Spec.Platforms))
	for _, p := range plugin.Spec.Platforms {
		platform := p.Selector.MatchLabels["os"] + "-" + p.Selector.MatchLabels["arch"]
		platforms = append(platforms, platform)
		archive := "kubectl-remedy-" + platform + ".tar.gz"
		g.Expect(p.URI).To(Equal(plugin.Spec.Homepage + "/releases/download/" + version + "/" + archive))
		packed, err := os.ReadFile(filepath.Join(out, archive))
		g.Expect(err).ToNot(HaveOccurred())
		sum := sha256.Sum256(packed)
		g.Expect(p.SHA256).To(Equal(hex.EncodeToString(sum[:])))
		files := unpack(t, filepath.Join(out, archive))
		g.Expect(files).To(HaveLen(2))
		g.Expect(files).To(And(HaveKeyWithValue(p.Bin, "the program for "+platform), HaveKey("LICENSE")))
	}
	g.Expect(platforms).To(ConsistOf(pluginPlatforms(t)))
}

// unpack returns the files of an archive by name.
func unpack(t *testing.T, archive string) map[string]string {
	t.Helper()
	g := NewWithT(t)
	file, err := os.Open(archive)
	g.Expect(err).ToNot(HaveOccurred())
	defer func() { _ = file.Close() }()
	packed, err := gzip.NewReader(file)
	g.Expect(err).ToNot(HaveOccurred())
	files, reader := map[string]string{}, tar.NewReader(packed)
	for {
		header, err := reader.Next()
		if err != nil {
			g.Expect(err).To(MatchError(io.EOF))
			return files
		}
		content, err := io.ReadAll(reader)
		g.Expect(err).ToNot(HaveOccurred())
		files[header.Name] = string(content)
	}
}
