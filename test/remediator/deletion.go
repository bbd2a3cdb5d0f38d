// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediator

import (
	"context"
	"strings"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// machineDataAnnotation is on a request whose Machine is deleted: namespace/name of the Machine.
const machineDataAnnotation = "machine-deletion-remediation.medik8s.io/machineNameNamespace"

// deleteMachine finds the Machine of a Node by the annotation of the Node, reports whether the Node comes back, and deletes both. The
// provider ID of the Node stands for the one of the Machine.
func (r *Remediator) deleteMachine(
	ctx context.Context, request *unstructured.Unstructured, node *corev1.Node, t *traits,
) (bool, error) {
	annotations := request.GetAnnotations()
	if annotations[machineDataAnnotation] != "" {
		if err := r.work(ctx, request.GetName()); err != nil {
			return false, err
		}
		return true, r.report(ctx, request, t.reports[succeeded])
	}
	if node == nil {
		return true, r.report(ctx, request, t.reports[nodeNotFound])
	}
	machine := node.Annotations[MachineAnnotation]
	for _, owner := range request.GetOwnerReferences() {
		if owner.Kind == "Machine" {
			// It is looked for among those of OpenShift.
			machine = ""
		}
	}
	if machine == "" {
		return true, r.report(ctx, request, t.reports[machineNotFound])
	}
	if Condition(request, deletionCondition) == "" {
		return true, r.report(ctx, request, only("MachineDeleted", map[string]corev1.ConditionStatus{deletionCondition: permanent(node)}))
	}
	uid := node.UID
	if err := r.nodes().Delete(ctx, node, &client.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}); err != nil {
		return false, errors.WithStack(client.IgnoreNotFound(err))
	}
	annotations[machineDataAnnotation] = machine
	request.SetAnnotations(annotations)
	return true, r.update(ctx, request)
}

// permanent reports whether a Node does not come back under its name: a bare-metal server does, and an instance of a cloud does not.
func permanent(node *corev1.Node) corev1.ConditionStatus {
	switch {
	case node.Spec.ProviderID == "":
		return unknown
	case strings.HasPrefix(node.Spec.ProviderID, "baremetal"):
		return no
	}
	return yes
}
