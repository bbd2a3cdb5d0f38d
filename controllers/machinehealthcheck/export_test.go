// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// StatusOf is what a pass would report of Machines with these Nodes, if nothing of it had been done yet.
func StatusOf(check *remedyv1.MachineHealthCheck, cluster *clusterv1.Cluster, machines []*clusterv1.Machine, nodes []workload.Reading, now time.Time) remedyv1.MachineHealthCheckStatus {
	s := &seen{
		check: check, cluster: cluster, connection: workload.Connection{Up: true}, machines: machines, readings: nodes,
		naming: requests.NewNaming(references(check)...),
	}
	v := &visit{r: &Reconciler{Checks: Ours()}, seen: s, check: check, now: now, machines: map[string]*clusterv1.Machine{}}
	facts := s.facts(now)
	assessment := health.Evaluate(&facts.Snapshot, &facts.Health, now)
	plan := remediation.Plan(&facts.Situation, &assessment, &facts.Policy, now)
	pass := &explain.Pass{
		Check: facts.Check, Snapshot: &facts.Snapshot, Assessment: &assessment, Situation: &facts.Situation,
		Policy: &facts.Policy, Planned: &plan, Around: facts.Around,
	}
	return v.status(pass, slices.Repeat([]remedyv1.RecentRemediation{{
		Target: machines[0].Name, Outcome: remedyv1.ReplacedOutcome, Started: metav1.NewTime(now), Ended: metav1.NewTime(now),
	}}, len(machines)))
}
