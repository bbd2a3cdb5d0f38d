// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
)

func TestControlPlane_UnprivilegedUser_IsForbidden(t *testing.T) {
	g := NewWithT(t)
	cp := lease(t)

	admin, err := cp.Client()
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(admin.List(t.Context(), &corev1.NamespaceList{})).To(Succeed())

	config, err := cp.Config(controlplane.ServiceAccount("somewhere", "unprivileged"))
	g.Expect(err).ToNot(HaveOccurred())
	nobody, err := client.New(config, client.Options{})
	g.Expect(err).ToNot(HaveOccurred())
	err = nobody.List(t.Context(), &corev1.NamespaceList{})
	g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "got %v", err)
	g.Expect(err).To(MatchError(ContainSubstring("system:serviceaccount:somewhere:unprivileged")))

	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(cp.WriteKubeconfig(controlplane.User{Name: "admin", Groups: []string{"system:masters"}}, kubeconfig)).To(Succeed())
	out, err := exec.Command(cp.Kubectl, "--kubeconfig", kubeconfig, "get", "--raw", "/readyz").CombinedOutput()
	g.Expect(err).ToNot(HaveOccurred(), string(out))
	g.Expect(string(out)).To(Equal("ok"))
}

func TestTakePort_Concurrent_PortsDifferAndLeaveNoFiles(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("TMPDIR", t.TempDir())
	var lock sync.Mutex
	taken := map[int]bool{}
	var many sync.WaitGroup
	for range 8 {
		many.Go(func() {
			for range 200 {
				port, err := controlplane.TakePort()
				if err != nil {
					t.Error(err)
					return
				}
				lock.Lock()
				if taken[port.Number] {
					t.Errorf("port %d has two owners", port.Number)
				}
				taken[port.Number] = true
				lock.Unlock()
				runtime.Gosched()
				lock.Lock()
				delete(taken, port.Number)
				lock.Unlock()
				port.Release()
				port.Release()
			}
		})
	}
	many.Wait()
	g.Expect(filepath.Glob(filepath.Join(os.TempDir(), "remedy-ports-*"))).To(BeEmpty())
}
