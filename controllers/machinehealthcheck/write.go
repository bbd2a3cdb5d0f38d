// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"slices"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/checkup"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/report"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
)

// WriteCheck is one write to the check, or for it.
func (v *visit) WriteCheck(ctx context.Context, plan *remediation.Planned, write remediation.CheckWrite) error {
	switch write {
	case remediation.AddFinalizer:
		return v.patchCheck(ctx, func(check *remedyv1.MachineHealthCheck) {
			controllerutil.AddFinalizer(check, remedyv1.CleanupFinalizer)
			noteKinds(check)
		})
	case remediation.NoteStorm:
		return v.noteOnCheck(ctx, notes.OfStorm(plan.Storm))
	case remediation.NoteReplacing:
		return v.noteOnCheck(ctx, notes.OfReplacing(plan.Replacing))
	case remediation.ReleaseTurn:
		return v.releaseTurn(ctx)
	case remediation.RemoveFinalizer:
		return v.release(ctx)
	}
	return errors.Errorf("no such write to a check: %d", write)
}

func (v *visit) noteOnCheck(ctx context.Context, n notes.Notes) error {
	return v.patchCheck(ctx, func(check *remedyv1.MachineHealthCheck) { check.Annotations, _ = n.On(check.Annotations) })
}

// patchCheck changes the check as it was seen, or not at all.
func (v *visit) patchCheck(ctx context.Context, change func(*remedyv1.MachineHealthCheck)) error {
	check := v.check.DeepCopy()
	change(check)
	err := v.r.Checks.write(ctx, v.r.Client, v.check, check)
	if apierrors.IsNotFound(err) && !v.check.DeletionTimestamp.IsZero() {
		return nil
	}
	if err == nil {
		v.check, v.record.version = check, check.ResourceVersion
	}
	return err
}

// WriteTarget is one write for a Machine.
func (v *visit) WriteTarget(ctx context.Context, target int, verdict *health.Verdict, d *remediation.Decision, write remediation.Write) error {
	m := v.seen.machines[target]
	switch write { //nolint:exhaustive // strays have the others in common with targets
	case remediation.CreateRequest:
		return v.createRequest(ctx, m, d)
	case remediation.SetMark:
		return v.tellMachine(ctx, target, verdict, d)
	case remediation.DropConfirmation:
		return v.dropConfirmation(ctx, m.Status.NodeRef.Name)
	}
	return v.write(ctx, m, v.seen.requestFor(m), d, write)
}

// WriteStray is one write for a Machine that the check does not look after any more, or for what it has left of one that is gone.
func (v *visit) WriteStray(ctx context.Context, stray int, d *remediation.Decision, write remediation.Write) error {
	left := &v.seen.left[stray]
	if err := v.stillStray(ctx, left); err != nil {
		return err
	}
	return v.write(ctx, left.machine, left.request, d, write)
}

// write is what targets and strays have in common.
func (v *visit) write(ctx context.Context, m *clusterv1.Machine, request *requests.Found, d *remediation.Decision, write remediation.Write) error {
	switch write { //nolint:exhaustive // the others are about targets only
	case remediation.NoteLedger:
		return v.noteOnMachine(ctx, m, notes.OfLedger(&d.Ledger))
	case remediation.NoteNodeGone:
		return v.noteOnMachine(ctx, m, notes.OfNodeGoneSince(d.NodeGoneSince))
	case remediation.SetAuthor:
		return v.noteOnMachine(ctx, m, notes.OfAuthor(author(v.seen.check)))
	case remediation.DropAuthor:
		return v.noteOnMachine(ctx, m, notes.OfAuthor(""))
	case remediation.RemoveMark:
		return v.patchStatus(ctx, m, report.TakeBackMark)
	case remediation.ClearMarks:
		if err := v.patchStatus(ctx, m, report.ClearMachine); err != nil {
			return err
		}
		return v.noteOnMachine(ctx, m, notes.OfAuthor(""))
	case remediation.TakeTurn:
		return v.takeTurn(ctx, d.TurnUntil)
	case remediation.NoteRecovery:
		return v.r.Requests.NoteRecovery(ctx, request, d.HealthySince)
	case remediation.TellToStop:
		return v.r.Requests.TellToStop(ctx, request, v.now)
	case remediation.DeleteRequest:
		return v.r.Requests.Delete(ctx, request)
	}
	return errors.Errorf("no such write for a Machine: %d", write)
}

// noteOnMachine changes annotations of our own on a Machine as it was seen, or not at all.
func (v *visit) noteOnMachine(ctx context.Context, m *clusterv1.Machine, n notes.Notes) error {
	before := v.latest(m)
	noted, changes := n.On(before.Annotations)
	if !changes {
		return nil
	}
	after := before.DeepCopy()
	after.Annotations = noted
	return v.patched(after, v.r.Client.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}

// patchStatus changes conditions of a Machine as it was seen, or not at all.
func (v *visit) patchStatus(ctx context.Context, m *clusterv1.Machine, change func(*clusterv1.Machine)) error {
	before := v.latest(m)
	after := before.DeepCopy()
	change(after)
	return v.patched(after, v.r.Client.Status().Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}

// latest is a Machine after our own writes in this pass.
func (v *visit) latest(m *clusterv1.Machine) *clusterv1.Machine {
	if written, found := v.machines[m.Name]; found {
		return written
	}
	return m
}

// errGone is what a write to a Machine returns that went between the look and the write. The news of that are on their way.
var errGone = errors.New("the Machine is gone")

func (v *visit) patched(after *clusterv1.Machine, err error) error {
	if apierrors.IsNotFound(err) {
		return errGone
	}
	if err == nil {
		v.machines[after.Name] = after
	}
	return errors.Wrap(err, "failed to write to the Machine")
}

// createRequest makes the request of a step. What the API server refuses for what it says is no failure of ours.
func (v *visit) createRequest(ctx context.Context, m *clusterv1.Machine, d *remediation.Decision) error {
	template, found := v.seen.template(d.Step)
	if !found {
		return errors.Errorf("the check names no template %s", d.Step.Template)
	}
	if !slices.Contains(notes.RequestKinds(v.check.Annotations), template.RequestKind()) {
		return errors.Errorf("%s does not note yet that it creates requests of kind %s", titleOf(v.check), template.RequestKind().GroupKind())
	}
	request := rejectedRequest{m.UID, d.Step, v.seen.check.UID, v.seen.check.Generation}
	if known := v.record.rejection(request, v.clock()); known != nil {
		return known
	}
	made, _, err := v.r.Requests.Create(ctx, &requests.Draft{
		Check: identity(v.seen.check), Target: asTarget(m), Template: template, Order: d.Step.Order, Attempt: d.Attempt, Started: v.clock(),
		ControlPlane: util.IsControlPlaneMachine(m), Cluster: client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.ClusterName},
	})
	if err != nil && refuses(err) {
		refusal := &checkup.RefusedError{Message: err.Error(), Cause: err}
		v.record.reject(request, refusal, v.clock())
		return refusal
	}
	if err == nil {
		v.made[m.Name] = made.Ref()
	}
	return err
}

// refuses says whether an error will stay as long as nobody changes anything.
func refuses(err error) bool {
	var taken *requests.NameTakenError
	var template *requests.TemplateError
	return errors.As(err, &taken) || errors.As(err, &template) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err)
}

// dropConfirmation takes a person's confirmation off a Node.
func (v *visit) dropConfirmation(ctx context.Context, node string) error {
	api, err := v.cluster().Client(ctx)
	if err != nil {
		return err
	}
	found := &corev1.Node{}
	if err := api.Get(ctx, client.ObjectKey{Name: node}, found); err != nil {
		return errors.Wrap(client.IgnoreNotFound(err), "failed to read the Node")
	}
	before := found.DeepCopy()
	delete(found.Annotations, remedyv1.ConfirmedHealthyAnnotation)
	err = api.Patch(ctx, found, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	return errors.Wrap(client.IgnoreNotFound(err), "failed to take the confirmation off the Node")
}
