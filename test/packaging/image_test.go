// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build image

package packaging_test

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	. "github.com/onsi/gomega"
)

var platforms = []v1.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64"}}

// newBase pushes an image without files for both platforms, and returns its reference with the digest.
func newBase(t *testing.T, address string) string {
	t.Helper()
	g := NewWithT(t)
	var base v1.ImageIndex = empty.Index
	for i := range platforms {
		platform := &platforms[i]
		config := v1.ConfigFile{OS: platform.OS, Architecture: platform.Architecture, Config: v1.Config{User: "65532"}}
		image, err := mutate.ConfigFile(empty.Image, &config)
		g.Expect(err).ToNot(HaveOccurred())
		base = mutate.AppendManifests(base, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	tag, err := name.NewTag(address + "/base:nonroot")
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(remote.WriteIndex(tag, base)).To(Succeed())
	digest, err := base.Digest()
	g.Expect(err).ToNot(HaveOccurred())
	return tag.Context().Digest(digest.String()).String()
}

// makeTarget runs a make command as a workflow does, and returns its output without progress.
func makeTarget(t *testing.T, arguments ...string) string {
	t.Helper()
	cmd := exec.Command("make", append([]string{"--no-print-directory", "-s", "-C", root}, arguments...)...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "MAKE") || strings.HasPrefix(variable, "MFLAGS=")
	})
	var progress strings.Builder
	cmd.Stderr = &progress
	out, err := cmd.Output()
	NewWithT(t).Expect(err).ToNot(HaveOccurred(), progress.String())
	return string(out)
}

// The targets of the workflow build and push the image to a registry on this machine. Only the addresses differ from those of a release.
func TestImage_TwoPlatforms_SubjectIsTheIndex(t *testing.T) {
	g := NewWithT(t)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	address := strings.TrimPrefix(server.URL, "http://")
	image := address + "/remedy"
	makeTarget(t, "image", "VERSION="+version, "IMAGE="+image, "BASE="+newBase(t, address))

	tag, err := name.NewTag(image + ":" + version)
	g.Expect(err).ToNot(HaveOccurred())
	descriptor, err := remote.Get(tag)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(descriptor.MediaType.IsIndex()).To(BeTrue(), string(descriptor.MediaType))
	g.Expect(makeTarget(t, "image-subject", "IMAGE="+image)).To(Equal("name="+image+"\ndigest="+descriptor.Digest.String()+"\n"),
		"the workflow adds these lines to its outputs, and the last digest wins")

	index, err := descriptor.ImageIndex()
	g.Expect(err).ToNot(HaveOccurred())
	manifest, err := index.IndexManifest()
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(manifest.Manifests).To(HaveLen(len(platforms)))
	documents := append(make([]v1.Hash, 0, 1+len(platforms)), descriptor.Digest)
	for i := range manifest.Manifests {
		g.Expect(*manifest.Manifests[i].Platform).To(Equal(platforms[i]))
		documents = append(documents, manifest.Manifests[i].Digest)
		one, err := index.Image(manifest.Manifests[i].Digest)
		g.Expect(err).ToNot(HaveOccurred())
		config, err := one.ConfigFile()
		g.Expect(err).ToNot(HaveOccurred())
		g.Expect([]string{config.OS, config.Architecture, config.Config.User}).
			To(Equal([]string{platforms[i].OS, platforms[i].Architecture, "65532"}))
		g.Expect(config.Config.Entrypoint).To(HaveLen(1))
	}
	for _, digest := range documents {
		sbom, err := name.NewTag(image + ":" + strings.Replace(digest.String(), ":", "-", 1) + ".sbom")
		g.Expect(err).ToNot(HaveOccurred())
		_, err = remote.Get(sbom)
		g.Expect(err).ToNot(HaveOccurred(), "the SBOM of "+digest.String())
	}
}
