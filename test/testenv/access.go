// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/instance"
)

// Scheme has the kinds that tests read and write.
var Scheme = NewScheme()

// Manager is the user of the manager.
var Manager = controlplane.ServiceAccount(instance.Namespace, instance.ServiceAccount)

// NewScheme returns a scheme for a test that adds kinds.
func NewScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, clusterv1.AddToScheme, remedyv1.AddToScheme,
	} {
		utilruntime.Must(add(s))
	}
	return s
}

// NewClient returns a client with the kinds of Scheme, and discovery of its own.
func NewClient(t testing.TB, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: Scheme})
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	return c
}

// ConfigOf returns how a user reaches the API server.
func (e *Environment) ConfigOf(t testing.TB, user controlplane.User) *rest.Config {
	t.Helper()
	config, err := e.Config(user)
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	return config
}

// As returns a client with the permissions of a user.
func (e *Environment) As(t testing.TB, user controlplane.User) client.Client {
	t.Helper()
	return NewClient(t, e.ConfigOf(t, user))
}

// Kubeconfig returns a file with which kubectl may do everything.
func (e *Environment) Kubeconfig(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	NewWithT(t).Expect(e.WriteKubeconfig(controlplane.User{Name: "admin", Groups: []string{"system:masters"}}, file)).To(Succeed())
	return file
}

// Namespace creates a namespace with a name of its own.
func (e *Environment) Namespace(t testing.TB) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "team-"}}
	NewWithT(t).Expect(e.API.Create(t.Context(), namespace)).To(Succeed())
	return namespace.Name
}

// CreateUntilEnd creates objects, and deletes those that still exist at the end of the test: other tests use the same API server.
func (e *Environment) CreateUntilEnd(t testing.TB, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		NewWithT(t).Expect(e.API.Create(t.Context(), object)).To(Succeed())
		t.Cleanup(func() {
			NewWithT(t).Expect(client.IgnoreNotFound(e.API.Delete(context.Background(), object, client.GracePeriodSeconds(0)))).To(Succeed())
		})
	}
}

// DeleteAll deletes all objects of kinds without waiting for their finalizers. An entry is an apiVersion and a kind.
func (e *Environment) DeleteAll(t testing.TB, kinds ...string) {
	t.Helper()
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		apiVersion, name, _ := strings.Cut(kind, " ")
		list.SetAPIVersion(apiVersion)
		list.SetKind(name + "List")
		NewWithT(t).Expect(e.API.List(context.Background(), list)).To(Succeed())
		for i := range list.Items {
			free := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`))
			NewWithT(t).Expect(client.IgnoreNotFound(e.API.Patch(context.Background(), &list.Items[i], free))).To(Succeed())
			NewWithT(t).Expect(client.IgnoreNotFound(e.API.Delete(context.Background(), &list.Items[i]))).To(Succeed())
		}
	}
}

// Grant gives a user permissions by a new ClusterRole, in one namespace or, if that is empty, in all. It returns when the API server
// applies them. The name of the ClusterRole is new, too: the API server grants deleted permissions for a moment.
func (e *Environment) Grant(t testing.TB, user controlplane.User, namespace string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	t.Helper()
	g, ctx := NewWithT(t), context.WithoutCancel(t.Context())
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "granted-"}, Rules: rules}
	g.Expect(e.API.Create(ctx, role)).To(Succeed())
	named := metav1.ObjectMeta{Namespace: namespace, Name: role.Name}
	reference := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user.Name}}
	var binding client.Object = &rbacv1.ClusterRoleBinding{ObjectMeta: named, RoleRef: reference, Subjects: subjects}
	if namespace != "" {
		binding = &rbacv1.RoleBinding{ObjectMeta: named, RoleRef: reference, Subjects: subjects}
	}
	g.Expect(e.API.Create(ctx, binding)).To(Succeed())
	for i := range rules {
		g.Expect(e.UntilAllowed(ctx, namespace, user.Name, &rules[i], true)).To(Succeed())
	}
	return role
}

// Token returns a token of a ServiceAccount, which is created if it does not exist.
func (e *Environment) Token(t testing.TB, namespace, name string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	request := &authenticationv1.TokenRequest{}
	NewWithT(t).Expect(client.IgnoreAlreadyExists(e.API.Create(t.Context(), account))).To(Succeed())
	NewWithT(t).Expect(e.API.SubResource("token").Create(t.Context(), account, request)).To(Succeed())
	return request.Status.Token
}
