// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/instance"
)

// eventuallyTimeout is long for a busy machine. It does not measure how fast the manager is.
const eventuallyTimeout = 2 * time.Minute

func newGomega(t *testing.T) *WithT {
	t.Helper()
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(eventuallyTimeout)
	return g
}

var binary string

// plane is the control plane of all tests here, which do not run in parallel. No other package uses it, because the manager acts on all
// objects of a cluster, and because a test freezes the API server.
var plane *controlplane.ControlPlane

// startPlane starts it when the first test needs it.
var startPlane = sync.OnceValue(func() (err error) {
	ctx := context.Background()
	if plane, err = controlplane.Start(ctx); err != nil {
		return err
	}
	return instance.Grant(ctx, plane)
})

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "remedy-manager-")
	if err != nil {
		panic(err)
	}
	if binary, err = instance.Build(context.Background(), dir); err != nil {
		panic(err)
	}
	code := m.Run()
	if plane != nil {
		plane.Stop()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// output collects what a process prints, and can be read while it does.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func startControlPlane(t *testing.T) *controlplane.ControlPlane {
	t.Helper()
	NewWithT(t).Expect(startPlane()).To(Succeed())
	return plane
}

func start(t *testing.T, cp *controlplane.ControlPlane, args ...string) (*instance.Instance, *output) {
	t.Helper()
	log := &output{}
	i, err := instance.Start(binary, cp, log, args...)
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	t.Cleanup(func() {
		i.Kill()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return i, log
}

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
	cp := startControlPlane(t)
	t.Cleanup(func() { uninstallAll(t, cp) })

	t.Run("without the kinds of Remedy", func(t *testing.T) {
		g := newGomega(t)
		i, log := start(t, cp)
		g.Eventually(readyz(i)).Should(ContainSubstring("FAIL machinehealthcheck: the reconcilers cannot be set up; see the log"))
		g.Eventually(log.String).Should(ContainSubstring("machinehealthchecks and nodehealthchecks of " +
			"remedy.cluster.x-k8s.io/v1alpha1 are not served: apply the custom resource definitions of this release"))
		g.Expect(i.Stop()).To(Equal(0))
	})
	t.Run("without Cluster API", func(t *testing.T) {
		g := newGomega(t)
		g.Expect(cp.InstallCRDs(filepath.Join("config", "crd", "bases"))).To(Succeed())
		i, log := start(t, cp)
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
		g := newGomega(t)
		g.Expect(cp.InstallCRDObjects(clusterAPI(t, "v1beta1")...)).To(Succeed())
		i, log := start(t, cp, "--mode=Observe")
		g.Eventually(readyz(i)).Should(And(
			ContainSubstring("machinehealthcheck: off: Cluster API serves v1beta1 only, cluster.x-k8s.io/v1beta2 is needed"),
			ContainSubstring("mode: Observe")))
		g.Expect(i.Stop()).To(Equal(0))
		g.Expect(log.String()).To(ContainSubstring("upgrade its core provider"))
	})
	t.Run("with Cluster API", func(t *testing.T) {
		g := newGomega(t)
		g.Expect(cp.InstallCRDObjects(clusterAPI(t, "v1beta1", "v1beta2")...)).To(Succeed())
		i, log := start(t, cp)
		g.Eventually(readyz(i)).Should(ContainSubstring("machinehealthcheck: on"))
		g.Expect(i.Stop()).To(Equal(0))
		g.Expect(log.String()).ToNot(ContainSubstring("forbidden"))
	})
}

// installKinds installs the kinds of Remedy for one test.
func installKinds(t *testing.T, cp *controlplane.ControlPlane) {
	t.Helper()
	NewWithT(t).Expect(cp.InstallCRDs(filepath.Join("config", "crd", "bases"))).To(Succeed())
	t.Cleanup(func() { uninstallAll(t, cp) })
}

// uninstallAll deletes all definitions, and waits until the API server no longer serves them: other tests begin without Cluster API.
func uninstallAll(t *testing.T, cp *controlplane.ControlPlane) {
	t.Helper()
	g := newGomega(t)
	ctx := context.Background()
	c, err := cp.Client()
	g.Expect(err).ToNot(HaveOccurred())
	served := discovery.NewDiscoveryClientForConfigOrDie(cp.Admin)
	g.Expect(c.DeleteAllOf(ctx, &apiextensionsv1.CustomResourceDefinition{})).To(Succeed())
	g.Eventually(func() (string, error) {
		groups, err := served.ServerGroups()
		return fmt.Sprint(groups), err
	}).ShouldNot(ContainSubstring("cluster.x-k8s.io"))
}

// clusterAPI returns the definitions of Cluster API of the needed kinds, serving these versions only.
func clusterAPI(t *testing.T, served ...string) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	g := NewWithT(t)
	dir, err := controlplane.ClusterAPICRDs(t.Context())
	g.Expect(err).ToNot(HaveOccurred())
	kinds := []string{"clusters", "machines", "machinesets", "machinedeployments", "machinehealthchecks"}
	crds := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(kinds))
	for _, kind := range kinds {
		content, err := os.ReadFile(filepath.Join(dir, "cluster.x-k8s.io_"+kind+".yaml"))
		g.Expect(err).ToNot(HaveOccurred())
		crd := &apiextensionsv1.CustomResourceDefinition{}
		g.Expect(yaml.UnmarshalStrict(content, crd)).To(Succeed())
		for n := range crd.Spec.Versions {
			crd.Spec.Versions[n].Served = slices.Contains(served, crd.Spec.Versions[n].Name)
		}
		crds = append(crds, crd)
	}
	return crds
}

func TestManager_LeaderStops_ReleasesLease(t *testing.T) {
	g := newGomega(t)
	cp := startControlPlane(t)
	c, err := cp.Client()
	g.Expect(err).ToNot(HaveOccurred())
	lease := func() *coordinationv1.Lease {
		lease := &coordinationv1.Lease{}
		key := client.ObjectKey{Namespace: instance.Namespace, Name: "controller-leader-election-remedy"}
		g.Expect(client.IgnoreNotFound(c.Get(t.Context(), key, lease))).To(Succeed())
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
	elect := []string{"--leader-elect", "--leader-elect-lease-duration=1h", "--leader-elect-renew-deadline=50m"}
	first, _ := start(t, cp, elect...)
	g.Eventually(readyz(first)).Should(ContainSubstring("this instance leads"))
	second, log := start(t, cp, elect...)
	g.Eventually(readyz(second)).Should(And(ContainSubstring("on standby, "), ContainSubstring(holder()+" leads")))

	renewed()
	g.Expect(first.Stop()).To(Equal(0))
	g.Eventually(readyz(second)).Should(ContainSubstring("this instance leads"))
	renewed()
	g.Expect(second.Stop()).To(Equal(0))
	g.Expect(holder()).To(BeEmpty(), "an instance that stops releases the Lease, so no other one waits until it expires")
	g.Expect(log.String()).ToNot(ContainSubstring("forbidden"))
}

func TestManager_Diagnostics_NeedPermission(t *testing.T) {
	g := newGomega(t)
	cp := startControlPlane(t)
	i, _ := start(t, cp)
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
	_, stranger := token(t, cp)
	account, monitoring := token(t, cp)
	c, err := cp.Client()
	g.Expect(err).ToNot(HaveOccurred())
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "monitoring-"},
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
	}
	g.Expect(c.Create(t.Context(), role)).To(Succeed())
	g.Expect(c.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: account.Namespace, Name: account.Name}},
	})).To(Succeed())

	g.Eventually(get("/metrics", "")).Should(Equal(http.StatusUnauthorized))
	g.Expect(answer("/metrics", stranger)).To(Equal(http.StatusForbidden))
	g.Eventually(get("/metrics", monitoring)).Should(Equal(http.StatusOK))
	g.Expect(answer("/debug/pprof/", monitoring)).To(Equal(http.StatusForbidden))
}

// token makes a ServiceAccount and returns it with a token.
func token(t *testing.T, cp *controlplane.ControlPlane) (*corev1.ServiceAccount, string) {
	t.Helper()
	g := NewWithT(t)
	c, err := cp.Client()
	g.Expect(err).ToNot(HaveOccurred())
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: instance.Namespace, GenerateName: "client-"}}
	g.Expect(c.Create(t.Context(), account)).To(Succeed())
	request := &authenticationv1.TokenRequest{}
	g.Expect(c.SubResource("token").Create(t.Context(), account, request)).To(Succeed())
	return account, request.Status.Token
}

func TestManager_JSONAndProfilerFlags_AreFollowed(t *testing.T) {
	g := newGomega(t)
	cp := startControlPlane(t)
	port, err := controlplane.TakePort()
	g.Expect(err).ToNot(HaveOccurred())
	t.Cleanup(port.Release)
	i, log := start(t, cp, "--logging-format=json", "--profiler-address="+port.Address(), "--contention-profiling")
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

func TestManager_UnreadableLease_IsNotReady(t *testing.T) {
	g := newGomega(t)
	cp := startControlPlane(t)
	installKinds(t, cp)
	// It has permissions on Leases in its own namespace, and reads those of kubelets.
	t.Setenv("POD_NAMESPACE", "default")
	forbidLeases(t, cp)
	i, log := start(t, cp, "--leader-elect")
	g.Eventually(readyz(i)).Should(And(HavePrefix("not ready: 503"),
		ContainSubstring("FAIL leader: on standby, and the Lease cannot be read; see the log"), Not(ContainSubstring("forbidden"))))
	g.Eventually(log.String).Should(ContainSubstring("forbidden"))
}

// forbidLeases removes the permission to read Leases of all namespaces for one test.
func forbidLeases(t *testing.T, cp *controlplane.ControlPlane) {
	t.Helper()
	g := NewWithT(t)
	c, err := cp.Client()
	g.Expect(err).ToNot(HaveOccurred())
	role := &rbacv1.ClusterRole{}
	g.Expect(c.Get(t.Context(), client.ObjectKey{Name: "remedy-system-manager"}, role)).To(Succeed())
	before := role.DeepCopy()
	role.Rules = slices.DeleteFunc(role.Rules, func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.Resources, "leases") })
	g.Expect(c.Update(t.Context(), role)).To(Succeed())
	t.Cleanup(func() {
		before.ResourceVersion = role.ResourceVersion
		g.Expect(c.Update(context.Background(), before)).To(Succeed())
	})
}

func TestManager_HungAPIServer_Stops(t *testing.T) {
	g := newGomega(t)
	cp := startControlPlane(t)
	installKinds(t, cp)
	i, log := start(t, cp)
	g.Eventually(readyz(i)).Should(ContainSubstring("machinehealthcheck: off"))
	g.Expect(cp.Freeze()).To(Succeed())
	t.Cleanup(func() { g.Expect(cp.Thaw()).To(Succeed()) })
	late, lateLog := start(t, cp)
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
		{"no cluster", []string{"--kubeconfig=/does/not/exist"}, 1, "set --kubeconfig or KUBECONFIG"},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			g := NewWithT(t)
			cmd := exec.Command(binary, test.args...)
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
			out, _ := cmd.CombinedOutput()
			g.Expect(cmd.ProcessState.ExitCode()).To(Equal(test.code), string(out))
			g.Expect(string(out)).To(ContainSubstring(test.says))
		})
	}
	t.Run("help succeeds", func(t *testing.T) {
		g := NewWithT(t)
		out, err := exec.Command(binary, "--help").Output()
		g.Expect(err).ToNot(HaveOccurred())
		g.Expect(string(out)).To(ContainSubstring("--in-tree-machinehealthchecks"))
	})
}
