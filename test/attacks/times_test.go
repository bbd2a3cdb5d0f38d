// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package attacks_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// The token of a kubelet may write every time into the conditions of its own Node. The API server accepts these times, and rejects them in
// the status of a check. The status has to report the other targets, and the check must not be kept from its deletion.
func TestTimes_OutsideOfAPI_HideNothing(t *testing.T) {
	t.Parallel()
	for name, transition := range map[string]string{"year -1": "0000-01-01T00:00:00+14:00", "year 10000": "9999-12-31T23:59:59-14:00"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t)
			s.CreateMachine("m-1")
			s.CreateUnhealthyMachine("m-2")
			node := s.Node("m-1")
			conditions := fmt.Sprintf(
				`{"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"Attack","lastTransitionTime":%q}]}}`, transition)
			s.Expect(s.Workload.Status().Patch(s.Ctx, node, client.RawPatch(types.StrategicMergePatchType, []byte(conditions)))).To(Succeed())

			check := s.CreateCheck("workers")
			s.Start()
			targets := func() []string {
				names := make([]string, 0, 2)
				for _, target := range stage.Get(s, check)().Status.UnhealthyTargets {
					names = append(names, target.Name)
				}
				return names
			}
			s.Eventually(targets).Should(Equal([]string{"m-1", "m-2"}))
			s.Expect(check.Status.UnhealthyTargets).To(HaveEach(HaveField("Reason", remedyv1.TargetReason("UnhealthyNode"))))
			s.Expect(s.Admin.Delete(s.Ctx, check)).To(Succeed())
			s.Eventually(s.Checks).Should(BeEmpty())
			outcome(t, "a Node with lastTransitionTime %s: the status lists both unhealthy Machines, and the check was deleted", transition)
		})
	}
}

// requestTimes are the times of a request: when the manager has started it, and when the API server has created it.
var requestTimes = regexp.MustCompile(`"remedy.cluster.x-k8s.io/started":"[^"]*",?|"creationTimestamp":"[^"]*"`)

// The API server of a workload cluster returns requests with times that the management API server does not accept. The check reports the
// end of the remediation nevertheless.
func TestTimes_RequestsInWorkload_HideNothing(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateNode("n-1")
	s.CreateNode("n-3")
	s.CreateUnhealthyNode("n-2")
	s.Expect(stage.Workload.InstallCRDObjects(remediator.FenceAgents.CRDs()...)).To(Succeed())
	s.Expect(s.Workload.Create(s.Ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}})).To(Succeed())
	template := remediator.FenceAgents.NewTemplate(s.Namespace, "reboot", map[string]any{"agent": "fence_ipmilan"})
	s.Expect(s.Workload.Create(s.Ctx, template)).To(Succeed())
	hostileLists(s, remediator.FenceAgents.Plural, func(list string) string {
		return requestTimes.ReplaceAllStringFunc(list, func(field string) string {
			if strings.Contains(field, "creation") {
				return `"creationTimestamp":"0000-01-01T00:00:00+14:00"`
			}
			return ""
		})
	})
	check := s.CreateNodeCheck("workers", func(spec *remedyv1.NodeHealthCheckSpec) {
		spec.TemplateLocation = remedyv1.WorkloadLocation
		spec.RemediationTemplate = stage.NodeTemplateReference(s, remediator.FenceAgents, "reboot")
	})
	s.Start().NeverIdle = true
	s.Eventually(stage.Get(s, check)).Should(HaveField("Status.InFlightRemediations", HaveLen(1)))
	s.SetReady("n-2", corev1.ConditionTrue, 0)
	s.Eventually(stage.Get(s, check)).Should(And(
		HaveField("Status.HealthyNodes", HaveValue(BeEquivalentTo(3))), HaveField("Status.InFlightRemediations", BeEmpty())))
	outcome(t, "requests with creationTimestamp in the year -1: the status reports the end of the remediation")
}

// The API server of a workload cluster returns a Node with a name that no API server accepts. The other Nodes are reported.
func TestAnswers_InvalidNodeName_HidesNothing(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateNode("n-1")
	s.CreateUnhealthyNode("n-2")
	labels := fmt.Sprintf(`{"test.invalid/stage":%q,"pool":"workers"}`, s.Namespace)
	hostileLists(s, "nodes", func(list string) string {
		forged := fmt.Sprintf(`{"metadata":{"name":"a%s","uid":"x","resourceVersion":"1","labels":%s},"status":{"conditions":[`+
			`{"type":"Ready","status":"Unknown","lastTransitionTime":%q}]}}`,
			strings.Repeat("-a", 200), labels, time.Now().Add(-time.Hour).UTC().Format(time.RFC3339))
		return strings.Replace(list, `"items":[`, `"items":[`+forged+",", 1)
	})
	check := s.CreateNodeCheck("workers", func(spec *remedyv1.NodeHealthCheckSpec) { spec.Mode = remedyv1.ObserveMode })
	s.Start().NeverIdle = true
	s.Eventually(func() (names []string) {
		for _, target := range stage.Get(s, check)().Status.UnhealthyTargets {
			names = append(names, target.Name)
		}
		return names
	}).Should(Equal([]string{s.NodeName("n-2")}))
	s.Expect(check.Status.ObservedNodes).To(HaveValue(BeEquivalentTo(2)))
	outcome(t, "a Node with a name of 401 characters: the status reports the other Nodes")
}
