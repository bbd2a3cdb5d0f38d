// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/checkup"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/clusterapi"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// facts are what was read, in the words of those who decide.
func (s *snapshot) facts(now time.Time) *checkup.Facts {
	f := &checkup.Facts{
		Check:     s.check.Title(),
		Finalizer: finalized(s.check.Object),
		Health:    s.check.Health,
		Policy:    s.check.Policy,
		Around:    s.surroundings(),
	}
	f.Policy.Observe = s.observes()
	f.Policy.Steps = slices.Clone(s.check.Policy.Steps)
	s.markUnresolved(f.Policy.Steps)
	f.Snapshot.Cluster = clusterFacts(s.cluster, s.connection)
	f.Situation.Check = s.checkFacts(now, &f.Around.Reading)
	f.Situation.Owners = s.owners
	f.Situation.Replacing = notes.Replacing(s.check.Object.GetAnnotations())
	f.Snapshot.Targets = make([]health.Target, len(s.targets))
	f.Situation.Targets = make([]remediation.Target, len(s.targets))
	machines := make([]health.MachineFacts, len(s.targets))
	for i, t := range s.targets {
		f.Snapshot.Targets[i], f.Situation.Targets[i] = s.target(t, &machines[i])
	}
	f.Situation.Strays = s.findOrphans()
	return f
}

// target is what its kind knows of a target, and what only the snapshot knows.
func (s *snapshot) target(t *Target, machine *health.MachineFacts) (health.Target, remediation.Target) {
	h, r := s.source.Facts(s.check, t, machine)
	machine.NodeGoneSince = cmp.Or(machine.NodeGoneSince, s.nodeGoneSince[t.uid()])
	r.NameTaken, r.ThawedAt = s.taken[t.name()], s.pauseEnds[t.uid()]
	claim, title := s.responsible(t, &r)
	r.CoveredBy, r.CoveredUntil, r.CoveredElsewhere = title, claim.Until, title != "" && claim.Rank != s.check.Claim.Rank
	if found := s.requestFor(t); found != nil {
		r.Request = found.Request(s.check.Naming)
	}
	return h, r
}

// clusterFacts are what all targets share. Of a Cluster that does not exist nothing is known.
func clusterFacts(cluster *clusterv1.Cluster, connection workload.Connection) health.ClusterFacts {
	facts := health.ClusterFacts{FirstLookUntil: connection.FirstLookUntil()}
	if cluster == nil {
		return facts
	}
	facts.ControlPlaneInitialized = clusterapi.Milestone(cluster.Status.Conditions, clusterv1.ClusterControlPlaneInitializedCondition)
	facts.InfrastructureReady = clusterapi.Milestone(cluster.Status.Conditions, clusterv1.ClusterInfrastructureReadyCondition)
	return facts
}

// checkFacts are what is known of the check and its Cluster.
func (s *snapshot) checkFacts(now time.Time, nodes *explain.Reading) remediation.Check {
	until := s.connection.FirstLookUntil()
	c := remediation.Check{
		Frozen:         s.paused(),
		Deleting:       s.check.deleting(),
		FirstLook:      now.Before(until),
		FirstLookUntil: until,
		Storm:          notes.Storm(s.check.Object.GetAnnotations()),
		PauseRequests:  s.check.PauseRequests,
		Cluster:        s.clusterState(),
	}
	paused := meta.FindStatusCondition(s.check.Status.Conditions, remedyv1.PausedCondition)
	if paused != nil && paused.Status == metav1.ConditionFalse {
		c.ThawedAt = paused.LastTransitionTime.Time
	}
	// As long as there is no control plane, nothing could be read, and nothing has to be. Where no Node at all can be read it is the same as
	// without a connection: no target is known to be unhealthy.
	c.Unreachable = s.initialized() && (!s.connection.Up || nodes.Blind())
	return c
}

// clusterState is whether the Cluster exists and is not being deleted.
func (s *snapshot) clusterState() remediation.ClusterState {
	switch {
	case s.cluster == nil:
		return remediation.ClusterIsMissing
	case !s.cluster.DeletionTimestamp.IsZero():
		return remediation.ClusterIsDeleting
	}
	return remediation.ClusterFound
}

// initialized reports whether the Cluster has a control plane, so that its Nodes can be read.
func (s *snapshot) initialized() bool {
	return s.cluster != nil && meta.IsStatusConditionTrue(s.cluster.Status.Conditions, clusterv1.ClusterControlPlaneInitializedCondition)
}

func (s *snapshot) surroundings() explain.Surroundings {
	around := explain.Surroundings{
		Cluster: s.check.Cluster.String(), ClusterPaused: s.clusterPaused(), CheckPaused: s.check.Paused,
		Templates: s.templates, Reading: s.reading(),
	}
	if workload.ObstacleOf(s.connection.Err) == workload.KubeconfigRefused {
		around.KubeconfigRefused = s.connection.Err.Error()
	}
	if finalized(s.check.Object) {
		around.Unseen = s.unseen()
	}
	return around
}

// unseen is why there may be requests that were not read; empty if there are none. It has the same order each time, so that it is reported
// once.
func (s *snapshot) unseen() string { return strings.Join(slices.Sorted(slices.Values(s.unread)), "; ") }

// reading is how the Nodes could be read. What is about a single target, or only takes its time, is left out.
func (s *snapshot) reading() explain.Reading {
	r := explain.Reading{}
	if s.connection.Err != nil {
		r.Unconnected = s.connection.Err.Error()
	}
	for _, t := range s.targets {
		obstacle := workload.ObstacleOf(t.Reading.Err)
		if obstacle == workload.NotNamed || obstacle == workload.NotInitialized {
			continue
		}
		r.Nodes++
		if obstacle == "" {
			continue
		}
		if r.Unread++; r.Unread == 1 {
			r.Why = t.Reading.Err.Error()
		}
		r.NoKnownNode = r.NoKnownNode || obstacle == workload.NoKnownNode
	}
	return r
}

// markUnresolved marks the steps of which no request can be created: its template is not usable, or it is not known which requests there
// are.
func (s *snapshot) markUnresolved(steps []remediation.Step) {
	for _, template := range s.check.Templates {
		for i := range steps {
			if !steps[i].Owner && steps[i].ID.Template == s.check.Naming.Text(template) {
				steps[i].Unresolved = s.unknown || s.unresolved[template]
			}
		}
	}
}
