// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/repository"
	utilyaml "sigs.k8s.io/cluster-api/util/yaml"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/settings"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// fencingComponents returns the objects of fencing-components.yaml.
func fencingComponents(t *testing.T) []unstructured.Unstructured {
	t.Helper()
	g := NewWithT(t)
	open(t, "config", "hack/release.sh")
	content, err := os.ReadFile(filepath.Join(releaseFolder(t), "fencing-components.yaml"))
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(string(content)).ToNot(ContainSubstring("${"), "kubectl replaces no variables")
	objects, err := utilyaml.ToUnstructured(content)
	g.Expect(err).ToNot(HaveOccurred())
	return objects
}

// The file can be applied after that of a provider, and deleted without it. clusterctl delete finds its objects.
func TestFencing_Components_AreSeparate(t *testing.T) {
	g := NewWithT(t)
	id := func(o unstructured.Unstructured) string { return o.GetKind() + " " + o.GetName() }
	others := components(t, infrastructure, repository.ComponentsOptions{}).Objs()
	stable := make([]string, 0, len(others))
	for _, o := range others {
		stable = append(stable, id(o))
	}
	for _, o := range fencingComponents(t) {
		g.Expect(stable).ToNot(ContainElement(id(o)))
		g.Expect(o.GetKind()).ToNot(Or(Equal("Namespace"), Equal("Secret"), ContainSubstring("Webhook")))
		g.Expect(o.GetLabels()).To(HaveKeyWithValue("cluster.x-k8s.io/provider", infrastructure.label), id(o))
		if namespaced[o.GetKind()] {
			g.Expect(o.GetNamespace()).To(Equal("remedy-system"), id(o))
		} else {
			g.Expect(o.GetName()).To(Or(HavePrefix("remedy-system-"), HaveSuffix(".remedy.cluster.x-k8s.io")), id(o))
		}
	}
	definitions := ofKind(fencingComponents(t), "CustomResourceDefinition")
	crds := make([]string, 0, len(definitions))
	for _, crd := range definitions {
		crds = append(crds, strings.TrimSuffix(crd.GetName(), ".remedy.cluster.x-k8s.io"))
		g.Expect(crd.GetLabels()).To(And(HaveKeyWithValue("cluster.x-k8s.io/v1beta2", "v1alpha1"), HaveKey("clusterctl.cluster.x-k8s.io")))
	}
	g.Expect(crds).To(ConsistOf("fenceprofiles", "nodefences", "nodefencetemplates", "noderemedies"))
}

func TestFencing_Deployment_RunsFencingManager(t *testing.T) {
	g := NewWithT(t)
	objects := fencingComponents(t)
	d, stable := deployment(g, objects), deployment(g, components(t, infrastructure, repository.ComponentsOptions{}).Objs())
	container := d.Spec.Template.Spec.Containers[0]
	g.Expect(container.Image).To(Equal(stable.Spec.Template.Spec.Containers[0].Image))
	g.Expect(d.Spec.Replicas).To(HaveValue(BeEquivalentTo(2)))
	g.Expect(d.Spec.Template.Labels).To(HaveKeyWithValue("app.kubernetes.io/component", "fencing-manager"))
	g.Expect(d.Spec.Template.Labels).To(HaveKeyWithValue("control-plane", d.Name))
	g.Expect(d.Spec.Selector.MatchLabels).ToNot(Equal(stable.Spec.Selector.MatchLabels))
	g.Expect(d.Spec.Template.Spec.ServiceAccountName).To(Equal("remedy-fencing-manager"))
	budgets := ofKind(objects, "PodDisruptionBudget")
	g.Expect(budgets).To(HaveLen(1))
	selected, _, err := unstructured.NestedStringMap(budgets[0].Object, "spec", "selector", "matchLabels")
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(selected).To(Equal(d.Spec.Selector.MatchLabels))

	s := parse(t, container.Args)
	g.Expect(s.Controllers).To(Equal(settings.Fencing))
	g.Expect(s.LeaderElection.Enabled).To(BeTrue())
	g.Expect(s.LeaseName()).To(Equal("controller-leader-election-remedy-fencing"))
	g.Expect(s.OwnNodesNamespace).To(Equal("remedy-system"), "the namespace of the Deployment")
	g.Expect(s.Mode).To(Equal(settings.Enforce))
	g.Expect(parse(t, arguments(t)).Controllers).To(Equal(settings.Checks))
}

// rulesOf returns the rules of the roles that a ServiceAccount is bound to, one text for each resource.
func rulesOf(t *testing.T, objects []unstructured.Unstructured, account string) (rules []string) {
	t.Helper()
	g := NewWithT(t)
	roles := map[string][]rbacv1.PolicyRule{}
	for _, o := range slices.Concat(ofKind(objects, "ClusterRole"), ofKind(objects, "Role")) {
		role := rbacv1.Role{}
		g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role)).To(Succeed())
		roles[role.Kind+" "+role.Name] = role.Rules
	}
	for _, o := range slices.Concat(ofKind(objects, "ClusterRoleBinding"), ofKind(objects, "RoleBinding")) {
		binding := rbacv1.RoleBinding{}
		g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &binding)).To(Succeed())
		if !slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool { return s.Name == account }) {
			continue
		}
		for _, rule := range roles[binding.RoleRef.Kind+" "+binding.RoleRef.Name] {
			g.Expect(slices.Concat(rule.ResourceNames, rule.NonResourceURLs)).To(BeEmpty())
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					rules = append(rules, binding.RoleRef.Kind+": "+strings.TrimPrefix(group+"/"+resource, "/")+" "+strings.Join(slices.Sorted(slices.Values(rule.Verbs)), ","))
				}
			}
		}
	}
	return rules
}

// The fencing manager needs kubeconfigs, so it can get Secrets. It lists none, and changes no roles. Of Pods it can only remove them. It writes
// what is generated from NodeRemedies, and a check can only be written with permission to create its requests.
func TestFencing_Permissions_AreExact(t *testing.T) {
	g := NewWithT(t)
	g.Expect(rulesOf(t, fencingComponents(t), "remedy-fencing-manager")).To(ConsistOf(
		"ClusterRole: remedy.cluster.x-k8s.io/nodefences create,delete,get,list,patch,watch",
		"ClusterRole: remedy.cluster.x-k8s.io/nodefences/status update",
		"ClusterRole: remedy.cluster.x-k8s.io/noderemedies get,list,patch,watch",
		"ClusterRole: remedy.cluster.x-k8s.io/noderemedies/status update",
		"ClusterRole: remedy.cluster.x-k8s.io/nodehealthchecks create,delete,get,list,patch,watch",
		"ClusterRole: remedy.cluster.x-k8s.io/nodefencetemplates create,delete,get,list,patch,watch",
		"ClusterRole: remedy.cluster.x-k8s.io/fenceprofiles create,delete,get,list,patch,watch",
		"ClusterRole: remedy.cluster.x-k8s.io/fenceprofiles/status update",
		"ClusterRole: batch/jobs create,delete,get,list,watch",
		"ClusterRole: pods delete,list",
		"ClusterRole: pods/eviction create",
		"ClusterRole: persistentvolumeclaims get",
		"ClusterRole: storage.k8s.io/volumeattachments list",
		"ClusterRole: nodes get,list,patch",
		"ClusterRole: secrets get",
		"ClusterRole: cluster.x-k8s.io/clusters get,list,watch",
		"ClusterRole: cluster.x-k8s.io/machines get,list",
		"ClusterRole: events create,patch",
		"ClusterRole: events.k8s.io/events create",
		"ClusterRole: authentication.k8s.io/tokenreviews create",
		"ClusterRole: authorization.k8s.io/subjectaccessreviews create",
		"Role: coordination.k8s.io/leases create,get,update",
	))
}

// Without fencing-components.yaml, the manager of checks has no permission for fences. With it, it can create NodeFences.
func TestFencing_ManagerOfChecks_OnlyCreatesFences(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile(filepath.Join(releaseFolder(t), infrastructure.file))
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(string(content)).ToNot(Or(ContainSubstring("nodefence"), ContainSubstring("fenceprofile"), ContainSubstring("batch")))

	found := ofKind(fencingComponents(t), "ClusterRole")
	roles := make([]rbacv1.ClusterRole, 0, len(found))
	for _, o := range found {
		role := rbacv1.ClusterRole{}
		strict(t, &o, &role)
		roles = append(roles, role)
	}
	fences := rbacv1.PolicyRule{
		APIGroups: []string{"remedy.cluster.x-k8s.io"}, Resources: []string{"nodefences"},
		Verbs: []string{"get", "list", "watch", "create", "patch", "delete"},
	}
	templates := rbacv1.PolicyRule{
		APIGroups: []string{"remedy.cluster.x-k8s.io"}, Resources: []string{"nodefencetemplates"}, Verbs: []string{"get", "list", "watch"},
	}
	g.Expect(aggregated(t, roles)).To(ConsistOf(append(aggregated(t, nil), fences, templates)))

	byLabel := map[string][]string{}
	for _, role := range roles {
		for label, value := range role.Labels {
			if strings.Contains(label, "aggregate-to") {
				g.Expect(value).To(Equal("true"))
				byLabel[label] = append(byLabel[label], role.Name)
			}
		}
	}
	g.Expect(byLabel).To(Equal(map[string][]string{
		"remedy.cluster.x-k8s.io/aggregate-to-manager":      {"remedy-system-fencing-requests"},
		"cluster.x-k8s.io/aggregate-to-manager":             {"remedy-system-fencing-requests-of-others"},
		"rbac.ext-remediation/aggregate-to-ext-remediation": {"remedy-system-fencing-requests-of-others"},
		"rbac.authorization.k8s.io/aggregate-to-view":       {"remedy-system-fencing-view"},
	}))
}

// The command of docs/install.md is run after that for the manager of checks.
func TestInstallPage_FencingCommand_InstallsComponents(t *testing.T) {
	g := NewWithT(t)
	docs, err := os.ReadFile(filepath.Join(root, "docs", "install.md"))
	g.Expect(err).ToNot(HaveOccurred())
	command := regexp.MustCompile(`(?m)^sed -E .* out/fencing-components.yaml \| kubectl apply --server-side -f -$`).FindString(string(docs))
	g.Expect(command).ToNot(BeEmpty())
	cp := testenv.Start(t)
	dir := t.TempDir()
	g.Expect(os.Symlink(releaseFolder(t), filepath.Join(dir, "out"))).To(Succeed())
	g.Expect(os.Symlink(cp.Kubectl, filepath.Join(dir, "kubectl"))).To(Succeed())
	for _, command := range []string{"kubectl create namespace remedy-system", command} {
		cmd := exec.Command("/bin/sh", "-c", command)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "KUBECONFIG="+cp.Kubeconfig(t), "PATH="+dir+":"+os.Getenv("PATH"), "image=registry.example.com/remedy:v0.1.0")
		out, err := cmd.CombinedOutput()
		g.Expect(err).ToNot(HaveOccurred(), string(out))
		g.Expect(string(out)).ToNot(ContainSubstring("Warning"))
	}
	out, err := exec.Command(cp.Kubectl, "--kubeconfig", cp.Kubeconfig(t), "get", "deployment", "remedy-fencing-controller-manager", "-n", "remedy-system",
		"-o", "jsonpath={.spec.template.spec.containers[0].image}").CombinedOutput()
	g.Expect(err).ToNot(HaveOccurred(), string(out))
	g.Expect(string(out)).To(Equal("registry.example.com/remedy:v0.1.0"))
}
