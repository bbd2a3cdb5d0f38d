// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/discovery"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/instance"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// plane is the control plane of all tests here, which do not run in parallel. No other package uses it, because the manager acts on all
// objects of a cluster, and because a test freezes the API server.
var plane = testenv.New(testenv.ManagerRoles)

func TestMain(m *testing.M) { testenv.Main(m) }

// readyz returns what the probe responds, or "not ready".
func readyz(i *instance.Instance) func() string {
	return func() string {
		status, text, err := i.Probe(context.Background(), "/readyz")
		if err != nil || status != http.StatusOK {
			return fmt.Sprintf("not ready: %d %v %s", status, err, text)
		}
		return text
	}
}

func TestManager_AnyClusterAPI_Starts(t *testing.T) {
	cp := plane.Use(t)
	t.Cleanup(func() { uninstallAll(t, cp) })

	t.Run("without the kinds of Remedy", func(t *testing.T) {
		g := NewWithT(t)
		i, log := cp.StartManager(t)
		g.Eventually(readyz(i)).Should(ContainSubstring("FAIL machinehealthcheck: the reconcilers cannot be set up; see the log"))
		g.Eventually(log.String).Should(ContainSubstring("machinehealthchecks and nodehealthchecks of " +
			"remedy.cluster.x-k8s.io/v1alpha1 are not served: apply the custom resource definitions of this release"))
		g.Expect(i.Stop()).To(Equal(0))
	})
	t.Run("without Cluster API", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(testenv.RemedyKinds(t.Context(), cp)).To(Succeed())
		i, log := cp.StartManager(t)
		g.Eventually(readyz(i)).Should(ContainSubstring("machinehealthcheck: off: Cluster API is not installed here"))
		status, text, err := i.Probe(t.Context(), "/healthz")
		g.Expect(err).ToNot(HaveOccurred())
		g.Expect(status).To(Equal(http.StatusOK))
		g.Expect(text).To(HavePrefix("ok   process: version "))
		g.Expect(i.Stop()).To(Equal(0))
		g.Expect(log.String()).To(ContainSubstring("MachineHealthChecks are off"))
		g.Expect(log.String()).ToNot(ContainSubstring("forbidden"))
	})
	t.Run("with a Cluster API that serves v1beta1 only", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(cp.InstallCRDObjects(clusterAPI(t, "v1beta1")...)).To(Succeed())
		i, log := cp.StartManager(t, "--mode=Observe")
		g.Eventually(readyz(i)).Should(And(
			ContainSubstring("machinehealthcheck: off: Cluster API serves v1beta1 only, cluster.x-k8s.io/v1beta2 is needed"),
			ContainSubstring("mode: Observe")))
		g.Expect(i.Stop()).To(Equal(0))
		g.Expect(log.String()).To(ContainSubstring("upgrade its core provider"))
	})
	t.Run("with Cluster API", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(cp.InstallCRDObjects(clusterAPI(t, "v1beta1", "v1beta2")...)).To(Succeed())
		i, log := cp.StartManager(t)
		g.Eventually(readyz(i)).Should(ContainSubstring("machinehealthcheck: on"))
		g.Expect(i.Stop()).To(Equal(0))
		g.Expect(log.String()).ToNot(ContainSubstring("forbidden"))
	})
}

// installKinds installs the kinds of Remedy for one test.
func installKinds(t *testing.T, cp *testenv.Environment) {
	t.Helper()
	NewWithT(t).Expect(testenv.RemedyKinds(t.Context(), cp)).To(Succeed())
	t.Cleanup(func() { uninstallAll(t, cp) })
}

// uninstallAll deletes all definitions, and waits until the API server no longer serves them: other tests begin without Cluster API.
func uninstallAll(t *testing.T, cp *testenv.Environment) {
	t.Helper()
	g := NewWithT(t)
	served := discovery.NewDiscoveryClientForConfigOrDie(cp.Admin)
	g.Expect(cp.API.DeleteAllOf(context.Background(), &apiextensionsv1.CustomResourceDefinition{})).To(Succeed())
	g.Eventually(func() (string, error) {
		groups, err := served.ServerGroups()
		return fmt.Sprint(groups), err
	}).ShouldNot(ContainSubstring("cluster.x-k8s.io"))
}

// clusterAPI returns the definitions of Cluster API of the needed kinds, serving these versions only.
func clusterAPI(t *testing.T, served ...string) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	kinds := []string{"clusters", "machines", "machinesets", "machinedeployments", "machinehealthchecks"}
	crds := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(kinds))
	for _, kind := range kinds {
		crd, err := testenv.ClusterAPIKind(kind)
		NewWithT(t).Expect(err).ToNot(HaveOccurred())
		for n := range crd.Spec.Versions {
			crd.Spec.Versions[n].Served = slices.Contains(served, crd.Spec.Versions[n].Name)
		}
		crds = append(crds, crd)
	}
	return crds
}

func TestManager_Diagnostics_NeedPermission(t *testing.T) {
	g := NewWithT(t)
	cp := plane.Use(t)
	i, _ := cp.StartManager(t)
	g.Eventually(readyz(i)).Should(ContainSubstring("machinehealthcheck"))

	get := func(path, token string) func() int {
		return func() int {
			transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
			defer transport.CloseIdleConnections()
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+i.Diagnostics+path, http.NoBody)
			g.Expect(err).ToNot(HaveOccurred())
			if token != "" {
				request.Header.Set("Authorization", "Bearer "+token)
			}
			response, err := (&http.Client{Transport: transport}).Do(request)
			if err != nil {
				return 0
			}
			defer func() { _ = response.Body.Close() }()
			_, _ = io.Copy(io.Discard, response.Body)
			return response.StatusCode
		}
	}
	// Without a response, or with an internal error, nothing was decided about permissions.
	answer := func(path, token string) (status int) {
		g.Eventually(func() int {
			status = get(path, token)()
			return status
		}).ShouldNot(Or(BeZero(), Equal(http.StatusInternalServerError)))
		return status
	}
	stranger, monitoring := cp.Token(t, instance.Namespace, "stranger"), cp.Token(t, instance.Namespace, "monitoring")
	cp.Grant(t, controlplane.ServiceAccount(instance.Namespace, "monitoring"), "",
		rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}})

	g.Eventually(get("/metrics", "")).Should(Equal(http.StatusUnauthorized))
	g.Expect(answer("/metrics", stranger)).To(Equal(http.StatusForbidden))
	g.Eventually(get("/metrics", monitoring)).Should(Equal(http.StatusOK))
	g.Expect(answer("/debug/pprof/", monitoring)).To(Equal(http.StatusForbidden))
}

func TestManager_JSONAndProfilerFlags_AreFollowed(t *testing.T) {
	g := NewWithT(t)
	cp := plane.Use(t)
	port, err := controlplane.TakePort()
	g.Expect(err).ToNot(HaveOccurred())
	t.Cleanup(port.Release)
	i, log := cp.StartManager(t, "--logging-format=json", "--profiler-address="+port.Address(), "--contention-profiling")
	g.Eventually(readyz(i)).Should(ContainSubstring("machinehealthcheck"))
	g.Eventually(func() (int, error) {
		response, err := http.Get("http://" + port.Address() + "/debug/pprof/")
		if err != nil {
			return 0, err
		}
		return response.StatusCode, response.Body.Close()
	}).Should(Equal(http.StatusOK))
	g.Expect(i.Stop()).To(Equal(0))
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	g.Expect(len(lines)).To(BeNumerically(">", 3))
	for _, line := range lines {
		g.Expect(json.Valid([]byte(line))).To(BeTrue(), line)
	}
}

func TestManager_HungAPIServer_Stops(t *testing.T) {
	g := NewWithT(t)
	cp := plane.Use(t)
	installKinds(t, cp)
	i, log := cp.StartManager(t)
	g.Eventually(readyz(i)).Should(ContainSubstring("machinehealthcheck: off"))
	g.Expect(cp.Freeze()).To(Succeed())
	t.Cleanup(func() { g.Expect(cp.Thaw()).To(Succeed()) })
	late, lateLog := cp.StartManager(t)
	// A signal before the manager handles signals would kill the process.
	g.Eventually(lateLog.String).Should(ContainSubstring("Starting manager"))
	g.Expect(late.Stop()).To(Equal(0), "also one that has not come so far as to serve probes: %s", lateLog.String())
	g.Expect(i.Stop()).To(Equal(0), log.String())
}

func TestManager_InvalidFlags_AreExplained(t *testing.T) {
	tests := []struct {
		reason string
		args   []string
		code   int
		says   string
	}{
		{"a wrong value", []string{"--mode=Off"}, 2, "must be one of Enforce, Observe"},
		{
			"two wrong values, a line each",
			[]string{"--sync-period=0", "--kube-api-burst=0"},
			2,
			"manager: --kube-api-burst=0: must be at least 1\n",
		},
		{"a forgotten dash", []string{"mode=Observe"}, 2, `unexpected argument "mode=Observe"`},
		{"a log format that does not exist", []string{"--logging-format=xml"}, 2, "manager: --logging-format"},
		{"TLS that does not exist", []string{"--tls-min-version=TLS9"}, 2, "manager: --tls-min-version"},
		{"leader election without a namespace", []string{"--leader-elect"}, 2, "set the environment variable POD_NAMESPACE"},
		{"fencing without its gate", []string{"--controllers=fencing"}, 2, "set --feature-gates=NodeFencing=true"},
		{"no cluster", []string{"--kubeconfig=/does/not/exist"}, 1, "set --kubeconfig or KUBECONFIG"},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			g := NewWithT(t)
			cmd := exec.Command(testenv.ManagerBinary(t), test.args...)
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
			out, _ := cmd.CombinedOutput()
			g.Expect(cmd.ProcessState.ExitCode()).To(Equal(test.code), string(out))
			g.Expect(string(out)).To(ContainSubstring(test.says))
		})
	}
	t.Run("help succeeds", func(t *testing.T) {
		g := NewWithT(t)
		out, err := exec.Command(testenv.ManagerBinary(t), "--help").Output()
		g.Expect(err).ToNot(HaveOccurred())
		g.Expect(string(out)).To(ContainSubstring("--in-tree-machinehealthchecks"))
	})
}
