// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package attacks_test

import (
	"testing"

	. "github.com/onsi/gomega"
)

const ownerCheck = `
apiVersion: remedy.cluster.x-k8s.io/v1alpha1
kind: MachineHealthCheck
metadata: {name: replace, namespace: team-a}
spec:
  clusterName: prod
  selector: {matchLabels: {pool: workers}}
  unhealthyMachineConditions: [{type: InfrastructureReady, status: 'True', timeout: 0s}]`

// A tenant that cannot delete Machines has their owners delete them, by a check without a template.
func TestOwnerRemediation_RoleEdit_CannotWriteChecks(t *testing.T) {
	g := installed(t)
	refused(t, "owner remediation by the role edit", tenant(t, teamA).Create(t.Context(), object(g, ownerCheck)))
}

func TestOwnerRemediation_NoDeletePermission_IsDenied(t *testing.T) {
	g := installed(t)
	ctx := t.Context()
	attacker := tenant(t, teamA, writesChecks)
	refused(t, "owner remediation by a check writer", attacker.Create(ctx, object(g, ownerCheck)))

	check := object(g, ownerCheck)
	g.Expect(plane.API.Create(ctx, check)).To(Succeed())
	for attack, change := range map[string]string{
		"selector": "{spec: {selector: {matchLabels: {pool: other}}}}", "limit raised": "{spec: {maxUnhealthy: 100%}}",
		"conditions": "{spec: {unhealthyConditions: [{type: MemoryPressure, status: 'False', timeout: 0s}]}}",
	} {
		refused(t, "owner remediation of another user, "+attack, patch(ctx, attacker, check, change))
	}
	g.Expect(patch(ctx, attacker, check, "{spec: {mode: Observe, pauseRequests: [upgrade]}}")).To(Succeed())

	withTemplate := object(g, metal3Check)
	g.Expect(plane.API.Create(ctx, withTemplate)).To(Succeed())
	refused(t, "template removed, so that owners delete Machines", patch(ctx, attacker, withTemplate, "{spec: {remediationTemplate: null}}"))

	deletes := tenant(t, teamA, writesChecks, rule("delete", "cluster.x-k8s.io", "machines"))
	g.Expect(patch(ctx, deletes, check, "{spec: {selector: {matchLabels: {pool: other}}}}")).To(Succeed())
	elsewhere := tenant(t, teamB, writesChecks, rule("delete", "cluster.x-k8s.io", "machines"))
	refused(t, "owner remediation in a namespace of another tenant", patch(ctx, elsewhere, check, "{spec: {mode: Observe}}"))
}
