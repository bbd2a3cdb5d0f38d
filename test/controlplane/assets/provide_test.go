// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/procgroup"
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

func failing(reason string) Source {
	return Source{Name: "failing", Make: func(context.Context, []Binary, string, io.Writer) error { return errors.New(reason) }}
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

func TestProvide_SomeCached_BuildsOnlyMissing(t *testing.T) {
	g := NewWithT(t)
	var asked []Binary
	var calls atomic.Int32
	recording := making(&calls)
	p := provider(t, Source{Name: "recording", Make: func(ctx context.Context, wanted []Binary, dir string, w io.Writer) error {
		asked = append(asked, wanted...)
		return recording.Make(ctx, wanted, dir, w)
	}})
	_, err := p.Provide(t.Context(), Basic()...)
	g.Expect(err).ToNot(HaveOccurred())
	asked = nil
	_, err = p.Provide(t.Context(), All()...)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(asked).To(Equal([]Binary{KubeControllerManager}))
}

func TestProvide_FirstSourceFails_UsesNext(t *testing.T) {
	g := NewWithT(t)
	var calls atomic.Int32
	var progress bytes.Buffer
	p := provider(t, failing("no network here"), making(&calls))
	p.Progress = &progress
	_, err := p.Provide(t.Context(), Basic()...)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(progress.String()).To(ContainSubstring("no network here"))
}

func TestProvide_AllSourcesFail_ErrorHasEachCause(t *testing.T) {
	g := NewWithT(t)
	p := provider(t, failing("no network here"), failing("no compiler here"))
	_, err := p.Provide(t.Context(), Basic()...)
	g.Expect(err).To(MatchError(And(
		ContainSubstring("no network here"), ContainSubstring("no compiler here"), ContainSubstring("kube-apiserver"))))
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
		"no binary": func(g Gomega, c Cache) {
			g.Expect(os.Remove(filepath.Join(c.Dir, "etcd"))).To(Succeed())
		},
		"no receipt": func(g Gomega, c Cache) {
			g.Expect(os.Remove(c.receiptPath(Etcd))).To(Succeed())
		},
		"half a receipt": func(g Gomega, c Cache) {
			g.Expect(os.Truncate(c.receiptPath(Etcd), 10)).To(Succeed())
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

func TestProvide_SourceFailsHalfway_KeepsFinishedBinaries(t *testing.T) {
	g := NewWithT(t)
	var calls atomic.Int32
	p := provider(t, Source{Name: "half", Make: func(_ context.Context, _ []Binary, dir string, _ io.Writer) error {
		g.Expect(os.WriteFile(filepath.Join(dir, "etcd"), []byte(program(Etcd)), 0o600)).To(Succeed())
		return errors.New("then the disk was full")
	}}, making(&calls))
	_, err := p.Provide(t.Context(), Basic()...)
	g.Expect(err).ToNot(HaveOccurred())
	written, err := os.ReadFile(p.Cache.receiptPath(Etcd))
	g.Expect(err).ToNot(HaveOccurred())
	var r receipt
	g.Expect(json.Unmarshal(written, &r)).To(Succeed())
	g.Expect(r.Origin).To(Equal("half"))
}

func TestProvide_KilledBuild_FilesAreRemoved(t *testing.T) {
	g := NewWithT(t)
	var calls atomic.Int32
	p := provider(t, making(&calls))
	killed := filepath.Join(p.Cache.Dir, unfinished+"123", "etcd")
	write(t, killed, program(Etcd))
	_, present := p.Cache.Path(Etcd)
	g.Expect(present).To(BeFalse())
	_, err := p.Provide(t.Context(), Etcd)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(killed).ToNot(BeAnExistingFile())
}

func TestProvide_Concurrent_BuildsOnce(t *testing.T) {
	g := NewWithT(t)
	var calls atomic.Int32
	p := provider(t, making(&calls))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			_, err := p.Provide(t.Context(), Basic()...)
			g.Expect(err).ToNot(HaveOccurred())
		})
	}
	group.Wait()
	g.Expect(calls.Load()).To(Equal(int32(1)))
}

func TestProvide_LockedCache_EndsWithContext(t *testing.T) {
	g := NewWithT(t)
	var calls atomic.Int32
	p := provider(t, making(&calls))
	unlock, err := p.Cache.Lock(t.Context(), func() {})
	g.Expect(err).ToNot(HaveOccurred())
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = p.Provide(ctx, Etcd)
	g.Expect(err).To(MatchError(context.DeadlineExceeded))
	g.Expect(calls.Load()).To(BeZero())
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

func TestKubebuilderAssets_InvalidFolder_IsRejected(t *testing.T) {
	g := NewWithT(t)
	g.Expect(checkGiven("")).To(Succeed())
	g.Expect(checkGiven(t.TempDir())).To(Succeed())
	g.Expect(checkGiven("bin/k8s")).To(MatchError(ContainSubstring("must be an absolute path")))
	g.Expect(checkGiven(filepath.Join(t.TempDir(), "none"))).To(MatchError(ContainSubstring("there is no such folder")))
}

func TestRunLimited_Timeout_StopsChildren(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	tool, note, limit := filepath.Join(dir, "hangs"), filepath.Join(dir, "child"), 250*time.Millisecond
	write(t, tool, "#!/bin/sh\nsleep 600 &\necho $! > "+note+"\nwait\n")
	// Where the machine is busy it has not come to its child by then, and gets more time.
	var pid int
	g.Eventually(func(g Gomega) {
		limit *= 2
		_, err := runLimited(t.Context(), limit, tool)
		g.Expect(err).To(MatchError(ContainSubstring("no answer within " + limit.String())))
		child, err := os.ReadFile(note)
		g.Expect(err).ToNot(HaveOccurred())
		pid, err = strconv.Atoi(strings.TrimSpace(string(child)))
		g.Expect(err).ToNot(HaveOccurred())
	}, time.Minute).Should(Succeed())
	g.Eventually(func() bool { return procgroup.Alive(pid) }, time.Minute).Should(BeFalse())
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
