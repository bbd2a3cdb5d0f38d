// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
)

func TestCrash_WrittenObject_IsKept(t *testing.T) {
	g := NewWithT(t)
	cp, err := controlplane.Start(t.Context())
	g.Expect(err).ToNot(HaveOccurred())
	t.Cleanup(cp.Stop)
	admin, err := cp.Client()
	g.Expect(err).ToNot(HaveOccurred())
	written := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "written"}}
	g.Expect(admin.Create(t.Context(), written)).To(Succeed())

	g.Expect(cp.Crash(controlplane.APIServerProcess)).To(Succeed())
	g.Expect(cp.Crash(controlplane.EtcdProcess)).To(Succeed())
	g.Expect(admin.Get(t.Context(), client.ObjectKeyFromObject(written), written)).ToNot(Succeed())

	g.Expect(cp.Revive(t.Context(), controlplane.EtcdProcess, controlplane.APIServerProcess)).To(Succeed())
	g.Expect(admin.Get(t.Context(), client.ObjectKeyFromObject(written), written)).To(Succeed())
}
