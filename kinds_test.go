// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main_test

import (
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	main "github.com/cluster-api-remedy/cluster-api-provider-remedy"
	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/settings"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/instance"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// Without Cluster API, Nodes are remediated, and MachineHealthChecks report that they are not. Cluster API is installed while the manager
// runs.
func TestManager_NoClusterAPI_RemediatesNodes(t *testing.T) {
	g := NewWithT(t)
	cp := plane.Use(t)
	t.Cleanup(func() { uninstallAll(t, cp) })
	g.Expect(testenv.RemedyKinds(t.Context(), cp)).To(Succeed())
	g.Expect(cp.InstallCRDObjects(remediator.FenceAgents.CRDs()...)).To(Succeed())
	c := cp.API
	// The permissions that a remediation provider brings.
	cp.Grant(t, testenv.Manager, "", remediator.FenceAgents.Rules()...)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Annotations: map[string]string{remedyv1.RemediateNodeAnnotation: ""}}}
	nodes := &remedyv1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: "check"}}
	nodes.Spec.MaxUnhealthy = ptr.To(intstr.FromString("100%"))
	nodes.Spec.RemediationTemplate = &remedyv1.NodeTemplateReference{Namespace: "default", TemplateKind: remedyv1.TemplateKind{
		APIVersion: remediator.FenceAgents.GroupVersion().String(), Kind: remediator.FenceAgents.Template().Kind, Name: "template",
	}}
	remote := &remedyv1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: "remote"}, Spec: *nodes.Spec.DeepCopy()}
	remote.Spec.ClusterRef = &remedyv1.ClusterReference{Namespace: "default", Name: "cluster"}
	machines := &remedyv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "check"}}
	machines.Spec.ClusterName = "cluster"
	machines.Spec.Selector.MatchLabels = map[string]remedyv1.LabelValue{"pool": "a"}
	template := remediator.FenceAgents.NewTemplate("default", "template", map[string]any{})
	for _, object := range []client.Object{template, node, nodes, remote, machines} {
		g.Expect(c.Create(t.Context(), object)).To(Succeed())
	}
	t.Cleanup(func() { g.Expect(c.Delete(context.Background(), node)).To(Succeed()) })

	setUp := startManager(t, cp, testenv.Log{Buffer: gbytes.NewBuffer()}, func(*main.Manager) error { return nil }).SetUp
	g.Expect(setUp(t.Context(), false)).To(Succeed())
	ready := func() *metav1.Condition {
		g.Expect(c.Get(context.Background(), client.ObjectKeyFromObject(machines), machines)).To(Succeed())
		return meta.FindStatusCondition(machines.Status.Conditions, remedyv1.ReadyCondition)
	}
	g.Eventually(ready).Should(And(
		HaveField("Status", metav1.ConditionFalse), HaveField("Reason", remedyv1.NotReconciledReason),
		HaveField("Message", ContainSubstring("Install or upgrade Cluster API"))))
	remoteReady := func() *metav1.Condition {
		g.Expect(c.Get(context.Background(), client.ObjectKeyFromObject(remote), remote)).To(Succeed())
		return meta.FindStatusCondition(remote.Status.Conditions, remedyv1.ReadyCondition)
	}
	g.Eventually(remoteReady).Should(And(
		HaveField("Status", metav1.ConditionFalse), HaveField("Reason", remedyv1.NotReconciledReason),
		HaveField("Message", ContainSubstring("NodeHealthChecks with a clusterRef"))))
	request := remediator.FenceAgents.NewRequest("default", node.Name)
	g.Eventually(func() error { return c.Get(context.Background(), client.ObjectKeyFromObject(request), request) }).Should(Succeed())
	g.Expect(request.GetOwnerReferences()).To(HaveLen(2))

	g.Expect(cp.InstallCRDObjects(clusterAPI(t, "v1beta1", "v1beta2")...)).To(Succeed())
	g.Expect(setUp(t.Context(), true)).To(Succeed())
	g.Eventually(ready).Should(HaveField("Reason", remedyv1.ClusterNotFoundReason))
	g.Eventually(remoteReady).Should(HaveField("Reason", remedyv1.ClusterNotFoundReason))
}

// startManager starts a manager in this process after prepare.
func startManager(t *testing.T, cp *testenv.Environment, log io.Writer, prepare func(m *main.Manager) error, args ...string) *main.Manager {
	t.Helper()
	return startManagerAs(t, cp.ConfigOf(t, testenv.Manager), log, prepare, args...)
}

// startManagerAs starts a manager in this process as a user after prepare.
func startManagerAs(t *testing.T, user *rest.Config, log io.Writer, prepare func(m *main.Manager) error, args ...string) *main.Manager {
	t.Helper()
	g := NewWithT(t)
	t.Setenv("POD_NAMESPACE", instance.Namespace)
	user.UserAgent = "test"
	flags := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	s, err := settings.New(flags)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(flags.Parse(append([]string{"--diagnostics-address=0"}, args...))).To(Succeed())
	registry := ctrlmetrics.Registry
	ctrlmetrics.Registry = prometheus.NewRegistry()
	ctx, cancel := context.WithCancel(context.Background())
	logger := funcr.New(func(prefix, args string) { _, _ = fmt.Fprintln(log, prefix, args) }, funcr.Options{})
	m, err := main.NewManager(ctx, user, s, logger)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(prepare(m)).To(Succeed())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		g.Expect(<-ended).To(Succeed())
		ctrlmetrics.Registry = registry
	})
	return m
}
