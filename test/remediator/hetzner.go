// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediator

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

// hetzner reboots the server, waits, and requests owner remediation, at once if the Node does not exist. It has no finalizer, and does
// nothing without an owner Machine, or with a request that is being deleted.
func (r *Remediator) hetzner(ctx context.Context, request *unstructured.Unstructured, outcome Outcome) (bool, error) {
	machine, err := r.machine(ctx, request)
	if err != nil || machine == nil || request.GetDeletionTimestamp() != nil {
		return false, err
	}
	reason := conditions.GetReason(machine, clusterv1.MachineHealthCheckSucceededCondition)
	switch phase := Phase(request); {
	case phase == deletingPhase:
		return false, nil
	case reason == clusterv1.MachineHealthCheckNodeDeletedReason, phase == waitingPhase && outcome == Fails:
		if err := r.handOver(ctx, machine, true); err != nil {
			return false, err
		}
		return true, r.say(ctx, request, deletingPhase, "phase")
	case phase == "":
		return true, r.say(ctx, request, runningPhase, "phase")
	case phase == runningPhase && outcome != Hangs:
		if err := r.work(ctx, machine.Status.NodeRef.Name); err != nil {
			return false, err
		}
		return true, r.say(ctx, request, waitingPhase, "phase")
	}
	return false, nil
}
