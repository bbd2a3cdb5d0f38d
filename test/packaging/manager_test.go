// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/instance"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// monitored is a manager that monitors Nodes: one is being remediated, one is blocked, one has recovered. A Cluster does not exist.
type monitored struct {
	*testenv.Environment
	*instance.Instance
	log testenv.Log
}

func startMonitored(t *testing.T) *monitored {
	t.Helper()
	g := NewWithT(t)
	cp := testenv.Start(t, testenv.RemedyKinds, testenv.ClusterAPIKinds(), testenv.RemediationKinds(remediator.FenceAgents), testenv.ManagerRoles)
	m := &monitored{Environment: cp}
	// No controller aggregates ClusterRoles here.
	cp.Grant(t, testenv.Manager, "", remediator.FenceAgents.Rules()...)
	m.create(g, remediator.FenceAgents.NewTemplate("default", "template", map[string]any{}))
	grant := added(t, "service-monitor")
	m.create(g, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "monitoring"}}, grant["Service"], grant["ClusterRole"], grant["ClusterRoleBinding"])

	marked := map[string]string{remedyv1.RemediateNodeAnnotation: ""}
	for node, pool := range map[string]string{"fenced": "a", "blocked": "b"} {
		m.create(g, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{"pool": pool}, Annotations: marked}})
	}
	m.create(g, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "recovered", Labels: map[string]string{"pool": "b"}}})
	m.setReady(g, corev1.ConditionFalse)
	machines := &remedyv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "machines"}}
	machines.Spec.ClusterName = "missing"
	machines.Spec.Selector.MatchLabels = map[string]remedyv1.LabelValue{"pool": "a"}
	paused := nodeCheck("paused", "b")
	paused.Spec.PauseRequests = []string{"test"}
	paused.Spec.UnhealthyConditions = []remedyv1.LastingNodeCondition{{Type: "Ready", Status: "False", Duration: remedyv1.Duration{Duration: metav1.Duration{Duration: time.Second}}}}
	m.create(g, machines, nodeCheck("fenced", "a"), paused)

	open(t, "api", "controllers", "internal", "main.go", "go.mod")
	m.Instance, m.log = cp.StartManager(t, "--v=4", "--logging-format=json")
	return m
}

func (m *monitored) create(g *WithT, objects ...client.Object) {
	for _, object := range objects {
		g.Expect(m.API.Create(context.Background(), object)).To(Succeed(), object.GetName())
	}
}

// setReady sets the condition Ready of the Node that recovers.
func (m *monitored) setReady(g *WithT, status corev1.ConditionStatus) {
	node := &corev1.Node{}
	g.Expect(m.API.Get(context.Background(), client.ObjectKey{Name: "recovered"}, node)).To(Succeed())
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour)),
	}}
	g.Expect(m.API.Status().Update(context.Background(), node)).To(Succeed())
}

func nodeCheck(name, pool string) *remedyv1.NodeHealthCheck {
	made := &remedyv1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: name}}
	made.Spec.Selector = &remedyv1.Selector{MatchLabels: map[string]remedyv1.LabelValue{"pool": remedyv1.LabelValue(pool)}}
	made.Spec.MaxUnhealthy = ptr.To(intstr.FromString("100%"))
	made.Spec.RemediationTemplate = &remedyv1.NodeTemplateReference{Namespace: "default", TemplateKind: remedyv1.TemplateKind{
		APIVersion: remediator.FenceAgents.GroupVersion().String(), Kind: remediator.FenceAgents.Template().Kind, Name: "template",
	}}
	return made
}

// scrape reads the metrics as Prometheus does with the ServiceMonitor: as its ServiceAccount, with its scheme and path.
func (m *monitored) scrape(t *testing.T) (map[string]*dto.MetricFamily, error) {
	t.Helper()
	monitor := &monitoringv1.ServiceMonitor{}
	strict(t, added(t, "service-monitor")["ServiceMonitor"], monitor)
	endpoint := monitor.Spec.Endpoints[0]
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: *endpoint.TLSConfig.InsecureSkipVerify}}
	defer transport.CloseIdleConnections()
	get, err := http.NewRequestWithContext(t.Context(), http.MethodGet, endpoint.Scheme.String()+"://"+m.Diagnostics+endpoint.Path, http.NoBody)
	if err != nil {
		return nil, err
	}
	get.Header.Set("Authorization", "Bearer "+m.Token(t, "monitoring", "prometheus-k8s"))
	response, err := (&http.Client{Transport: transport}).Do(get)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the manager answers %s", response.Status)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	all, err := parser.TextToMetricFamilies(io.LimitReader(response.Body, 1<<24))
	maps.DeleteFunc(all, func(name string, _ *dto.MetricFamily) bool { return !strings.HasPrefix(name, "remedy_") })
	return all, err
}
