// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
)

// lender lends the control planes of this package's tests.
var lender *controlplane.Lender

func TestMain(m *testing.M) {
	var err error
	if lender, err = controlplane.NewLender(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	lender.Stop()
	os.Exit(code)
}

// lease leases a control plane as a package does that runs below cmd/share.
func lease(t *testing.T) *controlplane.ControlPlane {
	t.Helper()
	variable, socket, _ := strings.Cut(lender.Environment(), "=")
	t.Setenv(variable, socket)
	cp, err := controlplane.Lease(t.Context(), controlplane.Management)
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	t.Cleanup(cp.Stop)
	return cp
}

// clusterID is the UID that no two clusters have in common.
func clusterID(t *testing.T, cp *controlplane.ControlPlane) types.UID {
	t.Helper()
	g := NewWithT(t)
	c, err := cp.Client()
	g.Expect(err).ToNot(HaveOccurred())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}}
	g.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(namespace), namespace)).To(Succeed())
	return namespace.UID
}

func TestLease_TwoPackages_ShareOneControlPlane(t *testing.T) {
	g := NewWithT(t)
	first, second := lease(t), lease(t)
	g.Expect(clusterID(t, first)).To(Equal(clusterID(t, second)))
	g.Expect(second).To(And(
		HaveField("Kubectl", Equal(first.Kubectl)), HaveField("AuditLog", BeARegularFile()), HaveField("Certificates", BeADirectory())))

	first.Stop()
	g.Expect(clusterID(t, second)).ToNot(BeEmpty(), "the package that stops first does not stop the control plane")
}
