// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package conform_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator/conform"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// No other package uses it: ClusterRoles of other tests would count.
var cp = testenv.New(testenv.ClusterAPIKinds("machines"))

func TestMain(m *testing.M) { testenv.Main(m, cp) }

// verify lets a remediator work between the reads of the tool, and returns the points that are not kept, with the result.
func verify(t *testing.T, player *remediator.Remediator, changes ...func(*corev1.Node)) map[string]conform.Result {
	t.Helper()
	g, ctx := NewWithT(t), t.Context()
	g.Expect(cp.InstallCRDObjects(player.Kind.CRDs()...)).To(Succeed())
	namespace := cp.Namespace(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "n-"}}
	for _, change := range changes {
		change(node)
	}
	cp.CreateUntilEnd(t, node)
	g.Expect(cp.API.Create(ctx, player.Kind.NewTemplate(namespace, "soft", map[string]any{}))).To(Succeed())
	player.Client, player.Nodes = client.NewNamespacedClient(cp.API, namespace), cp.API
	machine := client.ObjectKey{}
	if player.Kind.Group == remediator.Metal3.Group {
		machine = createMachine(t, namespace, node.Name)
	}
	boots := 0
	player.Worked = func(ctx context.Context, name string) error {
		boots++
		there := &corev1.Node{}
		if err := cp.API.Get(ctx, client.ObjectKey{Name: name}, there); err != nil {
			return client.IgnoreNotFound(err)
		}
		there.Status.NodeInfo.BootID = fmt.Sprint(boots)
		return cp.API.Status().Update(ctx, there)
	}
	r := &conform.Remediator{
		Client: cp.API, Node: node.Name, Machine: machine,
		Template: requests.Reference{
			APIVersion: player.Kind.GroupVersion().String(), Kind: player.Kind.Template().Kind, Namespace: namespace, Name: "soft",
		},
		Wait: func(conform.Time) func(context.Context) bool {
			rounds := 0
			return func(ctx context.Context) bool {
				rounds++
				_, err := player.Act(ctx)
				g.Expect(err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err)).To(BeTrue())
				return rounds < 10
			}
		},
	}
	results := map[string]conform.Result{}
	g.Expect(r.Verify(ctx, func(f conform.Finding) {
		if f.Result != conform.Kept {
			g.Expect(f.Text).ToNot(BeEmpty())
			results[f.Point] = f.Result
		}
	})).To(Succeed())
	left := &unstructured.UnstructuredList{}
	left.SetGroupVersionKind(player.Kind.GroupVersion().WithKind(player.Kind.Kind + "List"))
	g.Expect(cp.API.List(ctx, left, client.InNamespace(namespace))).To(Succeed())
	g.Expect(left.Items).To(BeEmpty(), "no request is left")
	return results
}

// createMachine creates the Machine of a Node.
func createMachine(t *testing.T, namespace, node string) client.ObjectKey {
	t.Helper()
	g := NewWithT(t)
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m-1"}}
	m.Spec.ClusterName, m.Spec.Bootstrap.DataSecretName = "prod", ptr.To("bootstrap")
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: remediator.Metal3.Group, Kind: "AnyMachine", Name: m.Name,
	}
	g.Expect(cp.API.Create(t.Context(), m)).To(Succeed())
	m.Status.NodeRef.Name = node
	g.Expect(cp.API.Status().Update(t.Context(), m)).To(Succeed())
	return client.ObjectKeyFromObject(m)
}

// Each flaw is found at its point, and nothing else.
func TestVerify_Flaw_IsFoundAtItsPoint(t *testing.T) {
	cp.CreateUntilEnd(t, remediator.Example.ClusterRole())
	for name, test := range map[string]struct {
		flaw  remediator.Flaw
		point string
	}{
		"none":               {},
		"ignores annotation": {remediator.IgnoresAnnotation, conform.AnnotationPoint},
		"ignores name":       {remediator.IgnoresName, conform.NamePoint},
		"ignores timed-out":  {remediator.IgnoresTimedOut, conform.StopPoint},
		"acts twice":         {remediator.ActsTwice, conform.OncePoint},
		"needs the Node":     {remediator.NeedsNode, conform.NodeGonePoint},
	} {
		t.Run(name, func(t *testing.T) {
			expected := map[string]conform.Result{}
			if test.point != "" {
				expected[test.point] = conform.Broken
			}
			// Without the annotation, a remediator also keeps the finalizer of a request whose Node does not exist.
			if test.flaw == remediator.IgnoresTimedOut {
				expected[conform.NodeGonePoint] = conform.Broken
			}
			NewWithT(t).Expect(verify(t, &remediator.Remediator{Kind: remediator.Example, Flaw: test.flaw})).To(Equal(expected))
		})
	}
}

// A finalizer that stays is found for the Node that exists and for the one that does not.
func TestVerify_FinalizerStays_IsFound(t *testing.T) {
	cp.CreateUntilEnd(t, remediator.Example.ClusterRole())
	NewWithT(t).Expect(verify(t, &remediator.Remediator{Kind: remediator.Example, Flaw: remediator.KeepsFinalizer})).
		To(Equal(map[string]conform.Result{conform.FinalizerPoint: conform.Broken, conform.NodeGonePoint: conform.Broken}))
}

// What depends on success is not checked without it.
func TestVerify_NoSuccess_IsFound(t *testing.T) {
	cp.CreateUntilEnd(t, remediator.Example.ClusterRole())
	results := verify(t, &remediator.Remediator{
		Kind: remediator.Example, Outcome: func(*unstructured.Unstructured) remediator.Outcome { return remediator.Hangs },
	})
	NewWithT(t).Expect(results).To(Equal(map[string]conform.Result{
		conform.SuccessPoint: conform.Broken, conform.OncePoint: conform.NotChecked, conform.NamePoint: conform.NotChecked,
		conform.AnnotationPoint: conform.NotChecked,
	}))
}

// A ClusterRole without the label, or without a verb, does not help.
func TestVerify_NoClusterRole_IsFound(t *testing.T) {
	role := remediator.Example.ClusterRole()
	role.Rules[0].Verbs = []string{"get", "list", "watch", "create", "delete"}
	g := NewWithT(t)
	cp.CreateUntilEnd(t, role)
	broken := map[string]conform.Result{conform.RolePoint: conform.Broken}
	g.Expect(verify(t, &remediator.Remediator{Kind: remediator.Example})).To(Equal(broken))
	role.Labels, role.Rules = nil, remediator.Example.Rules()
	g.Expect(cp.API.Update(t.Context(), role)).To(Succeed())
	g.Expect(verify(t, &remediator.Remediator{Kind: remediator.Example})).To(Equal(broken))
}

// The known remediators have the limits that docs/remediators.md describes.
func TestVerify_KnownRemediators_HaveTheirLimits(t *testing.T) {
	// They report a phase, and do not stop. Metal3 removes its finalizer when the Node exists after the reboot.
	ofMachines := map[string]conform.Result{
		conform.SuccessPoint: conform.Broken, conform.OncePoint: conform.NotChecked, conform.NamePoint: conform.NotChecked,
		conform.AnnotationPoint: conform.NotChecked, conform.StopPoint: conform.Broken, conform.NodeGonePoint: conform.NotChecked,
	}
	for _, known := range []struct {
		kind   remediator.Kind
		limits map[string]conform.Result
	}{
		{remediator.SelfNode, map[string]conform.Result{}},
		{remediator.FenceAgents, map[string]conform.Result{conform.NodeGonePoint: conform.Broken}},
		{remediator.CustomizedUser, map[string]conform.Result{
			conform.SuccessPoint: conform.Broken, conform.OncePoint: conform.NotChecked, conform.NamePoint: conform.NotChecked,
			conform.AnnotationPoint: conform.NotChecked, conform.StopPoint: conform.Broken,
		}},
		{remediator.Metal3, ofMachines},
		{remediator.HCloud, ofMachines},
		{remediator.MachineDeletion, map[string]conform.Result{
			conform.NamePoint: conform.NotChecked, conform.AnnotationPoint: conform.NotChecked,
			conform.StopPoint: conform.NotChecked, conform.FinalizerPoint: conform.NotChecked,
		}},
		{remediator.StorageBased, map[string]conform.Result{
			conform.SuccessPoint: conform.Broken, conform.OncePoint: conform.NotChecked, conform.NamePoint: conform.NotChecked,
			conform.AnnotationPoint: conform.NotChecked, conform.StopPoint: conform.Broken, conform.NodeGonePoint: conform.Broken,
		}},
	} {
		t.Run(strings.ToLower(known.kind.Kind), func(t *testing.T) {
			cp.CreateUntilEnd(t, known.kind.ClusterRole())
			withMachine := func(node *corev1.Node) {
				node.Annotations = map[string]string{remediator.MachineAnnotation: "openshift-machine-api/any"}
			}
			NewWithT(t).Expect(verify(t, &remediator.Remediator{Kind: known.kind}, withMachine)).To(Equal(known.limits))
		})
	}
}
