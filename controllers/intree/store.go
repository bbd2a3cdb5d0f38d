// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package intree

import (
	"context"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/machinehealthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/takeover"
)

// Kind is what the checks are called.
func (*Adoption) Kind() string { return Kind }

// Object is an empty check.
func (*Adoption) Object() client.Object { return &clusterv1.MachineHealthCheck{} }

// Find reads a check as one of Machines. One that is not the manager's, or not any more, looks like one that is paused.
func (a *Adoption) Find(ctx context.Context, reader client.Reader, key client.ObjectKey) (*healthcheck.Check, *clusterv1.Cluster, error) {
	core, cluster, err := a.read(ctx, reader, key)
	if err != nil {
		return nil, nil, err
	}
	handed := handed(a.facts(core, cluster))
	check := checkOf(core)
	check.Paused = !handed || annotations.HasPaused(core) && pauseOf(core) != takeover.OurPause
	return check, cluster, nil
}

// checkOf is a check of Cluster API as it is reconciled. Only whoever knows whether it is the manager's knows whether it is paused.
func checkOf(core *clusterv1.MachineHealthCheck) *healthcheck.Check {
	status := statusOf(core)
	check := machinehealthcheck.NewCheck(Kind, core, specOf(core), &status.CheckStatus)
	check.Claim.Handed = true
	return check
}

// authorOf is how a check signs Machines.
func authorOf(core *clusterv1.MachineHealthCheck) string { return Kind + "/" + core.Name }

// selectorOf is nil for a selector that makes no sense.
func selectorOf(core *clusterv1.MachineHealthCheck) labels.Selector {
	selector, err := metav1.LabelSelectorAsSelector(&core.Spec.Selector)
	if err != nil {
		return nil
	}
	return selector
}

func (*Adoption) read(
	ctx context.Context, reader client.Reader, key client.ObjectKey,
) (*clusterv1.MachineHealthCheck, *clusterv1.Cluster, error) {
	core := &clusterv1.MachineHealthCheck{}
	if err := reader.Get(ctx, key, core); err != nil {
		return nil, nil, errors.Wrap(err, "failed to read the check")
	}
	cluster, err := machinehealthcheck.ClusterOf(ctx, reader, client.ObjectKey{Namespace: key.Namespace, Name: core.Spec.ClusterName})
	return core, cluster, err
}

// handed says whether a check of Cluster API is handed to us, as far as it and its Cluster say.
func handed(f *takeover.Facts) bool {
	move := takeover.Decide(f, "", time.Time{}).Move
	return move == takeover.Act || move == takeover.Sign
}

// factsFor are what the handshake of one instance rests on. Who only observes signs nothing.
func (a *Adoption) factsFor(core *clusterv1.MachineHealthCheck, cluster *clusterv1.Cluster) *takeover.Facts {
	f := a.facts(core, cluster)
	f.Instance = a.WatchFilter
	if a.Observe {
		f.Instance = f.Memory.Instance
	}
	return f
}

// facts are what the handshake rests on.
func (a *Adoption) facts(core *clusterv1.MachineHealthCheck, cluster *clusterv1.Cluster) *takeover.Facts {
	noted := takeover.ParseMemory(core.Annotations[remedyv1.TakeOverIDAnnotation])
	f := &takeover.Facts{
		Wanted:    a.wants(core, cluster),
		Exclusive: a.Exclusive,
		Pause:     pauseOf(core),
		Deleting:  !core.DeletionTimestamp.IsZero(),
		Cleanup:   controllerutil.ContainsFinalizer(core, remedyv1.CleanupFinalizer),
		Traces:    traces(core),
		Memory:    noted.With(a.memories.of(client.ObjectKeyFromObject(core), core.UID)),
	}
	f.ClusterPaused = cluster != nil && cluster.Spec.Paused != nil && *cluster.Spec.Paused
	f.SaysPaused, f.SaysUnpaused = pausedByTheirs(core.Status.Conditions)
	return f
}

// wants says whether we are asked to take care of a check. What a check says itself comes before what its Cluster or the flag says of all.
func (a *Adoption) wants(core *clusterv1.MachineHealthCheck, cluster *clusterv1.Cluster) bool {
	asks := func(o client.Object) string { return o.GetAnnotations()[remedyv1.TakeOverAnnotation] }
	asked := asks(core) == "true" || cluster != nil && asks(cluster) == "true"
	return asks(core) != "false" && (a.All || a.Exclusive || a.Annotated && asked)
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

// pausedByTheirs is what Cluster API's controller has said last of the pause of a check: that it sees the annotation, or that there is no
// pause.
func pausedByTheirs(conditions []metav1.Condition) (paused, unpaused bool) {
	c := meta.FindStatusCondition(conditions, clusterv1.PausedCondition)
	if c == nil {
		return false, false
	}
	return c.Status == metav1.ConditionTrue && namesTheAnnotation(c.Message), c.Status == metav1.ConditionFalse
}

// namesTheAnnotation says whether a message of Cluster API's condition Paused is about the annotation, and not only about the Cluster.
func namesTheAnnotation(message string) bool {
	return strings.Contains(message, clusterv1.PausedAnnotation)
}
