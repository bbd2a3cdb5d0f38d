// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
)

// Where people look first, and where they find out why.
var (
	overview = []string{"get", "rmhc", "workers", "-n", wardName}
	allowed  = []string{"get", "rmhc", "workers", "-n", wardName, `-o=jsonpath={.status.conditions[?(@.type=="RemediationAllowed")].message}`}
	targets  = []string{"get", "rmhc", "workers", "-n", wardName, "-o=custom-columns=MACHINES:.status.unhealthyTargets[*].name,DECISIONS:.status.unhealthyTargets[*].decision,WHY:.status.unhealthyTargets[*].message"}
	machine  = []string{
		"get", "machine", "worker-1", "-n", wardName,
		`-o=jsonpath={range .status.conditions[*]}{.type}{"="}{.status}{" "}{.reason}{": "}{.message}{"\n"}{end}`,
	}
)

// shift is what the product is there for: a Node falls silent, then others do, and in the end all are well.
func shift(ctx context.Context, cp *controlplane.ControlPlane, k *kubectl) error {
	say("A Cluster with three workers, and a check that calls a Node sick when it has been silent for five seconds")
	w, err := newWard(ctx, cp, k)
	if err != nil {
		return err
	}
	if err := w.until(ctx, healthy(workers)); err != nil {
		return err
	}
	if err := k.run(ctx, overview...); err != nil {
		return err
	}

	say("The Node of worker-1 falls silent: its owner is asked to replace the Machine, and everybody is told why")
	if err := w.turn(ctx, corev1.ConditionUnknown, w.machines[0]); err != nil {
		return err
	}
	if err := w.until(ctx, remediating); err != nil {
		return err
	}
	for _, command := range [][]string{overview, targets, machine} {
		if err := k.run(ctx, command...); err != nil {
			return err
		}
	}

	say("The others fall silent, too: more than maxUnhealthy=40% allows, so that nothing more is begun, and why is in plain sight")
	if err := w.turn(ctx, corev1.ConditionUnknown, w.machines[1:]...); err != nil {
		return err
	}
	if err := w.until(ctx, says(remedyv1.RemediationAllowedCondition, remedyv1.TooManyUnhealthyReason)); err != nil {
		return err
	}
	if err := w.until(ctx, healthy(0)); err != nil {
		return err
	}
	for _, command := range [][]string{overview, allowed} {
		if err := k.run(ctx, command...); err != nil {
			return err
		}
	}

	say("All are heard of again (what an owner was asked is the owner's to clear, and nobody plays Cluster API here)")
	if err := w.turn(ctx, corev1.ConditionTrue, w.machines...); err != nil {
		return err
	}
	if err := w.until(ctx, healthy(workers)); err != nil {
		return err
	}
	for _, command := range [][]string{overview, machine} {
		if err := k.run(ctx, command...); err != nil {
			return err
		}
	}
	return nil
}

// remediating: one of them is being remediated.
func remediating(s *remedyv1.MachineHealthCheckStatus) bool {
	return len(s.UnhealthyTargets) == 1 && s.UnhealthyTargets[0].Decision == remedyv1.Remediating
}
