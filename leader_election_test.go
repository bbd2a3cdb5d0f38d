// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main_test

import (
	"context"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/instance"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

func TestManager_LeaderStops_ReleasesLease(t *testing.T) {
	g := NewWithT(t)
	cp := plane.Use(t)
	lease := func() *coordinationv1.Lease {
		lease := &coordinationv1.Lease{}
		key := client.ObjectKey{Namespace: instance.Namespace, Name: "controller-leader-election-remedy"}
		g.Expect(client.IgnoreNotFound(cp.API.Get(t.Context(), key, lease))).To(Succeed())
		return lease
	}
	holder := func() string { return ptr.Deref(lease().Spec.HolderIdentity, "") }
	// A renewal that is in progress when the leader stops can change the Lease between its read and its release, which then fails. The next
	// renewal is two seconds away.
	renewed := func() {
		before := lease().ResourceVersion
		g.Eventually(func() string { return lease().ResourceVersion }).ShouldNot(Equal(before))
	}

	// The Lease does not expire during the test: on a slow machine, no instance loses or acquires it by that.
	elect := []string{
		"--leader-elect", "--leader-elect-lease-duration=1h", "--leader-elect-renew-deadline=50m", "--leader-elect-retry-period=2s",
	}
	first, _ := cp.StartManager(t, elect...)
	g.Eventually(readyz(first)).Should(ContainSubstring("this instance leads"))
	second, log := cp.StartManager(t, elect...)
	g.Eventually(readyz(second)).Should(And(ContainSubstring("on standby, "), ContainSubstring(holder()+" leads")))

	renewed()
	g.Expect(first.Stop()).To(Equal(0))
	g.Eventually(readyz(second)).Should(ContainSubstring("this instance leads"))
	renewed()
	g.Expect(second.Stop()).To(Equal(0))
	g.Expect(holder()).To(BeEmpty(), "an instance that stops releases the Lease, so no other one waits until it expires")
	g.Expect(log.String()).ToNot(ContainSubstring("forbidden"))
}

func TestManager_UnreadableLease_IsNotReady(t *testing.T) {
	g := NewWithT(t)
	cp := plane.Use(t)
	installKinds(t, cp)
	// It has permissions on Leases in its own namespace, and reads those of kubelets.
	t.Setenv("POD_NAMESPACE", "default")
	forbidLeases(t, cp)
	i, log := cp.StartManager(t, "--leader-elect")
	g.Eventually(readyz(i)).Should(And(HavePrefix("not ready: 503"),
		ContainSubstring("FAIL leader: on standby, and the Lease cannot be read; see the log"), Not(ContainSubstring("forbidden"))))
	g.Eventually(log.String).Should(ContainSubstring("forbidden"))
}

// forbidLeases removes the permission to read Leases of all namespaces for one test.
func forbidLeases(t *testing.T, cp *testenv.Environment) {
	t.Helper()
	g := NewWithT(t)
	role := &rbacv1.ClusterRole{}
	g.Expect(cp.API.Get(t.Context(), client.ObjectKey{Name: "remedy-system-manager"}, role)).To(Succeed())
	before := role.DeepCopy()
	role.Rules = slices.DeleteFunc(role.Rules, func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.Resources, "leases") })
	g.Expect(cp.API.Update(t.Context(), role)).To(Succeed())
	t.Cleanup(func() {
		before.ResourceVersion = role.ResourceVersion
		g.Expect(cp.API.Update(context.Background(), before)).To(Succeed())
	})
}
