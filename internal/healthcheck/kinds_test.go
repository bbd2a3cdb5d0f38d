// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// kindStage is a stage with targets of one kind: Machines, or Nodes of the management cluster. The engine is the same for both, so its
// tests run with both.
type kindStage struct {
	*stage.Stage
	// ofNodes: the targets are Nodes, and their check is a NodeHealthCheck. byOwner: the owners of Machines remediate them.
	ofNodes, byOwner bool
	// first is the kind of requests of the only step, and soft and hard are those of two steps.
	first, soft, hard remediator.Kind
	// targets, requests and checks are resources.
	targets, requests, checks string
	// skip and remediate are the annotations of a target that a user sets.
	skip, remediate string
}

// forEachKind runs a test with Machines and with Nodes. 'make test' leaves out those with Nodes, and 'make proof-race' those with Machines.
// Some tests of the engine do not run with Nodes:
//   - Only Machines have owner remediation and conditions of a check, and these Nodes belong to no Cluster that is paused or deleted.
//   - TestObserveMode_NodeDeleted_CountsTheTimeout: a deleted Node is no target any more.
//   - The tests with PermissionRevoked and PermissionGrantedLater change permissions that all tests share, so they run alone.
//   - TestRequests_ConversionFails_BlocksOnlyTheirMachine: owner remediation shows there that only one kind of requests is blocked.
//   - Unit tests have no kind: health_order_test.go, record_test.go, current_test.go and result_test.go.
func forEachKind(t *testing.T, test func(s *kindStage), options ...func(*stage.Stage)) {
	t.Helper()
	for _, name := range []string{"Machines", "Nodes"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newKindStage(t, name == "Nodes", options...))
		})
	}
}

// forEachRemediation runs a test with requests for Machines, with requests for Nodes, and with owner remediation.
func forEachRemediation(t *testing.T, test func(s *kindStage), options ...func(*stage.Stage)) {
	t.Helper()
	forEachKind(t, test, options...)
	t.Run("owner remediation", func(t *testing.T) {
		t.Parallel()
		s := newKindStage(t, false, options...)
		s.byOwner = true
		test(s)
	})
}

func newKindStage(t *testing.T, ofNodes bool, options ...func(*stage.Stage)) *kindStage {
	t.Helper()
	s := &kindStage{
		ofNodes: ofNodes, first: remediator.Metal3, soft: remediator.Example, hard: remediator.Metal3,
		targets: machinesResource, checks: checksResource,
	}
	s.skip, s.remediate = clusterv1.MachineSkipRemediationAnnotation, clusterv1.RemediateMachineAnnotation
	if ofNodes {
		s.skip, s.remediate = remedyv1.SkipRemediationAnnotation, remedyv1.RemediateNodeAnnotation
		s.soft, s.hard = remediator.FenceAgents, remediator.SelfNode
		s.first, s.targets, s.checks = remediator.FenceAgents, "nodes", "nodehealthchecks.remedy.cluster.x-k8s.io"
		options = append(slices.Clone(options), stage.WithAllNamespaces)
	}
	s.requests = s.first.Plural + "." + s.first.Group
	s.Stage = stage.New(t, options...)
	return s
}

// name is the name of the i-th target in the API server, and of its requests.
func (s *kindStage) name(target string) string {
	if s.ofNodes {
		return s.NodeName(target)
	}
	return target
}

// createTargets creates healthy targets.
func (s *kindStage) createTargets(names ...string) {
	s.T.Helper()
	for _, name := range names {
		if s.ofNodes {
			s.CreateNode(name)
		} else {
			s.CreateMachine(name)
		}
	}
}

// createUnhealthy creates targets whose Nodes have been unknown for ten minutes.
func (s *kindStage) createUnhealthy(names ...string) {
	s.T.Helper()
	for _, name := range names {
		s.createTargets(name)
		s.FailNode(name)
	}
}

// target reads a target.
func (s *kindStage) target(name string) client.Object {
	s.T.Helper()
	if s.ofNodes {
		return s.Node(name)
	}
	return stage.Get(s.Stage, &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}})()
}

// moveTo moves a target to another pool: checks select those of the pool of workers.
func (s *kindStage) moveTo(name, pool string) { //nolint:unparam // each caller names its target.
	s.T.Helper()
	target := s.target(name)
	s.Change(target, func() { target.GetLabels()["pool"] = pool })
}

// annotations returns a function that reads the annotations of a target.
func (s *kindStage) annotations(name string) func() map[string]string {
	return func() map[string]string {
		s.T.Helper()
		return s.target(name).GetAnnotations()
	}
}

// machineCondition reads the status and the reason of a condition of a Machine. A Node has no conditions of checks.
func (s *kindStage) machineCondition(name, kind string) string {
	s.T.Helper()
	if s.ofNodes {
		return ""
	}
	return stage.MachineCondition(kind)(s.target(name).(*clusterv1.Machine))
}

// waitMachineCondition waits for the status and the reason of a condition of a Machine.
func (s *kindStage) waitMachineCondition(name, kind, expected string) {
	s.T.Helper()
	if !s.ofNodes {
		s.Eventually(func() string { return s.machineCondition(name, kind) }).Should(Equal(expected))
	}
}

// startThrough runs the reconcilers with calls that a test changes.
func startThrough(s *stage.Stage, call func(next http.RoundTripper, r *http.Request) (*http.Response, error)) *stage.Instance {
	s.T.Helper()
	user := rest.CopyConfig(s.User())
	user.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) { return call(next, r) })
	})
	c, err := s.StartAs(faults.Start(s.Ctx), user)
	s.Expect(err).ToNot(HaveOccurred())
	s.T.Cleanup(c.StopIdle)
	return c
}

// request returns a function that reads the first request for a target; nil if there is none.
func (s *kindStage) request(target string) func() *unstructured.Unstructured {
	return s.Request(s.first, s.name(target))
}

func (s *kindStage) waitRequest(target string) *unstructured.Unstructured {
	s.T.Helper()
	return s.WaitRequest(s.first, s.name(target))
}

// requestWrites are the writes of requests that have succeeded, each with the name that the test gave to the target.
func (s *kindStage) requestWrites(c *stage.Instance) []string {
	all := requestWrites(c)
	for i := range all {
		all[i] = strings.Replace(all[i], s.name(""), "", 1)
	}
	return all
}

// sendsRequest matches a call about requests.
func (s *kindStage) sendsRequest(method string) func(*http.Request, string) bool {
	return func(r *http.Request, _ string) bool {
		return r.Method == method && strings.Contains(r.URL.Path, "/"+s.first.Plural)
	}
}

// starts matches the write that starts a remediation.
func (s *kindStage) starts(r *http.Request, body string) bool {
	if s.byOwner {
		return stage.RequestsOwner(r, body)
	}
	return s.sendsRequest(http.MethodPost)(r, body)
}

// remediation returns a function that reads the remediation of a target: the condition that requests it from the owner, or the name of the
// request. It is empty if there is none.
func (s *kindStage) remediation(target string) func() string {
	return func() string {
		s.T.Helper()
		if s.byOwner {
			return s.machineCondition(target, clusterv1.MachineOwnerRemediatedCondition)
		}
		if request := s.request(target)(); request != nil {
			return request.GetName()
		}
		return ""
	}
}

// recover lets a target recover, and waits until its request no longer exists.
func (s *kindStage) recover(target string) {
	s.T.Helper()
	s.SetReady(target, corev1.ConditionTrue, 0)
	s.Eventually(func() any {
		s.Remediate(s.first, remediator.Succeeds)
		return s.request(target)()
	}).Should(BeNil())
}
