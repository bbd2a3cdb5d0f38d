// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package attacks_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// teamA is the namespace of the tenant that attacks, teamB that of another one.
const (
	teamA = "team-a"
	teamB = "team-b"
)

// plane is the control plane of the tests here without a stage, which do not run in parallel. No other package uses it: policies apply to a
// whole cluster.
var plane = testenv.New(installation("../../config/default")...)

func TestMain(m *testing.M) {
	if code := testenv.Main(m); code != 0 {
		return
	}
	if err := writeOutcomes(os.Getenv("REMEDY_ATTACKS")); err != nil {
		panic(err)
	}
}

// outcomes are the lines of all attacks that were performed. Some tests run in parallel.
var outcomes struct {
	sync.Mutex
	lines []string
}

// outcome prints the outcome of an attack in one line.
func outcome(t *testing.T, format string, args ...any) {
	t.Helper()
	line := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ")
	t.Log(line)
	outcomes.Lock()
	defer outcomes.Unlock()
	outcomes.lines = append(outcomes.lines, line)
}

// writeOutcomes writes the outcomes to a file, if there is one. The go command hides the output of packages that pass, so make test prints
// the file.
func writeOutcomes(file string) error {
	if file == "" {
		return nil
	}
	slices.Sort(outcomes.lines)
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return errors.WithStack(err)
	}
	return errors.WithStack(os.WriteFile(file, []byte(strings.Join(outcomes.lines, "\n")+"\n"), 0o600))
}

// installed starts the control plane with the product. It deletes the checks, Machines and Clusters of the tenants at the end of the test.
func installed(t *testing.T) *WithT {
	t.Helper()
	plane.Use(t)
	t.Cleanup(func() {
		plane.DeleteAll(t, "cluster.x-k8s.io/v1beta2 MachineHealthCheck", "remedy.cluster.x-k8s.io/v1alpha1 MachineHealthCheck",
			"infrastructure.cluster.x-k8s.io/v1beta1 Metal3Remediation", "cluster.x-k8s.io/v1beta2 Machine", "cluster.x-k8s.io/v1beta2 Cluster")
	})
	return NewWithT(t)
}

// installation installs what a release contains, from a kustomization, and the ClusterRole that docs/install.md shows for Metal3.
func installation(kustomization string) []testenv.Step {
	return []testenv.Step{
		testenv.ClusterAPIKinds("clusters", "machines", "machinesets", "machinedeployments", "machinehealthchecks"),
		testenv.RemediationKinds(remediator.Metal3, remediator.Example), testenv.Namespaces(teamA, teamB), testenv.Kustomization(kustomization),
		aggregateRoles, awaitPolicies,
	}
}

// awaitPolicies waits until the API server enforces the policy that was created last.
func awaitPolicies(ctx context.Context, e *testenv.Environment) error {
	check := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(metal3Check), &check.Object); err != nil {
		return errors.WithStack(err)
	}
	if err := unstructured.SetNestedField(check.Object, teamB, "spec", "remediationTemplate", "namespace"); err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, testenv.Timeout, true, func(ctx context.Context) (bool, error) {
		err := e.API.Create(ctx, check.DeepCopy(), client.DryRunAll)
		return apierrors.IsInvalid(err), nil
	})
}

// aggregateRoles does what kube-controller-manager does, which does not run here. The role edit includes the role view.
func aggregateRoles(ctx context.Context, e *testenv.Environment) error {
	for _, kind := range []remediator.Kind{remediator.Metal3, remediator.Example} {
		if err := e.API.Create(ctx, kind.ClusterRole()); err != nil {
			return err
		}
	}
	for _, name := range []string{"view", "edit", "remedy-system-remediators"} {
		role, parts := &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleList{}
		if err := e.API.Get(ctx, client.ObjectKey{Name: name}, role); err != nil {
			return err
		}
		if err := e.API.List(ctx, parts); err != nil {
			return err
		}
		before := client.MergeFrom(role.DeepCopy())
		for i := range role.AggregationRule.ClusterRoleSelectors {
			selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i])
			if err != nil {
				return errors.WithStack(err)
			}
			for j := range parts.Items {
				if selector.Matches(labels.Set(parts.Items[j].Labels)) {
					role.Rules = append(role.Rules, parts.Items[j].Rules...)
				}
			}
		}
		if err := e.API.Patch(ctx, role, before); err != nil {
			return err
		}
	}
	return nil
}

func rule(verbs, group, resources string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: strings.Split(resources, ","), Verbs: strings.Split(verbs, ",")}
}

// tenants is how many tenants there have been.
var tenants int

// tenant is a client of a new user with the role edit in a namespace, with more permissions there if there are rules. The user is new
// because the API server grants deleted permissions for a moment.
func tenant(t *testing.T, namespace string, rules ...rbacv1.PolicyRule) client.Client {
	t.Helper()
	g := NewWithT(t)
	tenants++
	user := fmt.Sprintf("tenant-%d", tenants)
	edits := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"}
	g.Expect(plane.API.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: user}, RoleRef: edits,
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})).To(Succeed())
	plane.Grant(t, controlplane.User{Name: user}, namespace, rules...)
	created := rule("create", "", "configmaps")
	g.Expect(plane.UntilAllowed(t.Context(), namespace, user, &created, true)).To(Succeed())
	return plane.As(t, controlplane.User{Name: user})
}

// stolenToken is a client with the permissions of the manager.
func stolenToken(t *testing.T) client.Client {
	t.Helper()
	return plane.As(t, testenv.Manager)
}

// object parses an object.
func object(g *WithT, text string) *unstructured.Unstructured {
	parsed := &unstructured.Unstructured{}
	g.Expect(yaml.Unmarshal([]byte(text), &parsed.Object)).To(Succeed())
	return parsed
}

// merge is a patch as kubectl patch --type=merge sends it.
func merge(text string) client.Patch {
	change, err := yaml.YAMLToJSON([]byte(text))
	utilruntime.Must(err)
	return client.RawPatch(types.MergePatchType, change)
}

// patch is a dry run, so the next attempt starts from the same object.
func patch(ctx context.Context, c client.Client, o client.Object, text string) error {
	return c.Patch(ctx, o.DeepCopyObject().(client.Object), merge(text), client.DryRunAll)
}

func patchStatus(ctx context.Context, c client.Client, o client.Object, text string) error {
	return c.Status().Patch(ctx, o.DeepCopyObject().(client.Object), merge(text), client.DryRunAll)
}

// refused reports that a policy or RBAC refused a request, and prints the outcome of the attack.
func refused(t *testing.T, attack string, err error) {
	t.Helper()
	why, byPolicy := "", false
	if err != nil {
		_, why, byPolicy = strings.Cut(err.Error(), "denied request: ")
	}
	switch {
	case byPolicy:
		outcome(t, "%s: refused: %s", attack, why)
	case apierrors.IsForbidden(err):
		outcome(t, "%s: refused: %s", attack, err)
	default:
		t.Errorf("%s: SUCCEEDED, %v", attack, err)
	}
}
