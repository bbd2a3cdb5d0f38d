// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/manifests"
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
	*controlplane.ControlPlane
	admin client.Client
	// conversion converts Cluster API's checks between its versions.
	conversion *httptest.Server
	// users is how many users there have been.
	users int
	// auditedBefore is the length of the audit log when the test began.
	auditedBefore int
}

var (
	startedBench *bench
	// startBench starts it when the first test needs it.
	startBench = sync.OnceValue(func() error {
		ctx := context.Background()
		plane, err := controlplane.Start(ctx)
		if err != nil {
			return err
		}
		startedBench = &bench{ControlPlane: plane}
		crds, err := controlplane.ClusterAPICRDs(ctx)
		if err != nil {
			return err
		}
		if err = plane.InstallCRDs(crdFolder, filepath.Join(crds, "cluster.x-k8s.io_machines.yaml"), filepath.Join(crds, "cluster.x-k8s.io_clusters.yaml")); err != nil {
			return err
		}
		if startedBench.conversion, err = installCoreChecks(plane, filepath.Join(crds, "cluster.x-k8s.io_machinehealthchecks.yaml")); err != nil {
			return err
		}
		if startedBench.admin, err = plane.Client(); err != nil {
			return err
		}
		return startedBench.apply(ctx, policies)
	})
)

// stopBench stops what startBench has started, if anything.
func stopBench() {
	if startedBench == nil {
		return
	}
	startedBench.Stop()
	if startedBench.conversion != nil {
		startedBench.conversion.Close()
	}
}

// policyBench is the bench, without objects, until the end of the test.
func policyBench(t *testing.T) *bench {
	t.Helper()
	g := NewWithT(t)
	g.Expect(startBench()).To(Succeed())
	t.Cleanup(func() { g.Expect(startedBench.clear(context.Background())).To(Succeed()) })
	text, err := os.ReadFile(startedBench.AuditLog)
	g.Expect(err).ToNot(HaveOccurred())
	startedBench.auditedBefore = len(text)
	return startedBench
}

// apply applies the policies of a kustomization.
func (b *bench) apply(ctx context.Context, kustomization string) error {
	objects, err := manifests.Render(ctx, b.Kubectl, "../../config", kustomization)
	for _, object := range objects {
		if err == nil {
			err = b.admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("test"), client.ForceOwnership)
		}
	}
	return err
}

// deny applies the component that denies requests instead of warning of them, until the end of the test.
func (b *bench) deny(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	ctx := context.Background()
	editor, _ := b.may(t, "denied", to("create", cluster, "machines"))
	marked := patched(g, machine("denied"), byHand)
	until := func(outcome types.GomegaMatcher) {
		g.Eventually(func() error { return tryCreate(ctx, editor, marked) }, patience, 50*time.Millisecond).Should(outcome)
	}
	t.Cleanup(func() {
		g.Expect(b.apply(ctx, policies)).To(Succeed())
		until(Succeed())
	})
	g.Expect(b.apply(ctx, denyPolicies)).To(Succeed())
	until(MatchError(ContainSubstring(notAllowedToDelete)))
}

// clear deletes what a test has created.
func (b *bench) clear(ctx context.Context) error {
	for _, kind := range []string{"Machine", "MachineHealthCheck"} {
		if err := b.clearKind(ctx, cluster+"/v1beta2", kind, client.InNamespace(metav1.NamespaceDefault)); err != nil {
			return err
		}
	}
	if err := b.clearKind(ctx, checks+"/v1alpha1", "MachineHealthCheck", client.InNamespace(metav1.NamespaceDefault)); err != nil {
		return err
	}
	if err := b.clearKind(ctx, checks+"/v1alpha1", "NodeHealthCheck"); err != nil {
		return err
	}
	return b.clearKind(ctx, "v1", "Node")
}

func (b *bench) clearKind(ctx context.Context, apiVersion, kind string, options ...client.DeleteAllOfOption) error {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(apiVersion)
	object.SetKind(kind)
	return b.admin.DeleteAllOf(ctx, object, options...)
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
	g.Expect(b.admin.Get(t.Context(), client.ObjectKey{Name: name}, binding)).To(Succeed())
	g.Expect(b.admin.Delete(t.Context(), binding)).To(Succeed())
	g.Eventually(attempt, patience, 50*time.Millisecond).Should(Succeed())
	binding.SetResourceVersion("")
	binding.SetUID("")
	g.Expect(b.admin.Create(t.Context(), binding)).To(Succeed())
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
	createUntilEnd(t, b.admin, &rbacv1.ClusterRoleBinding{
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
	createUntilEnd(t, b.admin, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role}, Rules: rules})
	subject := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}
	if account, is := strings.CutPrefix(name, serviceAccounts); is {
		subject = rbacv1.Subject{Kind: "ServiceAccount"}
		subject.Namespace, subject.Name, _ = strings.Cut(account, ":")
	}
	createUntilEnd(t, b.admin, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role, Labels: labels},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{subject},
	})
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: name, ResourceAttributes: &authorizationv1.ResourceAttributes{
		Namespace: "default", Verb: rules[0].Verbs[0], Group: rules[0].APIGroups[0], Resource: rules[0].Resources[0],
	}}}
	g.Eventually(func() (bool, error) {
		asked := review.DeepCopy()
		err := b.admin.Create(t.Context(), asked)
		return asked.Status.Allowed, err
	}, patience, 50*time.Millisecond).Should(BeTrue())
	config, err := b.Config(controlplane.User{Name: name})
	g.Expect(err).ToNot(HaveOccurred())
	warned := &warnings{}
	config.WarningHandler = warned
	c, err := client.New(config, client.Options{})
	g.Expect(err).ToNot(HaveOccurred())
	return c, warned
}
