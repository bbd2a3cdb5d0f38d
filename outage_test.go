// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"k8s.io/apimachinery/pkg/version"
	testingclock "k8s.io/utils/clock/testing"

	main "github.com/cluster-api-remedy/cluster-api-provider-remedy"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/instance"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// servedVersion is the version that a management cluster reports.
type servedVersion string

func (s servedVersion) ServerVersion() (*version.Info, error) {
	return &version.Info{GitVersion: string(s)}, nil
}

func TestCheckKubernetes_OldVersion_IsExplained(t *testing.T) {
	for served, problem := range map[servedVersion]string{
		"v1.33.0": "", "v1.33.1-eks-1234567": "", "v1.36.3+k3s1": "", "v2.0.0": "",
		"v1.32.9": "the management cluster has Kubernetes v1.32.9, and Remedy needs v1.33.0 or later: upgrade the management cluster",
		"unknown": `failed to parse the version "unknown" of the management cluster`,
	} {
		t.Run(string(served), func(t *testing.T) {
			g := NewWithT(t)
			err := main.CheckKubernetes(t.Context(), served)
			if problem == "" {
				g.Expect(err).ToNot(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(problem)))
		})
	}
}

// The definitions of Remedy are deleted while the manager runs, and applied again. /readyz reports both, and the log names them. The clock
// advances, because discoveries are half a minute apart.
func TestManager_OwnKindsDeleted_IsNotReady(t *testing.T) {
	g := NewWithT(t)
	cp := plane.Use(t)
	installKinds(t, cp)
	port, err := controlplane.TakePort()
	g.Expect(err).ToNot(HaveOccurred())
	t.Cleanup(port.Release)
	now, log := testingclock.NewFakeClock(time.Now()), testenv.Log{Buffer: gbytes.NewBuffer()}
	startManager(t, cp, log, func(m *main.Manager) error { return m.AddRunnables(now) }, "--health-addr="+port.Address())
	ready := func() string {
		now.Step(time.Minute)
		return readyz(&instance.Instance{Probes: port.Address()})()
	}
	g.Eventually(ready).Should(ContainSubstring("machinehealthcheck: off"))
	uninstallAll(t, cp)
	g.Eventually(ready).Should(And(HavePrefix("not ready: 503"),
		ContainSubstring("FAIL machinehealthcheck: the reconcilers cannot be set up; see the log")))
	g.Eventually(log.String).Should(ContainSubstring("machinehealthchecks and nodehealthchecks of " +
		"remedy.cluster.x-k8s.io/v1alpha1 are not served: apply the custom resource definitions of this release"))
	g.Expect(testenv.RemedyKinds(t.Context(), cp)).To(Succeed())
	g.Eventually(ready).Should(ContainSubstring("machinehealthcheck: off"))
}

// The manager starts before the API server. The same process waits for it, and then serves.
func TestManager_StartsBeforeAPIServer_Waits(t *testing.T) {
	g := NewWithT(t)
	cp := plane.Use(t)
	installKinds(t, cp)
	g.Expect(cp.Crash(controlplane.APIServerProcess)).To(Succeed())
	// The other tests need it. An error means that it runs.
	t.Cleanup(func() { _ = cp.Revive(context.Background(), controlplane.APIServerProcess) })
	i, log := cp.StartManager(t)
	g.Eventually(log.String).Should(ContainSubstring("Waiting for the API server of the management cluster"))
	g.Expect(cp.Revive(t.Context(), controlplane.APIServerProcess)).To(Succeed())
	g.Eventually(readyz(i)).Should(ContainSubstring("machinehealthcheck: off"))
	g.Expect(i.Exited()).ToNot(BeClosed())
	g.Expect(i.Stop()).To(Equal(0), log.String())
}
