// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package intree

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	deprecated "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/machinehealthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/adoption"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/clusterapi"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
)

// Kind returns the name of the kind.
func (*Adoption) Kind() string { return Kind }

// Object returns an empty check.
func (*Adoption) Object() client.Object { return &clusterv1.MachineHealthCheck{} }

// Find reads a check. A check that is not adopted counts as paused.
func (a *Adoption) Find(ctx context.Context, reader client.Reader, key client.ObjectKey) (*healthcheck.Check, *clusterv1.Cluster, error) {
	core, cluster, err := a.read(ctx, reader, key)
	if err != nil {
		return nil, nil, err
	}
	check := checkOf(core)
	check.Paused = !adopted(a.facts(core, cluster)) || annotations.HasPaused(core) && pauseOf(core) != adoption.RemedyPause
	return check, cluster, nil
}

// checkOf converts an in-tree check. Find sets whether it counts as paused.
func checkOf(core *clusterv1.MachineHealthCheck) *healthcheck.Check {
	status := statusOf(core)
	check := machinehealthcheck.NewCheck(Kind, core, specOf(core), selectorOf(core), &status.CheckStatus)
	check.Claim.Adopted = true
	return check
}

// markedBy returns the value of the annotation with which a check signs Machines.
func markedBy(core *clusterv1.MachineHealthCheck) string { return Kind + "/" + core.Name }

// selectorOf returns nil for an invalid selector.
func selectorOf(core *clusterv1.MachineHealthCheck) labels.Selector {
	return healthcheck.Compiled(core, func() (labels.Selector, error) { return metav1.LabelSelectorAsSelector(&core.Spec.Selector) })
}

func (*Adoption) read(
	ctx context.Context, reader client.Reader, key client.ObjectKey,
) (*clusterv1.MachineHealthCheck, *clusterv1.Cluster, error) {
	core := &clusterv1.MachineHealthCheck{}
	if err := reader.Get(ctx, key, core); err != nil {
		return nil, nil, errors.Wrap(err, "failed to read the check")
	}
	cluster, err := healthcheck.ClusterOf(ctx, reader, client.ObjectKey{Namespace: key.Namespace, Name: core.Spec.ClusterName})
	return core, cluster, err
}

// adopted reports whether a check is adopted, according to the check and its Cluster.
func adopted(f *adoption.Facts) bool {
	d := adoption.Decide(f, "", time.Time{})
	return d.State == adoption.Adopted && (d.Move == adoption.Act || d.Move == adoption.Record)
}

// factsFor returns the facts for this instance. A manager that only observes does not record that it is responsible.
func (a *Adoption) factsFor(core *clusterv1.MachineHealthCheck, cluster *clusterv1.Cluster) *adoption.Facts {
	f := a.facts(core, cluster)
	f.Instance = cmp.Or(a.WatchFilter, adoption.Unfiltered)
	if a.Observe {
		f.Instance = f.Memory.Instance
	}
	return f
}

// facts returns the facts for internal/adoption.
func (a *Adoption) facts(core *clusterv1.MachineHealthCheck, cluster *clusterv1.Cluster) *adoption.Facts {
	memory := adoption.ParseMemory(core.Annotations[remedyv1.AdoptionIDAnnotation])
	f := &adoption.Facts{
		Wanted:    a.wants(core, cluster),
		Exclusive: a.Replace,
		Pause:     pauseOf(core),
		Deleting:  !core.DeletionTimestamp.IsZero(),
		Cleanup:   controllerutil.ContainsFinalizer(core, remedyv1.CleanupFinalizer),
		Traces:    hasRemains(core),
		Memory:    memory.With(a.remembered(core)),
	}
	f.ClusterPaused = cluster != nil && cluster.Spec.Paused != nil && *cluster.Spec.Paused
	f.ReportsPaused, f.ReportsUnpaused = reportedPause(core.Status.Conditions)
	return f
}

// wants reports whether a check is to be adopted. Its annotation overrides that of its Cluster, and the flag. The annotation of a Cluster
// applies to the checks that its topology generates: a policy examines these, and other checks only if they have the annotation.
func (a *Adoption) wants(core *clusterv1.MachineHealthCheck, cluster *clusterv1.Cluster) bool {
	asks := func(o client.Object) string { return o.GetAnnotations()[remedyv1.AdoptAnnotation] }
	_, generated := core.Labels[clusterv1.ClusterTopologyOwnedLabel]
	asked := asks(core) == "true" || generated && cluster != nil && asks(cluster) == "true"
	return asks(core) != "false" && (a.All || a.Replace || a.OptIn && asked)
}

func pauseOf(core *clusterv1.MachineHealthCheck) adoption.Pause {
	switch {
	case core.Annotations[clusterv1.PausedAnnotation] == remedyv1.Pause:
		return adoption.RemedyPause
	case annotations.HasPaused(core):
		return adoption.ForeignPause
	}
	return adoption.NoPause
}

// reportedPause returns what the in-tree controller reports: that it reads the pause annotation, or that the check is not paused. Its
// condition Paused is also True if only the Cluster is paused, and only the message of Cluster API distinguishes these.
func reportedPause(conditions []metav1.Condition) (paused, unpaused bool) {
	c := meta.FindStatusCondition(conditions, clusterv1.PausedCondition)
	if c == nil {
		return false, false
	}
	return c.Status == metav1.ConditionTrue && strings.Contains(c.Message, clusterv1.PausedAnnotation), c.Status == metav1.ConditionFalse
}

// memory is the adoption of a check in memory, because a client that removes the pause may remove the other annotations, too.
type memory struct {
	check types.UID
	adoption.Memory
}

// remembered returns the memory of a check; empty for another check of the same name.
func (a *Adoption) remembered(core *clusterv1.MachineHealthCheck) *adoption.Memory {
	if found, is := a.memories.Load(client.ObjectKeyFromObject(core)); is && found.(memory).check == core.UID {
		m := found.(memory).Memory
		return &m
	}
	return &adoption.Memory{}
}

func (a *Adoption) remember(core *clusterv1.MachineHealthCheck, m *adoption.Memory) {
	a.memories.Store(client.ObjectKeyFromObject(core), memory{core.UID, *m})
}

// statusOf converts the status of an in-tree check to that of Remedy.
func statusOf(core *clusterv1.MachineHealthCheck) remedyv1.MachineHealthCheckStatus {
	status := remedyv1.MachineHealthCheckStatus{
		ExpectedMachines: core.Status.ExpectedMachines, CurrentHealthy: core.Status.CurrentHealthy, Targets: core.Status.Targets,
	}
	status.Conditions, status.ObservedGeneration = core.Status.Conditions, core.Status.ObservedGeneration
	status.RemediationsAllowed = core.Status.RemediationsAllowed
	return status
}

// carried returns the fields of a status that an in-tree check has, too. If the in-tree controller runs, it sets the condition Paused.
func (a *Adoption) carried(before *remedyv1.MachineHealthCheckStatus, status *remedyv1.CheckStatus) remedyv1.MachineHealthCheckStatus {
	carried := *before
	carried.RemediationsAllowed, carried.ObservedGeneration = status.RemediationsAllowed, status.ObservedGeneration
	carried.Conditions = slices.Clone(before.Conditions)
	for _, c := range status.Conditions {
		if c.Type != remedyv1.PausedCondition || a.Replace {
			meta.SetStatusCondition(&carried.Conditions, c)
		}
	}
	return carried
}

// WriteStatus writes the fields that an in-tree check has: it has none for single Machines and for history. The in-tree controller writes
// to the same lists, so the write has a resourceVersion.
func (a *Adoption) WriteStatus(
	ctx context.Context, check *healthcheck.Check, status *remedyv1.CheckStatus, evaluation *explain.Evaluation,
) (*healthcheck.Check, error) {
	before := check.Object.(*clusterv1.MachineHealthCheck)
	known := statusOf(before)
	inTree, trigger := *status, &before.Spec.Remediation.TriggerIf
	limit := ptr.Deref(trigger.UnhealthyLessThanOrEqualTo, intstr.FromString("100%"))
	inTree.Conditions = explain.InTreeConditions(status.Conditions, evaluation, limit.String(), trigger.UnhealthyInRange)
	wanted := a.carried(&known, &inTree)
	machinehealthcheck.Count(&wanted, evaluation)
	core := before.DeepCopy()
	setStatus(core, &wanted)
	setTemplateAvailable(core, evaluation)
	if equality.Semantic.DeepEqual(before.Status, core.Status) {
		return check, nil
	}
	if err := a.Client.Status().Patch(ctx, core, clusterapi.StatusPatch(before, core)); err != nil {
		return nil, errors.Wrap(err, "failed to write the status of the check")
	}
	after := *check
	after.Object, after.Status = core, statusOf(core).CheckStatus
	return &after, nil
}

// setStatus sets the status of an in-tree check, also its v1beta1 condition.
func setStatus(core *clusterv1.MachineHealthCheck, status *remedyv1.MachineHealthCheckStatus) {
	core.Status.ExpectedMachines, core.Status.CurrentHealthy = status.ExpectedMachines, status.CurrentHealthy
	core.Status.RemediationsAllowed, core.Status.Targets = status.RemediationsAllowed, status.Targets
	core.Status.ObservedGeneration, core.Status.Conditions = status.ObservedGeneration, status.Conditions
	if allowed := meta.FindStatusCondition(status.Conditions, remedyv1.RemediationAllowedCondition); allowed != nil {
		if allowed.Status == metav1.ConditionTrue {
			deprecated.MarkTrue(core, clusterv1.RemediationAllowedV1Beta1Condition)
		} else {
			deprecated.MarkFalse(core, clusterv1.RemediationAllowedV1Beta1Condition, allowed.Reason, clusterv1.ConditionSeverityWarning, "%s",
				allowed.Message)
		}
	}
}

// setTemplateAvailable sets the v1beta1 condition of a missing template as Cluster API does, when a Machine would be remediated. It
// removes the condition when the templates exist: Cluster API leaves it False.
func setTemplateAvailable(core *clusterv1.MachineHealthCheck, evaluation *explain.Evaluation) {
	resolved := meta.FindStatusCondition(core.Status.Conditions, remedyv1.TemplatesResolvedCondition)
	allowed := meta.IsStatusConditionTrue(core.Status.Conditions, remedyv1.RemediationAllowedCondition)
	switch {
	case resolved == nil:
	case resolved.Status == metav1.ConditionTrue:
		deprecated.Delete(core, clusterv1.ExternalRemediationTemplateAvailableV1Beta1Condition)
	case resolved.Reason == remedyv1.TemplateNotFoundReason && allowed && evaluation.Assessment.Counts.Unhealthy > 0:
		template := &core.Spec.Remediation.TemplateRef
		resource, _ := meta.UnsafeGuessKindToResource(template.GroupVersionKind())
		deprecated.MarkFalse(core, clusterv1.ExternalRemediationTemplateAvailableV1Beta1Condition,
			clusterv1.ExternalRemediationTemplateNotFoundV1Beta1Reason, clusterv1.ConditionSeverityError,
			"failed to retrieve %s %s/%s: %s %q not found", template.Kind, core.Namespace, template.Name, resource.GroupResource(), template.Name)
	}
}
