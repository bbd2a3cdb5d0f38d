// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/clusterapi"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/pipeline"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// facts converts the snapshot into the facts of internal/pipeline.
func (s *snapshot) facts(now time.Time) *pipeline.Facts {
	f := &pipeline.Facts{
		Check:     s.check.Title(),
		Finalizer: finalized(s.check.Object),
		Health:    s.check.Health,
		Policy:    s.check.Policy,
		Context:   s.conditionFacts(),
	}
	f.Policy.Observe = s.observes()
	f.Policy.Steps = slices.Clone(s.check.Policy.Steps)
	s.markSteps(f.Policy.Steps)
	f.Snapshot.Cluster = s.clusterFacts()
	f.Situation.Check = s.checkFacts(now, &f.Context.Reading)
	f.Situation.Owners = s.owners
	f.Situation.Replacing = notes.Replacing(s.check.Object.GetAnnotations())
	f.Snapshot.Targets = make([]health.Target, len(s.targets))
	f.Situation.Targets = make([]remediation.Target, len(s.targets))
	machines := make([]health.MachineFacts, len(s.targets))
	s.overlaps = nil
	for i, t := range s.targets {
		f.Snapshot.Targets[i], f.Situation.Targets[i] = s.target(t, &machines[i])
	}
	f.Context.Overlaps = s.overlaps
	f.Situation.Orphans = s.findOrphans()
	return f
}

// target returns the facts of a target: those of its kind, and those of the snapshot.
func (s *snapshot) target(t *Target, machine *health.MachineFacts) (health.Target, remediation.Target) {
	h, r := s.source.Facts(s.check, t, machine)
	if s.adopts && t.Machine != nil && t.Machine.Status.NodeRef.Name != "" {
		// In-tree ignores the failure of a Machine, which stays when the Machine has recovered.
		machine.Failure = ""
	}
	r.Unread = s.check.ofNodes() && s.nodesUnread != nil
	machine.NodeGoneSince = cmp.Or(machine.NodeGoneSince, s.nodeGoneSince[t.uid()])
	r.RequestNameConflict, r.UnpausedAt, r.BlockedAt = s.nameConflicts[t.name()], s.pauseEnds[t.uid()], s.blockedAt[t.uid()]
	r.DeletedRequests = s.deletedRequests[t.uid()]
	if t.Machine != nil {
		r.MachineNamespace = t.Machine.Namespace
	}
	claim, title := s.responsible(t, &r)
	if title != "" && s.observes() {
		// The request of the other check would not be there without it.
		r.RequestNameConflict = ""
	}
	r.CoveredBy, r.CoveredUntil, r.CoveredElsewhere = title, claim.Until, title != "" && claim.Rank != s.check.Claim.Rank
	if found := s.requestFor(t); found != nil {
		if r.Request = s.completed[t.uid()]; r.Request == nil {
			r.Request = found.Facts(s.check.Naming)
		}
		// A Node that loses its label meanwhile is still remediated as a part of the control plane.
		r.ControlPlane = r.ControlPlane || found.ControlPlane
	}
	r.Lease = s.nodeLease(t.NodeTarget.Name, r.Request != nil)
	return h, r
}

// clusterFacts returns the facts that all targets share.
func (s *snapshot) clusterFacts() health.ClusterFacts {
	facts := health.ClusterFacts{ReconnectingUntil: s.connection.GracePeriodEnd()}
	switch {
	case s.check.inManagementCluster():
		facts.ControlPlaneInitialized.Reached, facts.InfrastructureReady.Reached = true, true
	case s.cluster != nil:
		conditions := s.cluster.Status.Conditions
		facts.ControlPlaneInitialized = clusterapi.Milestone(conditions, clusterv1.ClusterControlPlaneInitializedCondition)
		facts.InfrastructureReady = clusterapi.Milestone(conditions, clusterv1.ClusterInfrastructureReadyCondition)
		if s.check.ofNodes() {
			// A Node that exists is evaluated by its own conditions.
			facts.InfrastructureReady = health.Milestone{Reached: true}
		}
	}
	return facts
}

// checkFacts returns the facts of the check and its Cluster.
func (s *snapshot) checkFacts(now time.Time, nodes *explain.NodeReads) remediation.Check {
	until := s.connection.GracePeriodEnd()
	c := remediation.Check{
		Paused:            s.paused(),
		Deleting:          s.check.deleting(),
		Reconnecting:      now.Before(until),
		ReconnectingUntil: until,
		Observation: remediation.Observation{
			KubeletsUntil:  s.connection.KubeletsUntil,
			ClockOffset:    s.connection.ClockOffset,
			NodesReadSince: s.connection.NodesReadSince,
		},
		Storm:         notes.Storm(s.check.Object.GetAnnotations()),
		PauseRequests: s.check.PauseRequests,
		Cluster:       s.clusterState(),
	}
	switch paused := meta.FindStatusCondition(s.check.Status.Conditions, remedyv1.PausedCondition); {
	case paused == nil:
	case paused.Status == metav1.ConditionFalse:
		c.UnpausedAt = paused.LastTransitionTime.Time
	case paused.Status == metav1.ConditionTrue:
		// This is the first reconcile after the pause, and it has not written the condition yet.
		c.UnpausedAt = now
	}
	// Without a control plane, Nodes are not read. If none of the Nodes can be read, no target can be judged, as without a connection.
	c.Uninitialized = s.cluster != nil && !s.initialized()
	c.Unreachable = s.initialized() && (!s.connection.Up || nodes.NoneReadable())
	c.Renewing = c.Unreachable && !s.connection.Up && !c.Reconnecting && now.Sub(s.connection.LastSeen) < workload.ShortOutage
	return c
}

// clusterState returns whether the Cluster exists and is not being deleted.
func (s *snapshot) clusterState() remediation.ClusterState {
	switch {
	case s.check.inManagementCluster():
	case s.cluster == nil:
		return remediation.ClusterIsMissing
	case !s.cluster.DeletionTimestamp.IsZero():
		return remediation.ClusterIsDeleting
	}
	return remediation.ClusterFound
}

// initialized reports whether the Cluster has a control plane, so that its Nodes can be read.
func (s *snapshot) initialized() bool {
	return s.check.inManagementCluster() ||
		s.cluster != nil && meta.IsStatusConditionTrue(s.cluster.Status.Conditions, clusterv1.ClusterControlPlaneInitializedCondition)
}

func (s *snapshot) conditionFacts() explain.ConditionFacts {
	around := explain.ConditionFacts{
		Cluster: clusterName(s.check), ClusterPaused: s.clusterPaused(), CheckPaused: s.check.Paused,
		Templates: s.templates, Reading: s.reading(), UnreadableOwners: s.unreadOwners, Missing: s.missing,
		OtherChecks: len(s.claims), ForbiddenChecks: s.claimsForbidden,
		Insecure: s.connection.Insecure, NodesUnknown: s.nodesUnknown, Unseen: s.unseen(),
	}
	if around.ForbiddenWrite = s.unreleased; s.check.deleting() {
		around.ForbiddenWrite, around.UnreleasedLease = "", s.unreleased
	}
	if workload.ReadErrorReasonOf(s.connection.Err) == workload.KubeconfigRefused {
		around.KubeconfigRejected = s.connection.Err.Error()
	}
	if finalized(s.check.Object) {
		around.UnlistableRequests = s.unreadRequests()
	}
	return around
}

// unseen returns the targets that became unhealthy after the API server of the cluster had answered last.
func (s *snapshot) unseen() (unseen map[string]bool) {
	if len(s.unhealthyAt) == 0 {
		return nil
	}
	for _, t := range s.targets {
		if s.unhealthyAt[t.uid()].After(s.connection.LastSeen) {
			if unseen == nil {
				unseen = map[string]bool{}
			}
			unseen[t.name()] = true
		}
	}
	return unseen
}

// unreadRequests returns why some requests may not have been read; empty if all were. It is sorted, so it is reported once.
func (s *snapshot) unreadRequests() string {
	unread := slices.Sorted(slices.Values(s.unread))
	if notes.HasMoreRequestKinds(s.check.Object.GetAnnotations()) {
		unread = append(unread, fmt.Sprintf("the annotation %s has more than %d kinds, and the others are not read: "+
			"remove those without requests", remedyv1.RequestKindsAnnotation, notes.MaxRequestKinds))
	}
	return strings.Join(unread, "; ")
}

// reading returns how many Nodes could be read. Targets without a Node and clusters without a control plane do not count.
func (s *snapshot) reading() explain.NodeReads {
	r := explain.NodeReads{}
	if s.connection.Err != nil {
		r.ConnectionError = s.connection.Err.Error()
	}
	if s.nodesUnread != nil && len(s.targets) == 0 {
		r.Nodes, r.Failed, r.Why = 1, 1, s.nodesUnread.Error()
		r.WrongCluster = workload.ReadErrorReasonOf(s.nodesUnread) == workload.WrongCluster
	}
	for _, t := range s.targets {
		obstacle := workload.ReadErrorReasonOf(t.Reading.Err)
		switch obstacle { //nolint:exhaustive // the others are failed reads
		case workload.NoNodeRef, workload.NotInitialized:
			continue
		case workload.DifferentProviderID:
			r.NotOfMachine = append(r.NotOfMachine, t.name())
			continue
		}
		r.Nodes++
		if obstacle == "" {
			continue
		}
		if r.Failed++; r.Failed == 1 {
			r.Why = t.Reading.Err.Error()
		}
		r.WrongCluster = r.WrongCluster || obstacle == workload.WrongCluster
	}
	return r
}

// markSteps marks the steps of which no request can be created: the template is not usable, or existing requests could not be read. It also
// marks those whose remediators need Machines.
func (s *snapshot) markSteps(steps []remediation.Step) {
	for _, template := range s.check.Templates {
		for i := range steps {
			if !steps[i].Owner && steps[i].ID.Template == s.check.Naming.Text(template) {
				steps[i].Unresolved = s.unknown || s.unresolved[template]
				if template.NeedsMachine() {
					steps[i].NeedsMachineIn = template.Namespace
				}
			}
		}
	}
}

// clusterName is the namespace/name of the Cluster of a check; empty for the management cluster.
func clusterName(check *Check) string {
	if check.inManagementCluster() {
		return ""
	}
	return check.Cluster.String()
}

// Departure returns the taint that announces that a Node will be deleted; nil is a Node that was not read.
func Departure(node *corev1.Node) remediation.Departure {
	if node == nil {
		return remediation.Departure{}
	}
	taint := workload.DepartureTaint(node)
	if taint == nil {
		return remediation.Departure{}
	}
	d := remediation.Departure{Sign: "the taint " + taint.Key}
	switch seconds, err := strconv.ParseInt(taint.Value, 10, 64); {
	case taint.TimeAdded != nil:
		d.Since = taint.TimeAdded.Time
	// The autoscaler writes the time into the value.
	case err == nil && seconds > 0:
		d.Since = time.Unix(seconds, 0).UTC()
	}
	d.Since = health.KnownTime(d.Since, node.CreationTimestamp.Time)
	return d
}
