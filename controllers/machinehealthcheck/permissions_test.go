// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane/assets"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/manifests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var update = flag.Bool("update", false, "update the golden files")

// The manager is allowed neither to delete a Machine or a Cluster nor to update a Machine: it only patches.
func TestPermissions_MachineOrCluster_CannotBeDeleted(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	m := s.CreateMachine("m-1")
	manager := testenv.NewClient(t, s.User())
	s.Expect(apierrors.IsForbidden(manager.Delete(s.Ctx, m.DeepCopy()))).To(BeTrue())
	s.Expect(apierrors.IsForbidden(manager.Delete(s.Ctx, s.Cluster.DeepCopy()))).To(BeTrue())
	s.Expect(apierrors.IsForbidden(manager.Update(s.Ctx, m.DeepCopy()))).To(BeTrue())
}

// Every new permission of the manager has to appear in the golden file, where a reviewer sees it.
func TestPermissions_RolesOfTheManager_EqualTheGoldenFile(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	root, err := assets.ModuleDir(t.Context(), assets.ModulePath)
	g.Expect(err).ToNot(HaveOccurred())
	var objects []*unstructured.Unstructured
	for _, file := range []string{"role.yaml", "aggregated_role.yaml", "medik8s_role.yaml"} {
		documents, err := manifests.Read(filepath.Join(root, "config", "rbac", file))
		g.Expect(err).ToNot(HaveOccurred())
		objects = append(objects, documents...)
	}
	var lines []string
	for _, object := range objects {
		role := &rbacv1.ClusterRole{}
		g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role)).To(Succeed())
		// Permissions of other ClusterRoles are aggregated by these labels.
		if role.AggregationRule != nil {
			for _, selector := range role.AggregationRule.ClusterRoleSelectors {
				lines = append(lines, object.GetKind()+" aggregates "+metav1.FormatLabelSelector(&selector))
			}
		}
		for _, rule := range role.Rules {
			g.Expect(rule.NonResourceURLs).To(BeEmpty())
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						lines = append(lines, strings.Join(append([]string{object.GetKind(), verb, resource, group}, rule.ResourceNames...), " "))
					}
				}
			}
		}
	}
	slices.Sort(lines)
	got, golden := strings.Join(lines, "\n")+"\n", filepath.Join("testdata", "permissions.golden.txt")
	if *update {
		g.Expect(os.WriteFile(golden, []byte(got), 0o600)).To(Succeed())
	}
	want, err := os.ReadFile(golden)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(got).
		To(Equal(string(want)),
			"the permissions have changed; if that is intended, run: go test ./controllers/machinehealthcheck -run %s -update", t.Name())
}
