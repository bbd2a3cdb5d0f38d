// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
)

// program is a stand-in for a binary: all that matters here is what it prints of its version.
func program(binary Binary) string {
	if binary == Etcd {
		return fmt.Sprintf("#!/bin/sh\necho 'etcd Version: %s'\n", EtcdVersion)
	}
	return fmt.Sprintf("#!/bin/sh\necho 'Kubernetes v%s'\n", KubernetesVersion)
}

func write(t *testing.T, path, content string) {
	t.Helper()
	NewWithT(t).Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
	NewWithT(t).Expect(os.WriteFile(path, []byte(content), 0o755)).To(Succeed())
}

// making is a source that makes what it is asked for and counts how often it is asked.
func making(calls *atomic.Int32) Source {
	return Source{Name: "making", Make: func(_ context.Context, wanted []Binary, dir string, _ io.Writer) error {
		calls.Add(1)
		for _, b := range wanted {
			if err := os.WriteFile(filepath.Join(dir, string(b)), []byte(program(b)), 0o600); err != nil {
				return err
			}
		}
		return nil
	}}
}

func provider(t *testing.T, sources ...Source) *Provider {
	t.Helper()
	return &Provider{Cache: Cache{Dir: filepath.Join(t.TempDir(), "cache")}, Sources: sources, Progress: io.Discard}
}

func TestProvide_SecondCall_BuildsNothing(t *testing.T) {
	g := NewWithT(t)
	var calls atomic.Int32
	p := provider(t, making(&calls))
	first, err := p.Provide(t.Context(), All()...)
	g.Expect(err).ToNot(HaveOccurred())
	second, err := p.Provide(t.Context(), All()...)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(second).To(Equal(first))
	g.Expect(first).To(HaveLen(4))
	g.Expect(calls.Load()).To(Equal(int32(1)))
}

// What can be wrong with a binary in the cache, and all of it must lead to a new one.
func TestProvide_DamagedCache_BuildsAgain(t *testing.T) {
	damages := map[string]func(g Gomega, c Cache){
		"a truncated binary": func(g Gomega, c Cache) {
			g.Expect(os.Truncate(filepath.Join(c.Dir, "etcd"), 10)).To(Succeed())
		},
		"other content of the same length": func(g Gomega, c Cache) {
			path := filepath.Join(c.Dir, "etcd")
			content, err := os.ReadFile(path)
			g.Expect(err).ToNot(HaveOccurred())
			content[len(content)-2] = 'X'
			g.Expect(os.WriteFile(path, content, 0o755)).To(Succeed())
		},
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var calls atomic.Int32
			p := provider(t, making(&calls))
			_, err := p.Provide(t.Context(), Etcd)
			g.Expect(err).ToNot(HaveOccurred())
			damage(g, p.Cache)
			_, present := p.Cache.Path(Etcd)
			g.Expect(present).To(BeFalse())
			paths, err := p.Provide(t.Context(), Etcd)
			g.Expect(err).ToNot(HaveOccurred())
			g.Expect(calls.Load()).To(Equal(int32(2)))
			g.Expect(exec.Command(paths[Etcd], "--version").Run()).To(Succeed())
		})
	}
}

func TestProvide_UnusableBinary_IsRejected(t *testing.T) {
	for name, content := range map[string]string{
		"half of a build":  "\x7fELF",
		"fails":            "#!/bin/sh\nexit 1\n",
		"an older version": "#!/bin/sh\necho 'Kubernetes v1.35.9'\n",
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := provider(t, Source{Name: "bad", Make: func(_ context.Context, _ []Binary, dir string, _ io.Writer) error {
				return os.WriteFile(filepath.Join(dir, "kubectl"), []byte(content), 0o755)
			}})
			_, err := p.Provide(t.Context(), Kubectl)
			g.Expect(err).To(MatchError(ContainSubstring("kubectl")))
			_, present := p.Cache.Path(Kubectl)
			g.Expect(present).To(BeFalse())
			left, _ := filepath.Glob(filepath.Join(p.Cache.Dir, "*"))
			g.Expect(left).To(ConsistOf(filepath.Join(p.Cache.Dir, "lock")), "nothing half-done stays")
		})
	}
}

func TestProvide_KubebuilderAssets_AreUsedIfVersionFits(t *testing.T) {
	g := NewWithT(t)
	var calls atomic.Int32
	p := provider(t, making(&calls))
	p.Given = t.TempDir()
	write(t, filepath.Join(p.Given, "etcd"), program(Etcd))
	write(t, filepath.Join(p.Given, "kubectl"), "#!/bin/sh\necho 'Client Version: v1.31.0'\n")
	var progress bytes.Buffer
	p.Progress = &progress
	paths, err := p.Provide(t.Context(), Basic()...)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(paths[Etcd]).To(Equal(filepath.Join(p.Given, "etcd")))
	g.Expect(paths[Kubectl]).To(Equal(filepath.Join(p.Cache.Dir, "kubectl")), "an old one does not fit")
	g.Expect(progress.String()).To(ContainSubstring("v1.31.0"))
	g.Expect(paths[KubeAPIServer]).To(Equal(filepath.Join(p.Cache.Dir, "kube-apiserver")))
}

func TestVersions_BuildModules_AreEqual(t *testing.T) {
	g := NewWithT(t)
	for dir, pin := range map[string]string{
		"kubernetes": "k8s.io/kubernetes v" + KubernetesVersion,
		"etcd":       "go.etcd.io/etcd/server/v3 v" + EtcdVersion,
		"clusterapi": "sigs.k8s.io/cluster-api/test v" + ClusterAPITestVersion,
	} {
		content, err := os.ReadFile(filepath.Join("..", "build", dir, "go.mod"))
		g.Expect(err).ToNot(HaveOccurred())
		g.Expect(string(content)).To(ContainSubstring(pin))
	}
}

func TestCachePut_ManagerWithoutCluster_VersionIsRead(t *testing.T) {
	g := NewWithT(t)
	cache := Cache{Dir: filepath.Join(t.TempDir(), "cache")}
	manager := filepath.Join(cache.Dir, "made")
	write(t, manager, "#!/bin/sh\necho 'FLAG: --v=2'\necho 'Version: v"+ClusterAPIVersion+" (git commit: )'\nexit 1\n")
	g.Expect(cache.Put(t.Context(), CoreManager, manager, "test")).To(Succeed())
	receipt, err := os.ReadFile(cache.receiptPath(CoreManager))
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(string(receipt)).To(ContainSubstring(`"version": "Version: v` + ClusterAPIVersion))

	write(t, manager, "#!/bin/sh\necho 'v"+ClusterAPIVersion+"'\nexit 1\n")
	g.Expect(cache.Put(t.Context(), Clusterctl, manager, "test")).To(Succeed())

	write(t, manager, "#!/bin/sh\necho 'Version: v1.0.0'\nexit 1\n")
	g.Expect(cache.Put(t.Context(), CoreManager, manager, "test")).To(MatchError(ContainSubstring("is not the required version")))
}
