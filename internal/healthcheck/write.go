// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pkg/errors"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/pipeline"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// scope is one reconcile of one check: what it has read and written.
type scope struct {
	r        *Reconciler
	record   *record
	snapshot *snapshot
	// requests are those of the cluster with the requests of the check.
	requests *requests.Requests
	now      time.Time
	// livePreflight is when the last preflight check, or live read of the check, began.
	livePreflight time.Time
	// Several targets are written to at the same time. mu protects objects, created and nodeLeases, and is held during no call. Only the
	// writes that need the check or the control-plane Lease wait for one another: checkMu and leaseMu are held during their calls.
	mu, checkMu, leaseMu sync.Mutex
	// check and objects, by name, include the own writes and what preflight checks have read, so the next write does not conflict.
	check   *Check
	objects map[string]client.Object
	// lease is the control-plane Lease as it was read last; nil if there was none. nodeLeases are those of Nodes.
	lease      *coordinationv1.Lease
	nodeLeases *workload.NodeRemediations
	// silent: nothing is reported on objects, because a live read found the check or its Cluster paused, or another instance responsible.
	// pausedNow are targets that a live read found paused.
	silent    bool
	pausedNow map[string]bool
	// facts are those of the snapshot, and created the requests that this reconcile has created, by the names of their targets.
	facts   *pipeline.Facts
	created map[string]*remedyv1.RequestReference
	// unlisted are the kinds of requests that could not be listed in this reconcile.
	unlisted map[schema.GroupVersionKind]bool
}

func newScope(r *Reconciler, record *record, check *Check, now time.Time) *scope {
	return &scope{
		r: r, record: record, now: now, check: check,
		objects: map[string]client.Object{}, pausedNow: map[string]bool{}, created: map[string]*remedyv1.RequestReference{},
		unlisted: map[schema.GroupVersionKind]bool{},
	}
}

// clock returns the present time, which is later than that of the facts in a long reconcile.
func (p *scope) clock() time.Time { return p.r.Clock.Now().Truncate(notes.Precision) }

// startWrites are left out for a request that was rejected.
var startWrites = []remediation.Write{remediation.AcquireLease, remediation.AcquireControlPlaneLease, remediation.CreateRequest}

// WriteTarget executes one write for a target. Its error names the target.
func (p *scope) WriteTarget(
	ctx context.Context, target int, verdict *health.Verdict, d *remediation.Decision, write remediation.Write,
) error {
	return errors.Wrap(p.writeTarget(ctx, target, verdict, d, write), p.snapshot.targets[target].title())
}

func (p *scope) writeTarget(
	ctx context.Context, target int, verdict *health.Verdict, d *remediation.Decision, write remediation.Write,
) error {
	t := p.snapshot.targets[target]
	// Not even a Lease is acquired for a request that was rejected, until it is retried.
	if d.Action == remediation.StartRequest && slices.Contains(startWrites, write) {
		if known := p.record.rejection(p.requestIdentity(t, d), p.clock()); known != nil {
			return known
		}
	}
	switch write { //nolint:exhaustive // orphaned targets have the others in common
	case remediation.CreateRequest:
		return p.createRequest(ctx, t, d)
	case remediation.SetOwnerRemediated:
		return p.requestOwnerRemediation(ctx, target, verdict, d)
	case remediation.RemoveConfirmation:
		return p.dropConfirmation(ctx, t.NodeTarget.Name)
	}
	return p.write(ctx, t, p.snapshot.requestFor(t), d, write)
}

// WriteOrphan executes one write for an orphaned target, or for the request of a target that no longer exists. Its error names either.
func (p *scope) WriteOrphan(ctx context.Context, orphan int, d *remediation.Decision, write remediation.Write) error {
	left := &p.snapshot.orphans[orphan]
	err := p.stillOrphaned(ctx, left)
	if err == nil {
		err = p.write(ctx, left.target, left.request, d, write)
	}
	return errors.Wrap(err, left.title())
}

// write executes the writes that targets and orphaned targets have in common.
func (p *scope) write(ctx context.Context, t *Target, request *requests.Request, d *remediation.Decision, write remediation.Write) error {
	if p.snapshot.requestsUnread != nil {
		return p.snapshot.requestsUnread
	}
	switch write { //nolint:exhaustive // the others are about targets only
	case remediation.WriteHistory:
		return p.annotate(ctx, t, notes.OfHistory(&d.History))
	case remediation.WriteNodeGone:
		return p.annotate(ctx, t, notes.OfNodeGoneSince(d.NodeGoneSince))
	case remediation.SetMarkedBy:
		mark := notes.OfResponsibleCheck(p.snapshot.check.MarkedBy())
		// A condition that is there already stays, and so does its annotation.
		if m, is := p.latest(t).(*clusterv1.Machine); is && !d.HandsOver && !conditions.IsFalse(m, explain.OwnerRemediated) {
			switch {
			case d.Action == remediation.RequestOwnerRemediation:
				maps.Copy(mark, notes.OfOwnerRequest(p.ownerRequestTime(m)))
			case !d.OwnerRequestAt.IsZero():
				maps.Copy(mark, notes.OfOwnerRequest(d.OwnerRequestAt))
			}
		}
		return p.annotate(ctx, t, mark)
	case remediation.RemoveMarkedBy:
		return p.annotate(ctx, t, notes.OfResponsibleCheck(""))
	case remediation.RemoveOwnerRemediated:
		return p.change(ctx, t, p.r.Actor.CancelOwnerRemediation)
	case remediation.ClearConditions:
		if err := p.change(ctx, t, p.r.Actor.ClearConditions); err != nil {
			return err
		}
		return p.annotate(ctx, t, notes.OfResponsibleCheck(""))
	case remediation.AcquireLease:
		return p.acquireNodeLease(ctx, nodeOf(t, request), d.LeaseUntil)
	case remediation.ReleaseLease:
		return p.releaseNodeLease(ctx, nodeOf(t, request))
	case remediation.AcquireControlPlaneLease:
		return p.acquireControlPlaneLease(ctx, d.ControlPlaneLeaseUntil)
	case remediation.WriteRecovery:
		return p.requests.WriteRecovery(ctx, request, d.HealthySince)
	case remediation.StopRemediator:
		return p.requests.StopRemediator(ctx, request, p.now, d.Why == remediation.NodeNotFound)
	case remediation.DeleteRequest:
		p.endsRequest(t)
		return p.requests.Delete(ctx, request)
	}
	return errors.Errorf("unknown write for a target: %d", write)
}

// endsRequest records that the manager deletes the request of a target; nil for one that no longer exists. The answer may be lost.
func (p *scope) endsRequest(t *Target) {
	if t == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record.requests.Ended(string(t.uid()))
}

// annotate changes annotations of a target. It fails if the target has changed since it was read.
func (p *scope) annotate(ctx context.Context, t *Target, n notes.Notes) error {
	if _, changes := n.Apply(p.latest(t).GetAnnotations()); !changes {
		return nil
	}
	return p.change(ctx, t, func(ctx context.Context, object client.Object) (client.Object, error) {
		return p.r.Actor.Annotate(ctx, p.snapshot.check.Cluster, object, n)
	})
}

// errTargetGone is returned by writes to a target that no longer exists. The event of its deletion follows.
var errTargetGone = errors.New("the target no longer exists")

// change writes to a target. It fails if the target has changed since this reconcile read or wrote it last.
func (p *scope) change(ctx context.Context, t *Target, write func(context.Context, client.Object) (client.Object, error)) error {
	after, err := write(ctx, p.latest(t))
	if apierrors.IsNotFound(err) {
		return errTargetGone
	}
	if err == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.objects[t.name()] = after
	}
	err = errors.Wrap(err, "failed to patch the target")
	if p.snapshot.check.ofNodes() {
		return p.writeError(t.title(), err)
	}
	return writeError(t.title(), applyRoles, err, cause)
}

// latest returns a target with the own writes of this reconcile.
func (p *scope) latest(t *Target) client.Object {
	p.mu.Lock()
	defer p.mu.Unlock()
	if written, found := p.objects[t.name()]; found {
		return written
	}
	return t.Object
}

// requestOwnerRemediation sets OwnerRemediated=False on a target, with the conditions that explain it.
func (p *scope) requestOwnerRemediation(ctx context.Context, target int, verdict *health.Verdict, d *remediation.Decision) error {
	t, facts := p.snapshot.targets[target], p.facts
	wanted := &explain.Facts{
		Name: t.name(), Node: t.NodeTarget.Name, Verdict: verdict, Decision: d, Target: &facts.Situation.Targets[target], Policy: &facts.Policy,
	}
	return p.change(ctx, t, func(ctx context.Context, object client.Object) (client.Object, error) {
		at := p.now
		if !d.HandsOver {
			at = p.ownerRequestTime(object)
		}
		return p.r.Actor.Report(ctx, object, wanted, &facts.Situation.Check, at)
	})
}

// announcedTime is how long the time of an owner request that was recorded before is used for the condition.
const announcedTime = 10 * time.Second

// ownerRequestTime returns when owner remediation is requested: now, or the time that was recorded before. The condition has to have
// the same.
func (p *scope) ownerRequestTime(machine client.Object) time.Time {
	recorded := notes.OwnerRequest(machine.GetAnnotations())
	if recorded.After(p.now) || p.now.Sub(recorded) > announcedTime {
		return p.now
	}
	return recorded
}

// createRequest creates the request of a step. A RejectedError means that the API server rejects its content.
func (p *scope) createRequest(ctx context.Context, t *Target, d *remediation.Decision) error {
	check := p.snapshot.check
	template, found := check.template(d.Step)
	if !found {
		return errors.Errorf("%s names no template %s", check.Title(), d.Step.Template)
	}
	if err := p.recordKind(ctx, template); err != nil {
		return err
	}
	made, _, err := p.requests.Create(ctx, &requests.Draft{
		Check: check.ID, CheckUID: check.Object.GetUID(), Target: t.Subject, Template: template, Order: d.Step.Order, Attempt: d.Attempt,
		Started: p.clock(), ControlPlane: t.ControlPlane, Cluster: check.Cluster, Place: check.Place,
	})
	if err != nil && rejects(err) {
		rejected := &pipeline.RejectedError{Message: err.Error(), Cause: err}
		p.record.reject(p.requestIdentity(t, d), rejected, p.clock())
		return p.withoutLease(ctx, t, rejected)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.created[t.name()] = made.Ref()
		p.record.requests.Created(string(t.uid()), d.Step, d.Attempt, p.now)
	}
	if check.Place == requests.InWorkload {
		// It is not watched there, and may exist although the answer was lost.
		p.snapshot.requeueAt(p.clock().Add(firstReadDelay))
	}
	object := title(template.RequestKind().Kind, client.ObjectKey{Namespace: template.Namespace, Name: t.name()})
	return writeError(object, applyRoles, err, cause)
}

// requestIdentity identifies the request of a step for a target.
func (p *scope) requestIdentity(t *Target, d *remediation.Decision) rejectedRequest {
	check := p.snapshot.check.Object
	return rejectedRequest{t.uid(), d.Step, check.GetUID(), check.GetGeneration()}
}

// withoutLease releases the Lease of a Node whose request was rejected: later reconciles read Leases only while there are requests.
func (p *scope) withoutLease(ctx context.Context, t *Target, rejected *pipeline.RejectedError) error {
	if !p.snapshot.check.ofNodes() {
		return rejected
	}
	if err := p.releaseNodeLease(ctx, nodeOf(t, nil)); err != nil {
		ctrl.LoggerFrom(ctx).V(4).Info("A Lease could not be released, and expires", "reason", err.Error())
	}
	return rejected
}

// recordKind records on the check the kinds of requests that it names now, unless it has them: with the finalizer, it recorded earlier
// ones.
func (p *scope) recordKind(ctx context.Context, template requests.Reference) error {
	p.checkMu.Lock()
	defer p.checkMu.Unlock()
	if slices.Contains(notes.RequestKinds(p.check.Object.GetAnnotations()), p.check.kindOf(template)) {
		return nil
	}
	return p.patchCheck(ctx, func(object client.Object) { recordKinds(object, p.snapshot.check) })
}

// rejects reports whether an error lasts until the check, its template or a permission changes.
func rejects(err error) bool {
	var taken *requests.NameTakenError
	var template *requests.TemplateError
	return errors.As(err, &taken) || errors.As(err, &template) ||
		apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err)
}

// dropConfirmation removes the annotation with which a user has confirmed that a Node is healthy.
func (p *scope) dropConfirmation(ctx context.Context, node string) error {
	api, err := p.cluster().Client(ctx)
	if err != nil {
		return err
	}
	found := &corev1.Node{}
	if err = api.Get(ctx, client.ObjectKey{Name: node}, found); err == nil {
		if _, confirmed := found.Annotations[remedyv1.ConfirmedHealthyAnnotation]; !confirmed {
			return nil
		}
		before := found.DeepCopy()
		delete(found.Annotations, remedyv1.ConfirmedHealthyAnnotation)
		err = api.Patch(ctx, found, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	}
	if err == nil && p.snapshot.check.ofNodes() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.objects[node] = found
	}
	err = errors.Wrap(client.IgnoreNotFound(err), "failed to remove the confirmation")
	return p.writeError(title("Node", client.ObjectKey{Name: node}), err)
}
