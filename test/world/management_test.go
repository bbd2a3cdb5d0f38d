// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

func TestManagement_Inventory_IsThatOfClusterctl(t *testing.T) {
	g := NewWithT(t)
	w := theWorld(t)
	providers := &unstructured.UnstructuredList{}
	providers.SetGroupVersionKind(clusterctlv1.GroupVersion.WithKind("ProviderList"))
	g.Expect(w.Client.List(t.Context(), providers)).To(Succeed())
	names := make([]string, 0, len(providers.Items))
	for _, p := range providers.Items {
		names = append(names, p.GetNamespace()+"/"+p.GetName())
	}
	g.Expect(names).To(ConsistOf("capi-system/cluster-api", "capi-kubeadm-bootstrap-system/bootstrap-kubeadm",
		"capi-kubeadm-control-plane-system/control-plane-kubeadm", "capd-system/infrastructure-docker", "remedy-system/infrastructure-remedy"))
}

// A process on this machine cannot have the addresses, the folders and the short lease times of the Deployment.
func TestManagement_Remedy_RunsWithFlagsOfDeployment(t *testing.T) {
	g := NewWithT(t)
	w := theWorld(t)
	d := &appsv1.Deployment{}
	g.Expect(w.Client.Get(t.Context(), client.ObjectKey{Namespace: "remedy-system", Name: "remedy-controller-manager"}, d)).To(Succeed())
	says := d.Spec.Template.Spec.Containers[0].Args
	g.Expect(says).To(ContainElement("--mode=Enforce"), "or clusterctl has not filled in its variables")
	runs := w.Process(world.Remedy).Args
	g.Expect(runs).To(ContainElements(aTenaciousLead))
	g.Expect(without(runs, "--diagnostics-address", "--health-addr", "--kubeconfig", "--leader-elect-lease-duration", "--leader-elect-renew-deadline")).
		To(Equal(without(says, "--diagnostics-address")))
	g.Expect(w.Process(world.Remedy).Env).To(ConsistOf("POD_NAMESPACE=remedy-system", HavePrefix("GOMEMLIMIT=")))
}

func without(args []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(args), func(arg string) bool {
		name, _, _ := strings.Cut(arg, "=")
		return slices.Contains(names, name)
	})
}

func TestManagement_Managers_UseTheirServiceAccounts(t *testing.T) {
	g := NewWithT(t)
	w := theWorld(t)
	// Election, CRD migration, events: each of them has written something by now.
	users := func() map[string]bool { return writers(w.Plane.AuditLog) }
	g.Eventually(users, soon).Should(And(
		HaveKey("system:serviceaccount:capi-system:capi-manager"),
		HaveKey("system:serviceaccount:capd-system:capd-manager"),
		HaveKey("system:serviceaccount:remedy-system:remedy-manager"),
	))
	for user := range users() {
		g.Expect(user).To(Or(HavePrefix("system:serviceaccount:"), Equal("admin"), HavePrefix("system:apiserver"), Equal("default")), "a user that is no ServiceAccount writes")
	}
}

// writers are the users who have written something, by the audit log.
func writers(log string) map[string]bool {
	found := map[string]bool{}
	content, _ := os.ReadFile(log)
	for line := range bytes.Lines(content) {
		var event struct {
			User struct {
				Username string `json:"username"`
			} `json:"user"`
		}
		if json.Unmarshal(line, &event) == nil {
			found[event.User.Username] = true
		}
	}
	return found
}

func TestManagement_Webhooks_LeadToProcessesOnLoopback(t *testing.T) {
	g := NewWithT(t)
	w := theWorld(t)
	asked := 0
	expect := func(name string, service bool, url *string) {
		g.Expect(service).To(BeFalse(), "%s asks a service, and there are no pods behind it", name)
		g.Expect(url).To(HaveValue(HavePrefix("https://127.0.0.1:")), name)
		asked++
	}
	validating := &admissionregistrationv1.ValidatingWebhookConfigurationList{}
	g.Expect(w.Client.List(t.Context(), validating)).To(Succeed())
	for _, c := range validating.Items {
		for _, hook := range c.Webhooks {
			expect(hook.Name, hook.ClientConfig.Service != nil, hook.ClientConfig.URL)
		}
	}
	mutating := &admissionregistrationv1.MutatingWebhookConfigurationList{}
	g.Expect(w.Client.List(t.Context(), mutating)).To(Succeed())
	for _, c := range mutating.Items {
		for _, hook := range c.Webhooks {
			expect(hook.Name, hook.ClientConfig.Service != nil, hook.ClientConfig.URL)
		}
	}
	definitions := &apiextensionsv1.CustomResourceDefinitionList{}
	g.Expect(w.Client.List(t.Context(), definitions)).To(Succeed())
	for _, d := range definitions.Items {
		if d.Spec.Conversion != nil && d.Spec.Conversion.Webhook != nil {
			expect(d.Name, d.Spec.Conversion.Webhook.ClientConfig.Service != nil, d.Spec.Conversion.Webhook.ClientConfig.URL)
		}
	}
	g.Expect(asked).To(BeNumerically(">", 50), "or this test looks at nothing")

	// One of each provider answers, in an older version than the stored one.
	for kind, version := range map[string]string{"ClusterClass": "cluster", "KubeadmConfigTemplate": "bootstrap.cluster", "DevClusterTemplate": "infrastructure.cluster"} {
		old := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{}}}}}
		old.SetAPIVersion(version + ".x-k8s.io/v1beta1")
		old.SetKind(kind)
		old.SetNamespace("default")
		old.SetName("older")
		err := w.Client.Create(t.Context(), old, client.DryRunAll)
		g.Expect(err == nil || apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
	}
}

func TestManagement_OwnNodes_CanExist(t *testing.T) {
	g := NewWithT(t)
	nodes := theWorld(t).Nodes()
	g.Expect(nodes.Join(t.Context(), &corev1.Node{ObjectMeta: named("bare")})).To(Succeed())
	g.Expect(nodes.SetNodeCondition(t.Context(), "bare", corev1.NodeReady, corev1.ConditionUnknown, "NodeStatusUnknown")).To(Succeed())
	node, err := nodes.Node(t.Context(), "bare")
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(nodeReady(node).Status).To(Equal(corev1.ConditionUnknown))
	g.Expect(nodes.DeleteNode(t.Context(), "bare")).To(Succeed())
	_, err = nodes.Node(t.Context(), "bare")
	g.Expect(apierrors.IsNotFound(errors.Cause(err))).To(BeTrue())
}

func TestManagement_SecondWorld_SharesInfrastructure(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	theWorld(t)
	_, err := world.Start(t.Context(), world.Options{})
	g.Expect(err).To(MatchError(ContainSubstring("WithoutInfrastructure")))
	second := startWorld(t, world.Options{WithoutInfrastructure: true, WithoutRemedy: true})
	g.Expect(second.Process(world.Core).Ready(t.Context())).To(Succeed())
	g.Expect(second.Process(world.Remedy)).To(BeNil())
	g.Expect(second.Restart(t.Context(), world.Infrastructure)).To(MatchError(ContainSubstring("there can be one in a network namespace")))
	g.Expect(second.Admin.Host).ToNot(Equal(theWorld(t).Admin.Host))
}

func TestManagement_KilledProcess_Restarts(t *testing.T) {
	w := theWorld(t)
	for _, name := range []string{world.Core, world.Bootstrap, world.ControlPlane, world.Infrastructure, world.Remedy, world.ControllerManager, world.APIServer, world.Etcd} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(w.Kill(name)).To(Succeed())
			if name == world.APIServer || name == world.Etcd {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				g.Expect(w.Client.Create(ctx, &corev1.Namespace{ObjectMeta: named("while-it-is-away")})).ToNot(Succeed())
			} else {
				g.Expect(w.Process(name).Running()).To(BeFalse())
			}
			g.Expect(w.Restart(t.Context(), name)).To(Succeed())
			g.Expect(w.Client.List(t.Context(), &corev1.NamespaceList{})).To(Succeed())
		})
	}
	t.Run("and all of them are ready in the end", func(t *testing.T) {
		g := NewWithT(t)
		for _, name := range []string{world.Core, world.Bootstrap, world.ControlPlane, world.Infrastructure, world.Remedy, world.ControllerManager} {
			// A manager that lost its API server for too long ends itself, at any moment, and is started again.
			g.Eventually(func() error { return w.Process(name).Ready(t.Context()) }, soon).Should(Succeed())
		}
	})
}

func TestManagement_Process_CanBeStopped(t *testing.T) {
	g := NewWithT(t)
	p := theWorld(t).Process(world.Bootstrap)
	g.Expect(p.Freeze()).To(Succeed())
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	g.Expect(p.Ready(ctx)).To(MatchError(ContainSubstring("is not ready")))
	g.Expect(p.Thaw()).To(Succeed())
	g.Expect(p.Ready(t.Context())).To(Succeed())
}
