// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main_test

import (
	"context"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
)

// The definitions of Remedy are deleted while the manager runs, and applied again. /readyz reports both, and the log names them.
func TestManager_OwnKindsDeleted_IsNotReady(t *testing.T) {
	g := newGomega(t)
	cp := startControlPlane(t)
	installKinds(t, cp)
	i, log := start(t, cp)
	g.Eventually(readyz(i)).Should(ContainSubstring("machinehealthcheck: off"))
	uninstallAll(t, cp)
	g.Eventually(readyz(i)).Should(And(HavePrefix("not ready: 503"),
		ContainSubstring("FAIL machinehealthcheck: the reconcilers cannot be set up; see the log")))
	g.Expect(log.String()).To(ContainSubstring("machinehealthchecks and nodehealthchecks of " +
		"remedy.cluster.x-k8s.io/v1alpha1 are not served: apply the custom resource definitions of this release"))
	g.Expect(cp.InstallCRDs(filepath.Join("config", "crd", "bases"))).To(Succeed())
	g.Eventually(readyz(i)).Should(ContainSubstring("machinehealthcheck: off"))
	g.Expect(i.Stop()).To(Equal(0))
}

// The manager starts before the API server. The same process waits for it, and then serves.
func TestManager_StartsBeforeAPIServer_Waits(t *testing.T) {
	g := newGomega(t)
	cp := startControlPlane(t)
	installKinds(t, cp)
	g.Expect(cp.Crash(controlplane.APIServerProcess)).To(Succeed())
	// The other tests need it. An error means that it runs.
	t.Cleanup(func() { _ = cp.Revive(context.Background(), controlplane.APIServerProcess) })
	i, log := start(t, cp)
	g.Eventually(log.String).Should(ContainSubstring("Waiting for the API server of the management cluster"))
	g.Expect(cp.Revive(t.Context(), controlplane.APIServerProcess)).To(Succeed())
	g.Eventually(readyz(i)).Should(ContainSubstring("machinehealthcheck: off"))
	g.Expect(i.Exited()).ToNot(BeClosed())
	g.Expect(i.Stop()).To(Equal(0), log.String())
}
