// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"time"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/clusterapi"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/takeover"
)

// TakesOver says which checks of Cluster API are taken care of.
type TakesOver struct {
	// Annotated: those that ask for it, or whose Cluster does; All: all of them. Exclusive: all, and Cluster API's controller does not run.
	Annotated, All, Exclusive bool
}

// CoreChecks are the checks of Cluster API: those that are handed to us are looked after, and no others.
type CoreChecks struct {
	TakesOver
	memories memories
}

func (*CoreChecks) kind() string { return coreKind }

func (*CoreChecks) empty() client.Object { return &clusterv1.MachineHealthCheck{} }

// handed says whether a check of Cluster API is handed to us, as far as it and its Cluster say.
func handed(f *takeover.Facts) bool {
	move := takeover.Decide(f, "", time.Time{}).Move
	return move == takeover.Act || move == takeover.Sign
}

// factsFor are what the handshake of one instance rests on. Who only observes signs nothing.
func (c *CoreChecks) factsFor(r *Reconciler, core *clusterv1.MachineHealthCheck, cluster *clusterv1.Cluster) *takeover.Facts {
	f := c.facts(core, cluster)
	f.Instance = r.WatchFilter
	if r.Observe {
		f.Instance = f.Memory.Instance
	}
	return f
}

// facts are what the handshake rests on.
func (c *CoreChecks) facts(core *clusterv1.MachineHealthCheck, cluster *clusterv1.Cluster) *takeover.Facts {
	noted := takeover.ParseMemory(core.Annotations[remedyv1.TakeOverIDAnnotation])
	f := &takeover.Facts{
		Wanted:    c.wants(core, cluster),
		Exclusive: c.Exclusive,
		Pause:     pauseOf(core),
		Deleting:  !core.DeletionTimestamp.IsZero(),
		Cleanup:   finalized(asOurs(core, true)),
		Traces:    traces(core),
		Memory:    noted.With(c.memories.of(client.ObjectKeyFromObject(core), core.UID)),
	}
	f.ClusterPaused = cluster != nil && cluster.Spec.Paused != nil && *cluster.Spec.Paused
	f.SaysPaused, f.SaysUnpaused = pausedByTheirs(core.Status.Conditions)
	return f
}

// wants says whether we are asked to take care of a check. What a check says itself comes before what its Cluster or the flag says of all.
func (c *CoreChecks) wants(core *clusterv1.MachineHealthCheck, cluster *clusterv1.Cluster) bool {
	asks := func(o client.Object) string { return o.GetAnnotations()[remedyv1.TakeOverAnnotation] }
	return asks(core) != "false" && (c.All || c.Exclusive || c.Annotated && (asks(core) == "true" || cluster != nil && asks(cluster) == "true"))
}

func pauseOf(core *clusterv1.MachineHealthCheck) takeover.Pause {
	switch {
	case core.Annotations[clusterv1.PausedAnnotation] == remedyv1.Pause:
		return takeover.OurPause
	case annotations.HasPaused(core):
		return takeover.ForeignPause
	}
	return takeover.NoPause
}

// find reads a check as one of ours. What is not handed to us, or not any more, looks like one that is paused.
func (c *CoreChecks) find(ctx context.Context, reader client.Reader, key client.ObjectKey) (*remedyv1.MachineHealthCheck, *clusterv1.Cluster, error) {
	core, cluster, err := c.read(ctx, reader, key)
	if err != nil {
		return nil, nil, err
	}
	return c.asOurs(core, cluster), cluster, nil
}

func (c *CoreChecks) asOurs(core *clusterv1.MachineHealthCheck, cluster *clusterv1.Cluster) *remedyv1.MachineHealthCheck {
	handed := handed(c.facts(core, cluster))
	check := asOurs(core, handed && pauseOf(core) == takeover.OurPause)
	if !handed && !annotations.HasPaused(check) {
		check.Annotations = withPause(check.Annotations)
	}
	return check
}

func (*CoreChecks) read(ctx context.Context, reader client.Reader, key client.ObjectKey) (*clusterv1.MachineHealthCheck, *clusterv1.Cluster, error) {
	core := &clusterv1.MachineHealthCheck{}
	if err := reader.Get(ctx, key, core); err != nil {
		return nil, nil, errors.Wrap(err, "failed to read the check")
	}
	cluster, err := clusterOf(ctx, reader, client.ObjectKey{Namespace: key.Namespace, Name: core.Spec.ClusterName})
	return core, cluster, err
}

// of are all checks of a Cluster: also those that are not handed to us may have to be looked at, for the next step of the handshake.
func (c *CoreChecks) of(ctx context.Context, cache client.Reader, cluster client.ObjectKey) ([]*remedyv1.MachineHealthCheck, error) {
	list := &clusterv1.MachineHealthCheckList{}
	if err := cache.List(ctx, list, inCluster(cluster)...); err != nil {
		return nil, errors.Wrap(err, "failed to read the checks of the Cluster")
	}
	all := make([]*remedyv1.MachineHealthCheck, 0, len(list.Items))
	for i := range list.Items {
		all = append(all, asOurs(&list.Items[i], false))
	}
	return all, nil
}

// write changes nothing but metadata. What we do not show is not touched.
func (*CoreChecks) write(ctx context.Context, api client.Client, before, after *remedyv1.MachineHealthCheck) error {
	was, is := &clusterv1.MachineHealthCheck{ObjectMeta: before.ObjectMeta}, &clusterv1.MachineHealthCheck{ObjectMeta: after.ObjectMeta}
	err := api.Patch(ctx, is, client.MergeFromWithOptions(was, client.MergeFromWithOptimisticLock{}))
	if err == nil {
		after.ResourceVersion, after.Generation = is.ResourceVersion, is.Generation
	}
	return errors.Wrap(err, "failed to write to the check")
}

// writeStatus keeps the status in Cluster API's own terms. Its controller writes to the same lists, so that the version goes with it.
func (*CoreChecks) writeStatus(ctx context.Context, api client.Client, before, after *remedyv1.MachineHealthCheck) error {
	core := &clusterv1.MachineHealthCheck{}
	if err := api.Get(ctx, client.ObjectKeyFromObject(before), core); err != nil {
		return errors.Wrap(err, "failed to read the check")
	}
	if core.ResourceVersion != before.ResourceVersion {
		return apierrors.NewConflict(schema.GroupResource{Group: clusterv1.GroupVersion.Group, Resource: "machinehealthchecks"}, core.Name, errors.New("it has changed since it was read"))
	}
	was := core.DeepCopy()
	tellCore(core, &after.Status)
	err := api.Status().Patch(ctx, core, clusterapi.StatusPatch(was, core))
	if err == nil {
		after.ResourceVersion = core.ResourceVersion
	}
	return errors.Wrap(err, "failed to write the status of the check")
}
