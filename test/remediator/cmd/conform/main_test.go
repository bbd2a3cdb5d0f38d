// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

var (
	kind = remediator.Example
	cp   = testenv.Shared(controlplane.Management, testenv.RemediationKinds(kind))
)

func TestMain(m *testing.M) { testenv.Main(m) }

// A remediator in another process keeps all points, and each has its line.
func TestRun_GoodRemediator_KeepsAll(t *testing.T) {
	g := NewWithT(t)
	cp.Use(t)
	namespace := cp.Namespace(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "n-"}}
	role := kind.ClusterRole()
	role.Name, role.GenerateName = "", "conform-"
	cp.CreateUntilEnd(t, node, role)
	g.Expect(cp.API.Create(t.Context(), kind.NewTemplate(namespace, "soft", map[string]any{}))).To(Succeed())

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		player := &remediator.Remediator{Kind: kind, Client: client.NewNamespacedClient(cp.API, namespace), Nodes: cp.API}
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
		"--kubeconfig", cp.Kubeconfig(t), "--api-version", kind.GroupVersion().String(), "--kind", kind.Template().Kind,
		"--template", namespace + "/soft", "--node", node.Name, "--settle", "2s", "--timeout", "2m",
	}, out)
	stop()
	<-ended
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(broken).To(BeFalse())
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	g.Expect(lines).To(HaveLen(8))
	g.Expect(lines).To(HaveEach(HavePrefix("kept")))
}
