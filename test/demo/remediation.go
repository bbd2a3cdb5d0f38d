// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
)

// The commands that the demo shows.
var (
	overview = []string{"get", "rmhc", "workers", "-n", namespace}
	allowed  = []string{"get", "rmhc", "workers", "-n", namespace, `-o=jsonpath={.status.conditions[?(@.type=="RemediationAllowed")].message}`}
	targets  = []string{
		"get", "rmhc", "workers", "-n", namespace, "-o=custom-columns=" +
			"MACHINES:.status.unhealthyTargets[*].name," +
			"DECISIONS:.status.unhealthyTargets[*].decision," +
			"WHY:.status.unhealthyTargets[*].message",
	}
	machine = []string{
		"get", "machine", "worker-1", "-n", namespace,
		`-o=jsonpath={range .status.conditions[*]}{.type}{"="}{.status}{" "}{.reason}{": "}{.message}{"\n"}{end}`,
	}
)

// showRemediation shows a remediation: a Node becomes Unknown, then all Nodes do, and then all are Ready again.
func showRemediation(ctx context.Context, cp *controlplane.ControlPlane, k *kubectl) error {
	say("A Cluster with three workers and a MachineHealthCheck: a Node is unhealthy when Ready has been Unknown for five seconds")
	c, err := newDemoCluster(ctx, cp, k)
	if err != nil {
		return err
	}
	if err := c.until(ctx, healthy(workers)); err != nil {
		return err
	}
	if err := k.run(ctx, overview...); err != nil {
		return err
	}

	say("The Node of worker-1 becomes Unknown: Remedy requests owner remediation, and the status reports why")
	if err := c.setReady(ctx, corev1.ConditionUnknown, c.machines[0]); err != nil {
		return err
	}
	if err := c.until(ctx, remediating); err != nil {
		return err
	}
	for _, command := range [][]string{overview, targets, machine} {
		if err := k.run(ctx, command...); err != nil {
			return err
		}
	}

	say("All Nodes become Unknown. That is more than maxUnhealthy=40% allows, so remediation is blocked, and the status reports why")
	if err := c.setReady(ctx, corev1.ConditionUnknown, c.machines[1:]...); err != nil {
		return err
	}
	if err := c.until(ctx, hasReason(remedyv1.RemediationAllowedCondition, remedyv1.TooManyUnhealthyReason)); err != nil {
		return err
	}
	if err := c.until(ctx, healthy(0)); err != nil {
		return err
	}
	for _, command := range [][]string{overview, allowed} {
		if err := k.run(ctx, command...); err != nil {
			return err
		}
	}

	say("All Nodes are Ready again. OwnerRemediated=False stays, because only Cluster API clears it, and the demo does not run Cluster API")
	if err := c.setReady(ctx, corev1.ConditionTrue, c.machines...); err != nil {
		return err
	}
	if err := c.until(ctx, healthy(workers)); err != nil {
		return err
	}
	for _, command := range [][]string{overview, machine} {
		if err := k.run(ctx, command...); err != nil {
			return err
		}
	}
	return nil
}

// remediating matches a status in which one Machine is being remediated.
func remediating(s *remedyv1.MachineHealthCheckStatus) bool {
	return len(s.UnhealthyTargets) == 1 && s.UnhealthyTargets[0].Decision == remedyv1.Remediating
}
