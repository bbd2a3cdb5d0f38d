// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package intree

import (
	"context"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
	check := checkOf(core)
	check.Paused = !adopted(a.facts(core, cluster)) || annotations.HasPaused(core) && pauseOf(core) != takeover.OurPause
	return check, cluster, nil
}

// checkOf is a check of Cluster API as it is reconciled. Whether it counts as paused depends on its adoption: see Find.
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

// adopted reports whether a check is the manager's, as far as it and its Cluster show.
func adopted(f *takeover.Facts) bool {
	move := takeover.Decide(f, "", time.Time{}).Move
	return move == takeover.Act || move == takeover.Sign
}

// factsFor are the facts for the handshake of this instance. A manager that only observes does not note that it is responsible.
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
	memory := takeover.ParseMemory(core.Annotations[remedyv1.TakeOverIDAnnotation])
	f := &takeover.Facts{
		Wanted:    a.wants(core, cluster),
		Exclusive: a.Exclusive,
		Pause:     pauseOf(core),
		Deleting:  !core.DeletionTimestamp.IsZero(),
		Cleanup:   controllerutil.ContainsFinalizer(core, remedyv1.CleanupFinalizer),
		Traces:    hasRemains(core),
		Memory:    memory.With(a.remembered(core)),
	}
	f.ClusterPaused = cluster != nil && cluster.Spec.Paused != nil && *cluster.Spec.Paused
	f.SaysPaused, f.SaysUnpaused = reportedPause(core.Status.Conditions)
	return f
}

// wants reports whether the manager is to adopt a check. The annotation on the check comes before that on its Cluster, and before the flag.
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

// reportedPause is what the in-tree controller has reported last of the pause of a check: that it reads the annotation, or that there is no
// pause. Its condition Paused is also True where only the Cluster is paused, and only the message of Cluster API tells these apart.
func reportedPause(conditions []metav1.Condition) (paused, unpaused bool) {
	c := meta.FindStatusCondition(conditions, clusterv1.PausedCondition)
	if c == nil {
		return false, false
	}
	return c.Status == metav1.ConditionTrue && strings.Contains(c.Message, clusterv1.PausedAnnotation), c.Status == metav1.ConditionFalse
}

// memory is what this process remembers of an adoption: a client that removes the pause may remove the annotations beside it as well.
type memory struct {
	check types.UID
	takeover.Memory
}

// remembered is what is remembered of a check. Of an earlier check of the same name nothing is.
func (a *Adoption) remembered(core *clusterv1.MachineHealthCheck) *takeover.Memory {
	if found, is := a.memories.Load(client.ObjectKeyFromObject(core)); is && found.(memory).check == core.UID {
		m := found.(memory).Memory
		return &m
	}
	return &takeover.Memory{}
}

func (a *Adoption) remember(core *clusterv1.MachineHealthCheck, m *takeover.Memory) {
	a.memories.Store(client.ObjectKeyFromObject(core), memory{core.UID, *m})
}
