// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main_test

import (
	"context"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	main "github.com/cluster-api-remedy/cluster-api-provider-remedy"
	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/settings"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/instance"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// nodeChecks is a kind of checks that needs no Cluster API. A reconcile reads what other kinds read, and does nothing.
type nodeChecks struct {
	healthcheck.Store
	*healthcheck.Environment
	read    chan string
	claimed chan client.ObjectKey
}

func (nodeChecks) Kind() string          { return "NodeHealthCheck" }
func (nodeChecks) Object() client.Object { return &remedyv1.NodeHealthCheck{} }

func (c nodeChecks) Find(ctx context.Context, _ client.Reader, key client.ObjectKey) (*healthcheck.Check, *clusterv1.Cluster, error) {
	check := &healthcheck.Check{
		ID: requests.Check{Kind: c.Kind(), Name: key.Name}, Object: &remedyv1.NodeHealthCheck{}, Cluster: workload.ManagementCluster,
	}
	claims, err := c.Claims(ctx, check, nil)
	if err != nil {
		return nil, nil, err
	}
	nodes, err := c.Clusters.Get(check.Cluster).Nodes(ctx)
	if err != nil {
		return nil, nil, err
	}
	found, err := c.Requests.Of(ctx, check.ID, remediator.FenceAgents.GroupVersionKind)
	if err != nil {
		return nil, nil, err
	}
	select {
	case c.read <- fmt.Sprintf("%d check, %d Node, %d request", len(claims), len(nodes), len(found)):
	default:
	}
	return nil, nil, nil
}

// kind returns the entry of the list of kinds.
func (c nodeChecks) kind(e *healthcheck.Environment) controllers.Kind {
	c.Environment = e
	return controllers.Kind{Reconciler: &healthcheck.Reconciler{Environment: e, Store: c, Watches: healthcheck.Watches{
		Node: func(context.Context, workload.NodeChange) []types.NamespacedName {
			return []types.NamespacedName{{Name: "check"}}
		},
		Cluster: func(_ context.Context, cluster client.ObjectKey) []types.NamespacedName {
			select {
			case c.claimed <- cluster:
			default:
			}
			return []types.NamespacedName{{Name: "check"}}
		},
	}}}
}

// allow gives the manager the permissions that a kind of checks of Nodes and its remediation provider bring.
func allow(g Gomega, c client.Client) {
	rules := append(remediator.FenceAgents.Rules(),
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}})
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "nodes-"}, Rules: rules}
	g.Expect(c.Create(context.Background(), role)).To(Succeed())
	g.Expect(c.Create(context.Background(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: instance.Namespace, Name: instance.ServiceAccount}},
	})).To(Succeed())
}

func TestManager_NoClusterAPI_ReadsRequestsAndNodes(t *testing.T) {
	g := newGomega(t)
	cp := startControlPlane(t)
	t.Cleanup(func() { uninstallAll(t, cp) })
	g.Expect(cp.InstallCRDs("config/crd/bases")).To(Succeed())
	g.Expect(cp.InstallCRDObjects(remediator.FenceAgents.CRDs()...)).To(Succeed())
	c, err := cp.Client()
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(remedyv1.AddToScheme(c.Scheme())).To(Succeed())
	g.Expect(clusterv1.AddToScheme(c.Scheme())).To(Succeed())
	allow(g, c)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
	request := remediator.FenceAgents.NewRequest("default", "request")
	request.SetAnnotations(map[string]string{remedyv1.CheckAnnotation: requests.Check{Kind: "NodeHealthCheck", Name: "check"}.String()})
	check := &remedyv1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: "check"}}
	check.Spec.RemediationTemplate = &remedyv1.NodeTemplateReference{Namespace: "default", TemplateKind: remedyv1.TemplateKind{
		APIVersion: remediator.FenceAgents.GroupVersion().String(), Kind: remediator.FenceAgents.Template().Kind, Name: "template",
	}}
	g.Expect(c.Create(t.Context(), check)).To(Succeed())
	request.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: remedyv1.GroupVersion.String(), Kind: "NodeHealthCheck", Name: check.Name, UID: check.UID,
	}})
	for _, object := range []client.Object{node, request} {
		g.Expect(c.Create(t.Context(), object)).To(Succeed())
	}
	t.Cleanup(func() { g.Expect(c.Delete(context.Background(), node)).To(Succeed()) })

	user, err := cp.Config(controlplane.ServiceAccount(instance.Namespace, instance.ServiceAccount))
	g.Expect(err).ToNot(HaveOccurred())
	user.UserAgent = "test"
	checks := nodeChecks{read: make(chan string, 1), claimed: make(chan client.ObjectKey, 1000)}
	setUp := startManager(t, user, checks.kind)
	g.Expect(setUp(t.Context(), false)).To(Succeed())
	g.Eventually(checks.read).Should(Receive(Equal("1 check, 1 Node, 1 request")))

	// Cluster API is installed while the manager runs: all other kinds are set up, and their checks are watched by this one, too.
	g.Expect(cp.InstallCRDObjects(clusterAPI(t, "v1beta1", "v1beta2")...)).To(Succeed())
	g.Expect(setUp(t.Context(), true)).To(Succeed())
	g.Expect(c.Create(t.Context(), &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "cluster"},
		Spec:       clusterv1.ClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 6443}},
	})).To(Succeed())
	g.Expect(c.Create(t.Context(), &clusterv1.MachineHealthCheck{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "intree"},
		Spec: clusterv1.MachineHealthCheckSpec{
			ClusterName: "cluster", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"pool": "a"}},
		},
	})).To(Succeed())
	g.Eventually(checks.claimed).Should(Receive(Equal(client.ObjectKey{Namespace: "default", Name: "cluster"})))
}

func TestManager_ChecksNotReconciled_ReportIt(t *testing.T) {
	g := newGomega(t)
	cp := startControlPlane(t)
	t.Cleanup(func() { uninstallAll(t, cp) })
	g.Expect(cp.InstallCRDs("config/crd/bases")).To(Succeed())
	c, err := cp.Client()
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(remedyv1.AddToScheme(c.Scheme())).To(Succeed())
	nodes := &remedyv1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: "check"}}
	nodes.Spec.RemediationTemplate = &remedyv1.NodeTemplateReference{Namespace: "default", TemplateKind: remedyv1.TemplateKind{
		APIVersion: remediator.FenceAgents.GroupVersion().String(), Kind: remediator.FenceAgents.Template().Kind, Name: "template",
	}}
	machines := &remedyv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "check"}}
	machines.Spec.ClusterName = "cluster"
	g.Expect(c.Create(t.Context(), nodes)).To(Succeed())
	g.Expect(c.Create(t.Context(), machines)).To(Succeed())
	t.Cleanup(func() { g.Expect(c.Delete(context.Background(), nodes)).To(Succeed()) })

	user, err := cp.Config(controlplane.ServiceAccount(instance.Namespace, instance.ServiceAccount))
	g.Expect(err).ToNot(HaveOccurred())
	user.UserAgent = "test"
	setUp := startManager(t, user, nil)
	g.Expect(setUp(t.Context(), false)).To(Succeed())
	ready := func(check client.Object, conditions *[]metav1.Condition) func() *metav1.Condition {
		return func() *metav1.Condition {
			g.Expect(c.Get(context.Background(), client.ObjectKeyFromObject(check), check)).To(Succeed())
			return meta.FindStatusCondition(*conditions, remedyv1.ReadyCondition)
		}
	}
	g.Eventually(ready(nodes, &nodes.Status.Conditions)).Should(And(
		HaveField("Status", metav1.ConditionFalse), HaveField("Reason", remedyv1.NotReconciledReason),
		HaveField("Message", ContainSubstring("does not reconcile NodeHealthChecks"))))
	g.Eventually(ready(machines, &machines.Status.Conditions)).Should(And(
		HaveField("Reason", remedyv1.NotReconciledReason), HaveField("Message", ContainSubstring("Install or upgrade Cluster API"))))

	// Once Cluster API is installed, the reconciler of MachineHealthChecks replaces the condition.
	g.Expect(cp.InstallCRDObjects(clusterAPI(t, "v1beta1", "v1beta2")...)).To(Succeed())
	g.Expect(setUp(t.Context(), true)).To(Succeed())
	g.Eventually(ready(machines, &machines.Status.Conditions)).Should(HaveField("Reason", remedyv1.ClusterNotFoundReason))
	machines.SetFinalizers(nil)
	g.Expect(c.Update(context.Background(), machines)).To(Succeed())
}

// startManager starts a manager with one more kind, and returns the function that sets up its reconcilers.
func startManager(
	t *testing.T, user *rest.Config, kind func(*healthcheck.Environment) controllers.Kind,
) func(ctx context.Context, clusterAPI bool) error {
	t.Helper()
	g := newGomega(t)
	t.Setenv("POD_NAMESPACE", instance.Namespace)
	flags := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	s, err := settings.New(flags)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(flags.Parse([]string{"--diagnostics-address=0"})).To(Succeed())
	registry := ctrlmetrics.Registry
	ctrlmetrics.Registry = prometheus.NewRegistry()
	ctx, cancel := context.WithCancel(context.Background())
	mgr, setUp, err := main.NewManager(ctx, user, s, kind)
	g.Expect(err).ToNot(HaveOccurred())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		g.Expect(<-ended).To(Succeed())
		ctrlmetrics.Registry = registry
	})
	return setUp
}
