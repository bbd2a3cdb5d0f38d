// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
)

func TestAControlPlaneIsRealAndRBACIsOn(t *testing.T) {
	g := NewWithT(t)
	cp, err := controlplane.Start(t.Context())
	g.Expect(err).ToNot(HaveOccurred())
	t.Cleanup(cp.Stop)

	admin, err := cp.Client()
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(admin.List(t.Context(), &corev1.NamespaceList{})).To(Succeed())

	config, err := cp.Config(controlplane.ServiceAccount("somewhere", "nobody"))
	g.Expect(err).ToNot(HaveOccurred())
	nobody, err := client.New(config, client.Options{})
	g.Expect(err).ToNot(HaveOccurred())
	err = nobody.List(t.Context(), &corev1.NamespaceList{})
	g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "got %v", err)
	g.Expect(err).To(MatchError(ContainSubstring("system:serviceaccount:somewhere:nobody")))

	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(cp.WriteKubeconfig(controlplane.User{Name: "admin", Groups: []string{"system:masters"}}, kubeconfig)).To(Succeed())
	out, err := exec.Command(cp.Kubectl, "--kubeconfig", kubeconfig, "get", "--raw", "/readyz").CombinedOutput()
	g.Expect(err).ToNot(HaveOccurred(), string(out))
	g.Expect(string(out)).To(Equal("ok"))
}

func TestPortsAreTakenOnce(t *testing.T) {
	g := NewWithT(t)
	seen := map[int]bool{}
	for range 100 {
		port, err := controlplane.TakePort()
		g.Expect(err).ToNot(HaveOccurred())
		t.Cleanup(port.Release)
		g.Expect(seen).ToNot(HaveKey(port.Number))
		seen[port.Number] = true
	}
}

func TestClusterAPIsDefinitionsAreFound(t *testing.T) {
	g := NewWithT(t)
	dir, err := controlplane.ClusterAPICRDs(t.Context())
	g.Expect(err).ToNot(HaveOccurred())
	_, err = os.Stat(filepath.Join(dir, "cluster.x-k8s.io_machines.yaml"))
	g.Expect(err).ToNot(HaveOccurred())
}
