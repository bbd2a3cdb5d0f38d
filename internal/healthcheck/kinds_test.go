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

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// kindStage is a stage with targets of one kind: Machines, or Nodes of the management cluster. The engine is the same for both, so its
// tests run with both.
type kindStage struct {
	*stage.Stage
	// ofNodes: the targets are Nodes, and their check is a NodeHealthCheck.
	ofNodes bool
	// first is the kind of requests of the first step.
	first remediator.Kind
	// targets, requests and checks are resources.
	targets, requests, checks string
}

// forEachKind runs a test with Machines and with Nodes.
func forEachKind(t *testing.T, test func(s *kindStage), options ...func(*stage.Stage)) {
	t.Helper()
	for _, name := range []string{"Machines", "Nodes"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newKindStage(t, name == "Nodes", options...))
		})
	}
}

func newKindStage(t *testing.T, ofNodes bool, options ...func(*stage.Stage)) *kindStage {
	t.Helper()
	s := &kindStage{ofNodes: ofNodes, first: remediator.Metal3, targets: machinesResource, checks: checksResource}
	if ofNodes {
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
func (s *kindStage) moveTo(name, pool string) {
	s.T.Helper()
	target := s.target(name)
	s.Change(target, func() { target.GetLabels()["pool"] = pool })
}

// waitMachineCondition waits for the status and the reason of a condition of a Machine. A Node has no conditions of checks.
func (s *kindStage) waitMachineCondition(name, kind, expected string) { //nolint:unparam // each caller names its target.
	s.T.Helper()
	if !s.ofNodes {
		s.Eventually(func() string { return stage.MachineCondition(kind)(s.target(name).(*clusterv1.Machine)) }).Should(Equal(expected))
	}
}

// annotate changes an annotation of a target: its name is one for Machines and another one for Nodes.
func (s *kindStage) annotate(name, ofMachine, ofNode string) {
	s.T.Helper()
	key := ofMachine
	if s.ofNodes {
		key = ofNode
	}
	s.Annotate(s.target(name), key, "yes")
}

// startThrough runs the reconcilers with calls that a test changes.
func (s *kindStage) startThrough(call func(next http.RoundTripper, r *http.Request) (*http.Response, error)) *stage.Instance {
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

// recover lets a target recover, and waits until its request no longer exists.
func (s *kindStage) recover(target string) {
	s.T.Helper()
	s.SetReady(target, corev1.ConditionTrue, 0)
	s.Eventually(func() any {
		s.Remediate(s.first, remediator.Succeeds)
		return s.request(target)()
	}).Should(BeNil())
}
