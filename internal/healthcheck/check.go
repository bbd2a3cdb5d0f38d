// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/lru"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// current returns a check with its Cluster from the cache; or the check as written, if the cache is older than the last write of this
// process: no later event would correct a status that was compared with an older one. It reads live after a start, after a failed write,
// and after a change that the preflight check has seen first.
func (r *Reconciler) current(
	ctx context.Context, record *record, check *Check, cluster *clusterv1.Cluster,
) (*Check, *clusterv1.Cluster, error) {
	key := client.ObjectKeyFromObject(check.Object)
	if record.uid == check.Object.GetUID() && record.version != "" {
		order, err := resourceversion.CompareResourceVersion(check.Object.GetResourceVersion(), record.version)
		if err == nil && order >= 0 {
			record.written = nil
			return check, cluster, nil
		}
		// One that is being deleted may not exist any more.
		if err == nil && record.written != nil && record.written.GetDeletionTimestamp() == nil {
			return r.Store.Find(ctx, asWritten{r.Cache, record.written}, key)
		}
	}
	live, at, err := r.Store.Find(ctx, r.Live, key)
	if err != nil {
		return nil, nil, err
	}
	record.uid, record.version, record.written = live.Object.GetUID(), live.Object.GetResourceVersion(), nil
	return live, at, nil
}

// asWritten reads a check as it was written, and everything else from the cache.
type asWritten struct {
	client.Reader
	check client.Object
}

// Get reads an object. The check as written is shared and must not be changed.
func (r asWritten) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if key != client.ObjectKeyFromObject(r.check) || reflect.TypeOf(object) != reflect.TypeOf(r.check) {
		return r.Reader.Get(ctx, key, object, options...)
	}
	reflect.ValueOf(object).Elem().Set(reflect.ValueOf(r.check).Elem())
	return nil
}

// WriteCheck executes one write to the check, or for it.
func (p *scope) WriteCheck(ctx context.Context, plan *remediation.Planned, write remediation.CheckWrite) error {
	switch write {
	case remediation.AddFinalizer:
		return p.patchCheck(ctx, func(object client.Object) {
			controllerutil.AddFinalizer(object, remedyv1.CleanupFinalizer)
			recordKinds(object, p.check)
		})
	case remediation.WriteStorm:
		return p.patchCheck(ctx, func(object client.Object) { annotate(object, notes.OfStorm(plan.Storm)) })
	case remediation.WriteReplacing:
		return p.patchCheck(ctx, func(object client.Object) { annotate(object, notes.OfReplacing(plan.Replacing)) })
	case remediation.ReleaseControlPlaneLease:
		if p.lease == nil {
			return nil
		}
		err := p.r.ReleaseLease(ctx, p.snapshot.check, p.lease, p.snapshot.claims)
		return p.released(ctx, workload.ControlPlaneLease, err)
	case remediation.RemoveFinalizer:
		return p.removeFinalizer(ctx)
	}
	return errors.Errorf("unknown write to a check: %d", write)
}

// patchCheck changes metadata of the check as it was read, or not at all.
func (p *scope) patchCheck(ctx context.Context, change func(client.Object)) error {
	before := p.check.Object
	after := before.DeepCopyObject().(client.Object)
	change(after)
	err := p.r.Client.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsNotFound(err) && p.check.deleting() {
		return nil
	}
	if err != nil {
		p.record.version = ""
		return writeError(p.check.Title(), applyRoles, errors.Wrap(err, "failed to patch the check"), cause)
	}
	check := *p.check
	check.Object = after
	p.check = &check
	p.record.wrote(after)
	return nil
}

// adopt makes the Cluster an owner of its check, so that clusterctl moves both and both are deleted together. A cluster-scoped check cannot
// have that owner, and gets a label for clusterctl.
func (p *scope) adopt(ctx context.Context) error {
	s := p.snapshot
	// A manager that only observes writes nothing to an in-tree check.
	if s.adopts && s.observes() || s.cluster == nil || s.paused() || s.check.deleting() || s.belongsToCluster() {
		return nil
	}
	if obstacle, err := p.Obstacle(ctx); err != nil || obstacle != nil {
		return err
	}
	return p.patchCheck(ctx, func(object client.Object) {
		labels := maps.Clone(object.GetLabels())
		if labels == nil {
			labels = map[string]string{}
		}
		if object.SetLabels(labels); s.check.ofNodes() {
			labels[requests.MoveLabel] = ""
			return
		}
		labels[clusterv1.ClusterNameLabel] = s.cluster.Name
		// This also replaces an owner that is an earlier Cluster of that name.
		object.SetOwnerReferences(util.EnsureOwnerRef(slices.Clone(object.GetOwnerReferences()), metav1.OwnerReference{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: s.cluster.Name, UID: s.cluster.UID,
		}))
	})
}

// belongsToCluster reports whether clusterctl moves the check with its Cluster.
func (s *snapshot) belongsToCluster() bool {
	if s.check.ofNodes() {
		_, moved := s.check.Object.GetLabels()[requests.MoveLabel]
		return moved
	}
	return owned(s.check.Object, s.cluster)
}

// owned reports whether a check has the label and the owner that every object of a Cluster has.
func owned(check client.Object, cluster *clusterv1.Cluster) bool {
	owns := func(o metav1.OwnerReference) bool {
		return o.UID == cluster.UID && o.Kind == "Cluster" && o.Name == cluster.Name
	}
	return check.GetLabels()[clusterv1.ClusterNameLabel] == cluster.Name && slices.ContainsFunc(check.GetOwnerReferences(), owns)
}

// removeFinalizer removes the finalizer when nothing of the check is left: a remaining condition would let the owner of a Machine delete
// the Machine long after the check was deleted. It reads live, because the caches may not have the last own writes yet.
func (p *scope) removeFinalizer(ctx context.Context) error {
	why := p.snapshot.unreadRequests()
	news := p.record.finalizerReason != why
	p.record.finalizerReason = why
	if why != "" {
		if news {
			ctrl.LoggerFrom(ctx).Info("The check keeps its finalizer, because it may have requests that cannot be read", "reason", why)
		}
		return nil
	}
	left, err := p.hasRemains(ctx)
	if err != nil {
		return err
	}
	if left {
		// Its event follows.
		p.snapshot.requeueAt(p.clock().Add(conflictTime))
		return nil
	}
	if err := p.releaseNodeLeases(ctx); err != nil {
		return err
	}
	return p.patchCheck(ctx, func(object client.Object) {
		controllerutil.RemoveFinalizer(object, remedyv1.CleanupFinalizer)
		annotate(object, notes.OfRequestKinds(nil))
	})
}

// hasRemains reports whether there is a request of the check, or a target that it has signed. Nodes are not signed.
func (p *scope) hasRemains(ctx context.Context) (bool, error) {
	if p.check.Place == requests.InWorkload && p.snapshot.clusterState() == remediation.ClusterIsMissing {
		return false, nil
	}
	found, err := p.requests.ListLive(ctx, p.check.ID, p.snapshot.kinds...)
	namespaces := p.check.Namespaces()
	found = slices.DeleteFunc(found, func(r *requests.Request) bool { return !slices.Contains(namespaces, r.Namespace) })
	if err != nil || len(found) > 0 || p.check.ofNodes() {
		return len(found) > 0, errors.Wrap(err, "failed to read the requests again")
	}
	targets, others, err := p.r.Source.Targets(ctx, p.r.Live, p.check, true)
	if err != nil {
		return false, err
	}
	signed := func(t *Target) bool { return p.check.Signed(t.Object) }
	return slices.ContainsFunc(targets, signed) || slices.ContainsFunc(others, signed), nil
}

// compiled has the selectors of checks by their UID and generation: an event of a Cluster needs those of all its checks.
var compiled = lru.New(10_000)

// Compiled returns the selector of a check; nil if it is invalid.
func Compiled(check client.Object, compile func() (labels.Selector, error)) labels.Selector {
	type version struct {
		uid        types.UID
		generation int64
	}
	key := version{check.GetUID(), check.GetGeneration()}
	if known, found := compiled.Get(key); found && key.uid != "" {
		return known.(labels.Selector)
	}
	selector, err := compile()
	if err != nil {
		return nil
	}
	compiled.Add(key, selector)
	return selector
}

// ClusterOf is nil if there is no such Cluster.
func ClusterOf(ctx context.Context, reader client.Reader, key client.ObjectKey) (*clusterv1.Cluster, error) {
	cluster := &clusterv1.Cluster{}
	err := reader.Get(ctx, key, cluster)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return cluster, errors.Wrap(err, "failed to read the Cluster")
}

// ByCluster is the index by which the Machines and the checks of a Cluster are found in the cache.
const ByCluster = "remedy.cluster"

// InCluster finds the Machines or the checks of a Cluster in the cache.
func InCluster(cluster client.ObjectKey) []client.ListOption {
	return []client.ListOption{
		client.InNamespace(cluster.Namespace), client.MatchingFields{ByCluster: cluster.Name}, client.UnsafeDisableDeepCopy,
	}
}

// MachinesInCluster are the options of a read of the Machines of a Cluster, from the cache or live: only the cache has indexes.
func MachinesInCluster(cluster client.ObjectKey, live bool) []client.ListOption {
	if !live {
		return InCluster(cluster)
	}
	return []client.ListOption{client.InNamespace(cluster.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}}
}

// hasNode reports whether a Machine, and not another one that names the same Node, has the Node: the one that is not being deleted, and
// then the first by name. A list of Machines has no order.
func hasNode(machine, other *clusterv1.Machine) bool {
	if other == nil || machine.DeletionTimestamp.IsZero() != other.DeletionTimestamp.IsZero() {
		return other == nil || machine.DeletionTimestamp.IsZero()
	}
	return machine.Name < other.Name
}

// OfInstance leaves out checks that --watch-filter does not select: an event does not even copy them from the cache.
func (e *Environment) OfInstance(options []client.ListOption) []client.ListOption {
	if e.WatchFilter == "" {
		return options
	}
	return append(options, client.MatchingLabels{clusterv1.WatchLabel: e.WatchFilter})
}

// Limits are those of a check, or the default.
func Limits(l *remedyv1.Limits, absent intstr.IntOrString) remediation.Limits {
	all := remediation.Limits{MaxUnhealthy: l.MaxUnhealthy, MinHealthy: l.MinHealthy, Default: absent}
	if l.UnhealthyRange != "" {
		// Admission rejects an invalid range; but an in-tree check may have a range that contains no number.
		all.Range = &remediation.Range{Min: 1}
		if r, err := remediation.ParseRange(l.UnhealthyRange); err == nil {
			all.Range = &r
		}
	}
	return all
}

// Causes are those of the conditions of a step.
func Causes(conditions []remedyv1.StepCondition) []remediation.Cause {
	all := make([]remediation.Cause, 0, len(conditions))
	for _, c := range conditions {
		cause := remediation.Cause{Type: string(c.Type), Status: string(c.Status)}
		for _, reason := range c.Reasons {
			cause.Reasons = append(cause.Reasons, string(reason))
		}
		all = append(all, cause)
	}
	return all
}

// Duration is that of a field, or the default.
func Duration(d *remedyv1.Duration, absent time.Duration) time.Duration {
	if d == nil {
		return absent
	}
	return d.Duration.Duration
}
