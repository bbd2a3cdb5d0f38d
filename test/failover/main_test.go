// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package failover_test runs two replicas of the manager as processes, and takes from them what they need: the API server, or time to
// run. Each test has a management cluster of its own, without Cluster API, and plays kubelets and the node controller.
package failover_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/instance"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const (
	namespace = "remediation"
	// check has a short timeout, and no limit.
	check = `
metadata: {name: workers}
spec:
  unhealthyConditions:
  - {type: Ready, status: Unknown, duration: 2s}
  - {type: Ready, status: "False", duration: 2s}
  maxUnhealthy: 100%
  maxInFlight: 100%
  remediationTemplate:
    apiVersion: fence-agents-remediation.medik8s.io/v1alpha1
    kind: FenceAgentsRemediationTemplate
    name: reboot
    namespace: remediation
`
)

// kind is that of the remediation requests.
var kind = remediator.FenceAgents

// cluster is a management cluster with Nodes and a NodeHealthCheck.
type cluster struct {
	*testenv.Environment
	*WithT
	t *testing.T
}

// startCluster starts a cluster whose Nodes are ready.
func startCluster(t *testing.T, nodes ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, WithT: NewWithT(t), Environment: testenv.Start(t, testenv.RemedyKinds, testenv.ManagerRoles,
		testenv.RemediationKinds(kind), testenv.Namespaces(namespace), aggregateRemediator)}
	c.SetDefaultEventuallyTimeout(testenv.Timeout)
	for _, name := range nodes {
		c.Expect(c.API.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
		c.report(name, corev1.ConditionTrue, "KubeletReady")
	}
	c.Expect(c.API.Create(t.Context(), kind.NewTemplate(namespace, "reboot", map[string]any{"agent": "fence_ipmilan"}))).To(Succeed())
	workers := &remedyv1.NodeHealthCheck{}
	c.Expect(yaml.UnmarshalStrict([]byte(check), workers)).To(Succeed())
	c.Expect(c.API.Create(t.Context(), workers)).To(Succeed())
	return c
}

// aggregateRemediator does what kube-controller-manager does, which does not run here.
func aggregateRemediator(ctx context.Context, e *testenv.Environment) error {
	role := &rbacv1.ClusterRole{}
	if err := e.API.Get(ctx, client.ObjectKey{Name: "remedy-system-remediators"}, role); err != nil {
		return err
	}
	role.Rules = kind.Rules()
	return e.API.Update(ctx, role)
}

// report sets the condition Ready of a Node, as its kubelet or the node controller does.
func (c *cluster) report(node string, status corev1.ConditionStatus, reason string) {
	c.t.Helper()
	found := &corev1.Node{}
	c.Expect(c.API.Get(c.t.Context(), client.ObjectKey{Name: node}, found)).To(Succeed())
	before := found.DeepCopy()
	found.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: status, Reason: reason, LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now()},
	}
	c.Expect(c.API.Status().Patch(c.t.Context(), found, client.MergeFrom(before))).To(Succeed())
}

// requested returns a function that reports whether there is a request for a Node.
func (c *cluster) requested(node string) func() (bool, error) {
	return func() (bool, error) {
		request := kind.NewRequest(namespace, node)
		err := c.API.Get(c.t.Context(), client.ObjectKeyFromObject(request), request)
		return err == nil, client.IgnoreNotFound(err)
	}
}

// creation is an entry of the audit log: a request that was created, and when.
type creation struct {
	At  time.Time `json:"stageTimestamp"`
	For struct {
		Resource string `json:"resource"`
		Name     string `json:"name"`
	} `json:"objectRef"`
	Verb   string `json:"verb"`
	Status struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

// created are the requests that were ever created, by the audit log of the API server. Requests that were deleted are among them.
func (c *cluster) created() map[string][]time.Time {
	c.t.Helper()
	content, err := os.ReadFile(c.AuditLog)
	c.Expect(err).ToNot(HaveOccurred())
	found := map[string][]time.Time{}
	for line := range bytes.Lines(content) {
		entry := creation{}
		// The end of the API server can cut its last line.
		landed := json.Unmarshal(line, &entry) == nil && entry.Status.Code == http.StatusCreated
		if landed && entry.Verb == "create" && entry.For.Resource == kind.Plural {
			found[entry.For.Name] = append(found[entry.For.Name], entry.At)
		}
	}
	return found
}

// probed returns a function that returns what a replica answers to /readyz.
func (c *cluster) probed(i *instance.Instance) func() string {
	return func() string {
		_, text, err := i.Probe(c.t.Context(), "/readyz")
		if err != nil {
			return err.Error()
		}
		return strings.TrimSpace(text)
	}
}
