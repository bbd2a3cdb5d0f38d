// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/report"
)

// Actor writes annotations and conditions of Machines, each time to the version that was read.
type Actor struct{ Client client.Client }

// Annotate sets annotations.
func (a Actor) Annotate(ctx context.Context, _ client.ObjectKey, object client.Object, n notes.Notes) (client.Object, error) {
	before := object.(*clusterv1.Machine)
	after := before.DeepCopy()
	after.Annotations, _ = n.Apply(before.Annotations)
	return after, a.Client.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// Reported reports whether the Machine has these conditions already.
func (Actor) Reported(object client.Object, facts *explain.Facts, check *remediation.Check) bool {
	wanted := explain.ForMachine(facts, check)
	return report.HasConditions(object.(*clusterv1.Machine), &wanted)
}

// Report sets the conditions for the health of the Machine and for its remediation.
func (a Actor) Report(
	ctx context.Context, object client.Object, facts *explain.Facts, check *remediation.Check, now time.Time,
) (client.Object, error) {
	wanted := explain.ForMachine(facts, check)
	return a.patchStatus(ctx, object, func(m *clusterv1.Machine) { report.SetConditions(m, &wanted, now) })
}

// CancelOwnerRemediation removes what the owner was asked.
func (a Actor) CancelOwnerRemediation(ctx context.Context, object client.Object) (client.Object, error) {
	return a.patchStatus(ctx, object, report.CancelOwnerRemediation)
}

// ClearConditions removes all conditions that the check has set.
func (a Actor) ClearConditions(ctx context.Context, object client.Object) (client.Object, error) {
	return a.patchStatus(ctx, object, report.RemoveConditions)
}

func (a Actor) patchStatus(ctx context.Context, object client.Object, change func(*clusterv1.Machine)) (client.Object, error) {
	before := object.(*clusterv1.Machine)
	after := before.DeepCopy()
	change(after)
	return after, a.Client.Status().Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}
