// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
)

const nodeRemedy = "node-remedy"

// threshold is a patch that replaces the thresholds by one with other fields.
func threshold(fields string) string {
	return "{spec: {thresholdConfigs: [{nodeConditionType: Ready, nodeConditionStatus: 'False', nodeConditionPeriod: 5m, " + fields + "}]}}"
}

var remedyRows = []row{
	{name: "everything"},
	{name: "of this cluster", patch: "{spec: {clusterRef: null, nodeSelector: null, namespace: remedy-system}}"},
	{name: "nothing to do", patch: "{spec: {remedyConfigs: null, thresholdConfigs: [{nodeConditionType: Ready, nodeConditionStatus: 'False', nodeConditionPeriod: 5m}]}}"},
	{name: "a long name", patch: "{metadata: {name: " + strings.Repeat("a", 64) + "}}", message: "the name must have at most 63 characters: it is the name of the generated FenceProfile"},
	{name: "another namespace", patch: "{spec: {namespace: other}}", at: "spec.namespace", message: "namespace must be that of clusterRef: the requests of a Cluster are in its namespace"},
	{name: "namespace", patch: "{spec: {clusterRef: null, namespace: A_b}}", at: "spec.namespace", message: "must be the name of a namespace"},
	{name: "namespace changed", update: true, patch: "{spec: {namespace: other, clusterRef: {namespace: other}}}", at: "spec.namespace", message: "cannot be changed: create another NodeRemedy for the other namespace"},
	{name: "clusterRef changed", update: true, patch: "{spec: {clusterRef: {name: prod-2}}}", message: "clusterRef cannot be changed: create another NodeRemedy for the other Cluster"},
	{name: "clusterRef removed", update: true, patch: "{spec: {clusterRef: null}}", message: "clusterRef cannot be changed: create another NodeRemedy for the other Cluster"},
	{name: "Ready", patch: threshold("nodeConditionStatus: 'True'"), message: "a Ready Node is healthy, so every healthy Node would be remediated: use status False or Unknown"},
	{name: "a short period", patch: threshold("remedies: [{name: repair, period: 59s}]"), message: "must be at least 1m: a remedy needs time to act"},
	{name: "twice", patch: "{spec: {thresholdConfigs: [" + strings.Repeat("{nodeConditionType: Ready, nodeConditionStatus: 'False', nodeConditionPeriod: 5m},", 2) + "]}}", at: "spec.thresholdConfigs", message: "a condition is listed twice with the same status: keep one of them"},
	{name: "name of a remedy", patch: threshold("remedies: [{name: A_b}]"), message: "must be the name of a remedy, such as reboot: lower case letters, digits or '-', beginning and ending with a letter or digit"},
	{name: "neither", patch: "{spec: {remedyConfigs: [{name: repair}]}}", message: "a remedy has either a podTemplate or a fence"},
	{name: "both", patch: "{spec: {remedyConfigs: [{name: repair, fence: {}, podTemplate: {}}]}}", message: "a remedy has either a podTemplate or a fence"},
	{name: "powerOff of a fence", patch: "{spec: {remedyConfigs: [{name: repair, fence: {}, powerOff: true}]}}", message: "powerOff needs a podTemplate: a fence names its methods"},
}

func TestNodeRemedyRules_Row_IsAcceptedOrRejected(t *testing.T) {
	fences.Use(t)
	for _, r := range remedyRows {
		t.Run(r.name, func(t *testing.T) {
			g := NewWithT(t)
			r.base = nodeRemedy
			err := tryFence(t, r)
			if r.message == "" {
				g.Expect(err).ToNot(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(And(ContainSubstring(r.message), ContainSubstring(r.at))))
		})
	}
}

// The rules of selectors, limits and fences are tested with the kinds that they are from.
func TestNodeRemedyRules_Each_RejectsARow(t *testing.T) {
	g := NewWithT(t)
	rejected := make([]string, 0, len(remedyRows))
	for _, r := range remedyRows {
		rejected = append(rejected, r.message)
	}
	total := 0
	crd := definitionsIn(t, filepath.Join(fencing, "crd", "bases"))["NodeRemedy"]
	visit(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, "", func(s *apiextensionsv1.JSONSchemaProps, path string) {
		for _, rule := range s.XValidations {
			shared := regexp.MustCompile(`fence|[.]max|[.]min|Selector|[.]backoff|[.]unhealthyRange`).MatchString(path)
			if !shared && (strings.Contains(rule.Message, "remed") || strings.Contains(rule.Message, "NodeRemedy")) {
				total++
				g.Expect(rejected).To(ContainElement(rule.Message), path)
			}
		}
	})
	g.Expect(total).To(BeNumerically(">", 7))
}

// The maxima of the lists leave room in the budget of the API server for rules.
func TestNodeRemedyRules_LargeOne_IsAccepted(t *testing.T) {
	fences.Use(t)
	g := NewWithT(t)
	thresholds, remedies, uses := make([]string, 0, 10), make([]string, 0, 12), make([]string, 0, 10)
	for i := range 10 {
		uses = append(uses, fmt.Sprintf("{name: r%d, period: 3m}", i))
	}
	for i := range 10 {
		thresholds = append(thresholds, fmt.Sprintf("{nodeConditionType: %s%d, nodeConditionStatus: 'True', nodeConditionPeriod: 5m, remedies: [%s]}",
			strings.Repeat("a", 315), i, strings.Join(uses, ", ")))
	}
	conditions := strings.Repeat("{type: "+strings.Repeat("a", 316)+", status: 'True'}, ", 16)
	for i := range 12 {
		remedies = append(remedies, fmt.Sprintf("{name: r%d, fence: {profileName: rack-a, limits: {blockingConditions: [%s]}}}", i, conditions))
	}
	large := patched(g, example(t, nodeRemedy),
		"{spec: {thresholdConfigs: ["+strings.Join(thresholds, ", ")+"], remedyConfigs: ["+strings.Join(remedies, ", ")+"]}}")
	g.Expect(tryCreate(t.Context(), fences.API, large)).To(Succeed())
}

// The fencing manager writes with its own permissions what a NodeRemedy generates.
func TestFencingPolicy_NodeRemedyWithoutPermission_IsDenied(t *testing.T) {
	g := NewWithT(t)
	fences.Use(t)
	const (
		checksDenied = "a NodeRemedy requires permission to create nodehealthchecks.remedy.cluster.x-k8s.io"
		fencesDenied = "a NodeRemedy requires permission to create nodefences and nodefencetemplates of remedy.cluster.x-k8s.io in namespace default"
		podsDenied   = "a NodeRemedy with a podTemplate requires permission to create jobs.batch and fenceprofiles.remedy.cluster.x-k8s.io in namespace default"
	)
	writes, nodeChecks := to("get,create,update,patch", checks, "noderemedies"), to("create", checks, "nodehealthchecks")
	requests, jobs, profiles := to("create", checks, "nodefences,nodefencetemplates"), to("create", "batch", "jobs"), to("create", checks, "fenceprofiles")
	users := map[string]client.Client{}
	for _, name := range []string{"author", "checker", "fencer", "job-fencer", "all", "elsewhere"} {
		user := controlplane.User{Name: "remedy-" + name}
		fences.Grant(t, user, "", writes)
		if name != "author" {
			fences.Grant(t, user, "", nodeChecks)
		}
		switch name {
		case "fencer":
			fences.Grant(t, user, "default", requests)
		case "job-fencer":
			fences.Grant(t, user, "default", requests, jobs)
		case "all":
			fences.Grant(t, user, "default", requests, jobs, profiles)
		case "elsewhere":
			fences.Grant(t, user, "remedy-system", requests, jobs, profiles)
		}
		users[name] = fences.As(t, user)
	}
	full := example(t, nodeRemedy)
	fencesOnly := patched(g, full, "{spec: {remedyConfigs: [{name: repair, fence: {}}, {name: rack, fence: {}}]}}")
	untilPoliciesWork(g, func() error { return tryCreate(t.Context(), users["author"], full) }, checksDenied)
	for name, denial := range map[string]string{
		"author": checksDenied, "checker": fencesDenied, "elsewhere": fencesDenied, "fencer": podsDenied, "job-fencer": podsDenied,
	} {
		g.Expect(tryCreate(t.Context(), users[name], full)).To(MatchError(ContainSubstring(denial)), name)
	}
	g.Expect(tryCreate(t.Context(), users["all"], full)).To(Succeed())
	g.Expect(tryCreate(t.Context(), users["fencer"], fencesOnly)).To(Succeed())

	fences.CreateUntilEnd(t, full)
	g.Expect(tryUpdate(t, users["fencer"], full, "{spec: {maxInFlight: 2}}")).To(MatchError(ContainSubstring(podsDenied)))
	g.Expect(tryUpdate(t, users["author"], full, "{metadata: {annotations: {cluster.x-k8s.io/paused: ''}, finalizers: [a.b/c]}}")).To(Succeed())
	g.Expect(tryUpdate(t, users["all"], full, "{spec: {maxInFlight: 2}}")).To(Succeed())
}
