// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/checkup"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// facts are what was seen, in the words of those who decide.
func (s *seen) facts(now time.Time) *checkup.Facts {
	f := &checkup.Facts{
		Check:     titleOf(s.check),
		Finalizer: finalized(s.check),
		Health:    healthPolicy(&s.check.Spec),
		Policy:    remediationPolicy(s.check, s.naming, s.observe),
		Around:    s.surroundings(),
	}
	s.markUnresolved(f.Policy.Steps)
	f.Snapshot.Cluster = clusterFacts(s.cluster, s.connection)
	f.Situation.Check = s.checkFacts(now, &f.Around.Reading)
	f.Situation.Owners = s.owners
	f.Situation.Replacing = notes.Replacing(s.check.Annotations)
	f.Snapshot.Targets = make([]health.Target, len(s.machines))
	f.Situation.Targets = make([]remediation.Target, len(s.machines))
	machines := make([]health.MachineFacts, len(s.machines))
	for i := range s.machines {
		f.Snapshot.Targets[i] = s.healthTarget(i, &machines[i])
		f.Situation.Targets[i] = s.target(i)
	}
	f.Situation.Strays = s.strays()
	return f
}

// clusterFacts are what all targets share. Of a Cluster that is gone nothing is known.
func clusterFacts(cluster *clusterv1.Cluster, connection workload.Connection) health.ClusterFacts {
	facts := health.ClusterFacts{FirstLookUntil: connection.FirstLookUntil()}
	if cluster == nil {
		return facts
	}
	facts.ControlPlaneInitialized = milestone(cluster.Status.Conditions, clusterv1.ClusterControlPlaneInitializedCondition)
	facts.InfrastructureReady = milestone(cluster.Status.Conditions, clusterv1.ClusterInfrastructureReadyCondition)
	return facts
}

// milestone is reached when its condition is True.
func milestone(conditions []metav1.Condition, kind string) health.Milestone {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		return health.Milestone{}
	}
	return health.Milestone{Reached: c.Status == metav1.ConditionTrue, Since: c.LastTransitionTime.Time}
}

// checkFacts are what is known of the check and its Cluster.
func (s *seen) checkFacts(now time.Time, nodes *explain.Reading) remediation.Check {
	until := s.connection.FirstLookUntil()
	c := remediation.Check{
		Frozen:         s.frozen(),
		Deleting:       !s.check.DeletionTimestamp.IsZero(),
		FirstLook:      now.Before(until),
		FirstLookUntil: until,
		Storm:          notes.Storm(s.check.Annotations),
		PauseRequests:  s.check.Spec.PauseRequests,
		Cluster:        s.clusterState(),
	}
	if paused := meta.FindStatusCondition(s.check.Status.Conditions, remedyv1.PausedCondition); paused != nil && paused.Status == metav1.ConditionFalse {
		c.ThawedAt = paused.LastTransitionTime.Time
	}
	// As long as there is no control plane, nothing could be read, and nothing has to be.
	// Where no Node at all can be read it is the same as without a connection: nobody is sick, as far as anybody knows.
	c.Unreachable = s.initialized() && (!s.connection.Up || nodes.Blind())
	return c
}

// clusterState says whether the Cluster is there, and stays.
func (s *seen) clusterState() remediation.ClusterState {
	switch {
	case s.cluster == nil:
		return remediation.ClusterIsMissing
	case !s.cluster.DeletionTimestamp.IsZero():
		return remediation.ClusterIsDeleting
	}
	return remediation.ClusterFound
}

func (s *seen) frozen() bool {
	return annotations.HasPaused(s.check) || s.clusterPaused()
}

func (s *seen) clusterPaused() bool {
	return s.cluster != nil && s.cluster.Spec.Paused != nil && *s.cluster.Spec.Paused
}

// initialized says whether the Cluster has a control plane, so that its Nodes can be read.
func (s *seen) initialized() bool {
	return s.cluster != nil && meta.IsStatusConditionTrue(s.cluster.Status.Conditions, clusterv1.ClusterControlPlaneInitializedCondition)
}

func (s *seen) surroundings() explain.Surroundings {
	around := explain.Surroundings{
		Cluster: s.check.Namespace + "/" + s.check.Spec.ClusterName, ClusterPaused: s.clusterPaused(), CheckPaused: annotations.HasPaused(s.check),
		Templates: s.templates, Reading: s.reading(),
	}
	if workload.ObstacleOf(s.connection.Err) == workload.KubeconfigRefused {
		around.KubeconfigRefused = s.connection.Err.Error()
	}
	if finalized(s.check) {
		around.Unseen = s.unseen()
	}
	return around
}

// reading is how the Nodes could be read. What is about a single Machine, or only takes its time, is none of it.
func (s *seen) reading() explain.Reading {
	r := explain.Reading{}
	if s.connection.Err != nil {
		r.Unconnected = s.connection.Err.Error()
	}
	for i := range s.readings {
		obstacle := workload.ObstacleOf(s.readings[i].Err)
		if obstacle == workload.NotNamed || obstacle == workload.NotInitialized {
			continue
		}
		r.Nodes++
		if obstacle == "" {
			continue
		}
		if r.Unread++; r.Unread == 1 {
			r.Why = s.readings[i].Err.Error()
		}
		r.NoKnownNode = r.NoKnownNode || obstacle == workload.NoKnownNode
	}
	return r
}

// markUnresolved marks the steps of which no request can be made: its template is not usable, or it is not known which requests there are.
func (s *seen) markUnresolved(steps []remediation.Step) {
	for _, template := range references(s.check) {
		for i := range steps {
			if !steps[i].Owner && steps[i].ID.Template == s.naming.Text(template) {
				steps[i].Unresolved = s.unknown || s.unresolved[template]
			}
		}
	}
}

func finalized(check *remedyv1.MachineHealthCheck) bool {
	return controllerutil.ContainsFinalizer(check, remedyv1.CleanupFinalizer)
}
