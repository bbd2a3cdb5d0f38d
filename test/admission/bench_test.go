// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/manifests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// policies is what a cluster has by default, denyPolicies the same with the component that denies the requests for which policies only warns.
const (
	policies     = "../../config/policy"
	denyPolicies = "testdata/deny"
)

// bench is a control plane with the definitions of this project, those of Cluster API, and policies. It belongs to this package alone,
// because policies apply to every object in a cluster. Its tests run one after the other, and each of them finds no objects of the one
// before.
type bench struct {
	*testenv.Environment
	// users is how many users there have been.
	users int
	// auditedBefore is the length of the audit log when the test began.
	auditedBefore int
}

var startedBench = &bench{Environment: testenv.New(
	testenv.RemedyKinds, testenv.ClusterAPIKinds("machines", "clusters"), installCoreChecks, testenv.Kustomization(policies), installFencing,
)}

// policyBench is the bench, without objects, until the end of the test.
func policyBench(t *testing.T) *bench {
	t.Helper()
	g := NewWithT(t)
	startedBench.Use(t)
	t.Cleanup(func() {
		startedBench.DeleteAll(t, cluster+"/v1beta2 Machine", cluster+"/v1beta2 MachineHealthCheck",
			checks+"/v1alpha1 MachineHealthCheck", checks+"/v1alpha1 NodeHealthCheck", "v1 Node")
	})
	text, err := os.ReadFile(startedBench.AuditLog)
	g.Expect(err).ToNot(HaveOccurred())
	startedBench.auditedBefore = len(text)
	return startedBench
}

// deny applies the component that denies requests instead of warning of them, until the end of the test.
func (b *bench) deny(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	ctx := context.Background()
	editor, _ := b.may(t, "denied", to("create", cluster, "machines"))
	marked := patched(g, machine("denied"), byHand)
	until := func(outcome types.GomegaMatcher) {
		g.Eventually(func() error { return tryCreate(ctx, editor, marked) }).Should(outcome)
	}
	t.Cleanup(func() {
		g.Expect(testenv.Kustomization(policies)(ctx, b.Environment)).To(Succeed())
		until(Succeed())
	})
	g.Expect(testenv.Kustomization(denyPolicies)(ctx, b.Environment)).To(Succeed())
	until(MatchError(ContainSubstring(notAllowedToDelete)))
}

// audited returns the audit log since the start of the test.
func (b *bench) audited() (string, error) {
	text, err := os.ReadFile(b.AuditLog)
	return string(text[min(len(text), b.auditedBefore):]), err
}

// withoutPolicy deletes the binding of a policy until an attempt that it denies succeeds, and creates it again.
func (b *bench) withoutPolicy(t *testing.T, name string, attempt func() error) {
	t.Helper()
	g := NewWithT(t)
	binding := &unstructured.Unstructured{}
	binding.SetAPIVersion("admissionregistration.k8s.io/v1")
	binding.SetKind("ValidatingAdmissionPolicyBinding")
	g.Expect(b.API.Get(t.Context(), client.ObjectKey{Name: name}, binding)).To(Succeed())
	free := client.RawPatch(apitypes.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`))
	g.Expect(b.API.Patch(t.Context(), binding.DeepCopy(), free)).To(Succeed())
	g.Expect(b.API.Delete(t.Context(), binding)).To(Succeed())
	g.Eventually(attempt).Should(Succeed())
	binding.SetResourceVersion("")
	binding.SetUID("")
	g.Expect(b.API.Create(t.Context(), binding)).To(Succeed())
}

// userName returns a name that no test has used. A ServiceAccount gets a namespace of its own.
func (b *bench) userName(name string) string {
	b.users++
	if account, is := strings.CutPrefix(name, serviceAccounts); is {
		return fmt.Sprintf("%suser-%d-%s", serviceAccounts, b.users, account)
	}
	return fmt.Sprintf("user-%d-%s", b.users, name)
}

const serviceAccounts = "system:serviceaccount:"

// may creates a user with exactly these permissions in all namespaces, and waits until the API server grants them. The name of the user is
// new, because the API server grants deleted permissions for a moment.
func (b *bench) may(t *testing.T, name string, rules ...rbacv1.PolicyRule) (client.Client, *warnings) {
	t.Helper()
	return b.bound(t, name, nil, rules...)
}

// manager is a ServiceAccount with all permissions and the labels that config/rbac gives to the manager's ClusterRoleBinding. A binding from
// which an administrator has removed the subjects must not change what others may do.
func (b *bench) manager(t *testing.T) client.Client {
	t.Helper()
	g := NewWithT(t)
	objects, err := manifests.Read("../../config/rbac/role_binding.yaml")
	g.Expect(err).ToNot(HaveOccurred())
	at := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "ClusterRoleBinding" && o.GetName() == "remedy-system-manager"
	})
	b.CreateUntilEnd(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: b.userName("without-subjects"), Labels: objects[at].GetLabels()},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
	})
	c, _ := b.bound(t, serviceAccounts+"elsewhere:renamed", objects[at].GetLabels(), to("*", "*", "*"))
	return c
}

func (b *bench) bound(t *testing.T, name string, labels map[string]string, rules ...rbacv1.PolicyRule) (client.Client, *warnings) {
	t.Helper()
	g := NewWithT(t)
	name = b.userName(name)
	role := strings.ReplaceAll(name, ":", "-")
	b.CreateUntilEnd(t, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role}, Rules: rules})
	subject := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}
	if account, is := strings.CutPrefix(name, serviceAccounts); is {
		subject = rbacv1.Subject{Kind: "ServiceAccount"}
		subject.Namespace, subject.Name, _ = strings.Cut(account, ":")
	}
	b.CreateUntilEnd(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role, Labels: labels},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{subject},
	})
	g.Expect(b.UntilAllowed(t.Context(), metav1.NamespaceDefault, name, &rules[0], true)).To(Succeed())
	config := b.ConfigOf(t, controlplane.User{Name: name})
	warned := &warnings{}
	config.WarningHandler = warned
	return testenv.NewClient(t, config), warned
}
