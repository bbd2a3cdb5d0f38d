// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package packaging proves that what a release consists of is what clusterctl, Cluster API's Tiltfile and a real API server expect.
// It is a module of its own, as clusterctl's library has many dependencies that the product does not need.
package packaging_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/config"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/repository"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/settings"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

const version = "v0.1.0"

// flavor is a way to install the same build.
type flavor struct {
	label, file  string
	providerType clusterctlv1.ProviderType
}

var (
	infrastructure = flavor{"infrastructure-remedy", "infrastructure-components.yaml", clusterctlv1.InfrastructureProviderType}
	addon          = flavor{"addon-remedy", "addon-components.yaml", clusterctlv1.AddonProviderType}
)

// release writes a release into clusterctl's layout of a local repository, once for all tests.
var release = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "remedy-release-")
	if err != nil {
		return "", err
	}
	testenv.AtEnd(func() { _ = os.RemoveAll(dir) })
	folder := filepath.Join(dir, "release")
	if out, err := exec.Command("../../hack/release.sh", folder, version).CombinedOutput(); err != nil {
		return "", fmt.Errorf("the release cannot be made: %w: %s", err, out)
	}
	return folder, nil
})

func releaseFolder(t *testing.T) string {
	t.Helper()
	folder, err := release()
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	return folder
}

func TestMain(m *testing.M) { testenv.Main(m) }

// open opens all files below paths of the checkout: the go command caches the result of a test by the files that the test opens, and does not see
// those that scripts and compilers open.
func open(t *testing.T, paths ...string) {
	t.Helper()
	g := NewWithT(t)
	for _, path := range paths {
		g.Expect(filepath.WalkDir(filepath.Join(root, path), func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			_, err = os.ReadFile(path)
			return err
		})).To(Succeed())
	}
}

// components returns what clusterctl makes of a release, with its own library.
func components(t *testing.T, f flavor, options repository.ComponentsOptions) repository.Components {
	t.Helper()
	g := NewWithT(t)
	open(t, "config", "hack/release.sh")
	client := repositoryClient(t, f)
	options.Version = version
	made, err := client.Components().Get(t.Context(), options)
	g.Expect(err).ToNot(HaveOccurred())
	return made
}

func repositoryClient(t *testing.T, f flavor) repository.Client {
	t.Helper()
	g := NewWithT(t)
	home := t.TempDir()
	// clusterctl looks nowhere else, and asks no network.
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", home)
	t.Setenv("GOPROXY", "off")
	t.Setenv("CLUSTERCTL_DISABLE_VERSIONCHECK", "true")
	folder := filepath.Join(home, f.label, version)
	g.Expect(os.MkdirAll(folder, 0o755)).To(Succeed())
	for _, file := range []string{f.file, "metadata.yaml"} {
		content, err := os.ReadFile(filepath.Join(releaseFolder(t), file))
		g.Expect(err).ToNot(HaveOccurred())
		g.Expect(os.WriteFile(filepath.Join(folder, file), content, 0o600)).To(Succeed())
	}
	file := filepath.Join(home, "clusterctl.yaml")
	g.Expect(os.WriteFile(file, fmt.Appendf(nil, "providers:\n- name: remedy\n  type: %s\n  url: %s\n", f.providerType, filepath.Join(folder, f.file)), 0o600)).To(Succeed())
	clusterctl, err := config.New(t.Context(), file)
	g.Expect(err).ToNot(HaveOccurred())
	provider, err := clusterctl.Providers().Get("remedy", f.providerType)
	g.Expect(err).ToNot(HaveOccurred())
	client, err := repository.New(t.Context(), provider, clusterctl)
	g.Expect(err).ToNot(HaveOccurred())
	return client
}

func ofKind(objects []unstructured.Unstructured, kind string) []unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(objects), func(o unstructured.Unstructured) bool { return o.GetKind() != kind })
}

func deployment(g Gomega, objects []unstructured.Unstructured) *appsv1.Deployment {
	found := ofKind(objects, "Deployment")
	g.Expect(found).To(HaveLen(1))
	d := &appsv1.Deployment{}
	g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(found[0].Object, d)).To(Succeed())
	return d
}

func TestComponents_BothProviders_FitClusterctl(t *testing.T) {
	for _, f := range []flavor{infrastructure, addon} {
		t.Run(f.label, func(t *testing.T) {
			g := NewWithT(t)
			made := components(t, f, repository.ComponentsOptions{})
			g.Expect(made.ManifestLabel()).To(Equal(f.label))
			g.Expect(made.TargetNamespace()).To(Equal("remedy-system"))
			g.Expect(made.Images()).To(ConsistOf(HaveSuffix("/cluster-api-provider-remedy:" + version)))
			g.Expect(ofKind(made.Objs(), "Namespace")).To(HaveLen(1))
			for _, object := range made.Objs() {
				where := object.GetKind() + " " + object.GetName()
				g.Expect(object.GetLabels()).To(HaveKeyWithValue("cluster.x-k8s.io/provider", f.label), where)
				g.Expect(object.GetKind()).ToNot(ContainSubstring("Webhook"), where)
				g.Expect(object.GetKind()).ToNot(Equal("Certificate"), where)
				g.Expect(object.GetKind()).ToNot(Equal("Secret"), where)
				if !namespaced[object.GetKind()] {
					g.Expect(object.GetName()).To(Or(HavePrefix("remedy-system-"), Equal("remedy-system"), HaveSuffix(".remedy.cluster.x-k8s.io")), where)
				}
			}
			d := deployment(g, made.Objs())
			g.Expect(d.Spec.Template.Labels).To(HaveKeyWithValue("cluster.x-k8s.io/provider", f.label))
			g.Expect(d.Spec.Template.Spec.Containers).To(HaveLen(1))
			g.Expect(d.Spec.Template.Spec.Containers[0].Name).To(Equal("manager"))
			crds := ofKind(made.Objs(), "CustomResourceDefinition")
			g.Expect(crds).To(HaveLen(2))
			for _, crd := range crds {
				g.Expect(crd.GetLabels()).To(HaveKeyWithValue("cluster.x-k8s.io/v1beta2", "v1alpha1"), "the contract")
				g.Expect(crd.GetLabels()).To(HaveKey("clusterctl.cluster.x-k8s.io"), "what clusterctl move looks for")
			}
		})
	}
}

var namespaced = map[string]bool{
	"Deployment": true, "ServiceAccount": true, "Role": true, "RoleBinding": true, "PodDisruptionBudget": true, "NetworkPolicy": true,
	"ResourceQuota": true,
}

func TestComponents_BothProviders_DifferByLabelOnly(t *testing.T) {
	g := NewWithT(t)
	one, err := os.ReadFile(filepath.Join(releaseFolder(t), infrastructure.file))
	g.Expect(err).ToNot(HaveOccurred())
	other, err := os.ReadFile(filepath.Join(releaseFolder(t), addon.file))
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(strings.ReplaceAll(string(other), addon.label, infrastructure.label)).To(Equal(string(one)))
	g.Expect(string(one)).ToNot(Equal(string(other)))
}

func TestMetadata_Contract_HasReleaseSeries(t *testing.T) {
	g := NewWithT(t)
	metadata, err := repositoryClient(t, infrastructure).Metadata(version).Get(t.Context())
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(metadata.GetReleaseSeriesForContract("v1beta2")).ToNot(BeNil())
	g.Expect(metadata.ReleaseSeries).ToNot(BeEmpty())
}

// variables are what a user can set in clusterctl.yaml or in the environment, with an example each, and the flag that it reaches; none for what the
// Deployment itself needs.
var variables = map[string]struct{ example, flag string }{
	"REMEDY_MODE":                        {"Observe", "--mode"},
	"REMEDY_IN_TREE_MACHINEHEALTHCHECKS": {"All", "--in-tree-machinehealthchecks"},
	"REMEDY_DIAGNOSTICS_ADDRESS":         {":9999", "--diagnostics-address"},
	"REMEDY_INSECURE_DIAGNOSTICS":        {"true", "--insecure-diagnostics"},
	"REMEDY_LOGGING_FORMAT":              {"json", "--logging-format"},
	"REMEDY_LOG_LEVEL":                   {"5", "--v"},
	"REMEDY_INSECURE_KUBECONFIGS":        {"Refuse", "--insecure-kubeconfigs"},
	"REMEDY_NAMESPACE":                   {"team-a", "--namespace"},
	"REMEDY_WATCH_FILTER":                {"blue", "--watch-filter"},
	"REMEDY_WARM_STANDBY":                {"true", "--feature-gates=WarmStandby"},
	"REMEDY_CPU_REQUEST":                 {"500m", ""},
	"REMEDY_MEMORY_REQUEST":              {"3Gi", ""},
	"REMEDY_MEMORY_LIMIT":                {"5Gi", ""},
	"REMEDY_GOMEMLIMIT":                  {"4608MiB", ""},
}

// arguments are the flags that the manager would be started with.
func arguments(t *testing.T) []string {
	t.Helper()
	return deployment(NewWithT(t), components(t, infrastructure, repository.ComponentsOptions{}).Objs()).Spec.Template.Spec.Containers[0].Args
}

// parse is what the manager makes of its arguments.
func parse(t *testing.T, args []string) *settings.Settings {
	t.Helper()
	g := NewWithT(t)
	t.Setenv("POD_NAMESPACE", "remedy-system")
	fs := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	s, err := settings.New(fs)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(fs.Parse(args)).To(Succeed())
	g.Expect(s.Validate()).To(Succeed())
	return s
}

func TestVariables_EachVariable_SetsItsFlag(t *testing.T) {
	g := NewWithT(t)
	made := components(t, infrastructure, repository.ComponentsOptions{})
	names := made.Variables()
	for name := range variables {
		g.Expect(names).To(ContainElement(name))
	}
	g.Expect(names).To(HaveLen(len(variables)), "a variable that is not in this test: %v", names)

	s := parse(t, arguments(t))
	g.Expect(s.Mode).To(Equal(settings.Enforce))
	g.Expect([]string{s.WatchNamespace, s.WatchFilter}).To(Equal([]string{"", ""}))
	g.Expect(s.InTreeChecks).To(Equal(settings.OptIn))
	g.Expect(s.LeaderElection.Enabled).To(BeTrue())
	g.Expect(s.Diagnostics.DiagnosticsAddress).To(Equal(":8443"))
	g.Expect(s.Diagnostics.InsecureDiagnostics).To(BeFalse())

	for name, v := range variables {
		t.Setenv(name, v.example)
	}
	args := arguments(t)
	for name, v := range variables {
		if v.flag != "" {
			g.Expect(args).To(ContainElement(v.flag+"="+v.example), name)
		}
	}
	manager := deployment(g, components(t, infrastructure, repository.ComponentsOptions{}).Objs()).Spec.Template.Spec.Containers[0]
	g.Expect([]string{
		manager.Resources.Requests.Cpu().String(), manager.Resources.Requests.Memory().String(), manager.Resources.Limits.Memory().String(),
	}).To(Equal([]string{"500m", "3Gi", "5Gi"}))
	g.Expect(manager.Env).To(ContainElement(corev1.EnvVar{Name: "GOMEMLIMIT", Value: "4608MiB"}))
	s = parse(t, args)
	g.Expect(s.Mode).To(Equal(settings.Observe))
	g.Expect([]string{s.WatchNamespace, s.WatchFilter}).To(Equal([]string{"team-a", "blue"}))
}

func TestComponents_TargetNamespace_IsUsedEverywhere(t *testing.T) {
	g := NewWithT(t)
	made := components(t, infrastructure, repository.ComponentsOptions{TargetNamespace: "elsewhere"})
	for _, object := range made.Objs() {
		if namespaced[object.GetKind()] {
			g.Expect(object.GetNamespace()).To(Equal("elsewhere"), object.GetName())
		}
		text, err := object.MarshalJSON()
		g.Expect(err).ToNot(HaveOccurred())
		g.Expect(string(text)).ToNot(ContainSubstring(`"namespace":"remedy-system"`), object.GetKind()+" "+object.GetName())
	}
}
