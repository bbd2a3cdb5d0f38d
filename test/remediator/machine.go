// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediator

import (
	"context"
	"slices"
	"strings"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	deprecated "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The phases of the remediators of infrastructure providers.
const (
	runningPhase  = "Running"
	waitingPhase  = "Waiting"
	failedPhase   = "Failed"
	deletingPhase = "Deleting machine"
)

// Phase is the phase in the status of a request.
func Phase(request *unstructured.Unstructured) string {
	phase, _, _ := unstructured.NestedString(request.Object, "status", "phase")
	return phase
}

// machine reads the Machine that owns a request; nil if none does.
func (r *Remediator) machine(ctx context.Context, request *unstructured.Unstructured) (*clusterv1.Machine, error) {
	owners := request.GetOwnerReferences()
	at := slices.IndexFunc(owners, func(owner metav1.OwnerReference) bool {
		group, _, _ := strings.Cut(owner.APIVersion, "/")
		return group == clusterv1.GroupVersion.Group && owner.Kind == "Machine"
	})
	if at < 0 {
		return nil, nil
	}
	machine := &clusterv1.Machine{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: request.GetNamespace(), Name: owners[at].Name}, machine)
	if apierrors.IsNotFound(err) {
		return nil, stuck("Machine %s not found", owners[at].Name)
	}
	return machine, errors.WithStack(err)
}

// handOver requests owner remediation in v1beta1, and in both generations of conditions if it is current.
func (r *Remediator) handOver(ctx context.Context, machine *clusterv1.Machine, current bool) error {
	before := machine.DeepCopy()
	deprecated.MarkFalse(machine, clusterv1.MachineOwnerRemediatedV1Beta1Condition,
		clusterv1.WaitingForRemediationV1Beta1Reason, clusterv1.ConditionSeverityWarning, "")
	if current {
		conditions.Set(machine, metav1.Condition{
			Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse,
			Reason: clusterv1.MachineOwnerRemediatedWaitingForRemediationReason,
		})
	}
	return errors.WithStack(r.Client.Status().Patch(ctx, machine, client.MergeFrom(before)))
}
