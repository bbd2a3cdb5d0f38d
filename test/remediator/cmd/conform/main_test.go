// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// A remediator in another process keeps all points, and each has its line.
func TestRun_GoodRemediator_KeepsAll(t *testing.T) {
	g := NewWithT(t)
	cp, err := controlplane.Lease(t.Context(), controlplane.Management)
	g.Expect(err).ToNot(HaveOccurred())
	t.Cleanup(cp.Stop)
	admin, err := cp.Client()
	g.Expect(err).ToNot(HaveOccurred())
	kind := remediator.FenceAgents
	g.Expect(cp.InstallCRDObjects(kind.CRDs()...)).To(Succeed())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "conform-"}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "n-"}}
	role := kind.ClusterRole()
	role.Name, role.GenerateName = "", "conform-"
	for _, o := range []client.Object{namespace, node, role} {
		g.Expect(admin.Create(t.Context(), o)).To(Succeed())
		t.Cleanup(func() { g.Expect(client.IgnoreNotFound(admin.Delete(context.Background(), o))).To(Succeed()) })
	}
	g.Expect(admin.Create(t.Context(), kind.NewTemplate(namespace.Name, "soft", map[string]any{}))).To(Succeed())
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(cp.WriteKubeconfig(controlplane.User{Name: "admin", Groups: []string{"system:masters"}}, kubeconfig)).To(Succeed())

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		player := &remediator.Remediator{Kind: kind, Client: client.NewNamespacedClient(admin, namespace.Name), Nodes: admin}
		for ctx.Err() == nil {
			// A conflict is tried again.
			_, _ = player.Act(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	out := &strings.Builder{}
	broken, err := run(t.Context(), []string{
		"--kubeconfig", kubeconfig, "--api-version", kind.GroupVersion().String(), "--kind", kind.Template().Kind,
		"--template", namespace.Name + "/soft", "--node", node.Name, "--settle", "2s", "--timeout", "2m",
	}, out)
	stop()
	<-ended
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(broken).To(BeFalse())
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	g.Expect(lines).To(HaveLen(8))
	g.Expect(lines).To(HaveEach(HavePrefix("kept")))
}
