// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"slices"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// healthTime is how long one reconcile reports health on targets. The first report on thousands takes minutes, and no target that becomes
// unhealthy meanwhile waits for it: the next reconciles report the rest.
const healthTime = 500 * time.Millisecond

// healthOrder is in which order health is reported on targets. First are healthy ones that were handed to their owner, which deletes them until
// it reads that they are healthy; then unhealthy ones; then all others. It begins behind the target at which the last reconcile ran out of time
// after a failure: one whose writes fail slowly does not starve the others.
func (r *record) healthOrder(pass *explain.Pass, machines []*clusterv1.Machine) []int {
	var recovered, unhealthy, others []int
	for i := range pass.Assessment.Verdicts {
		switch kind := pass.Assessment.Verdicts[i].Kind; {
		case kind == health.Healthy && pass.Situation.Targets[i].Mark.Given:
			recovered = append(recovered, i)
		case kind == health.Unhealthy:
			unhealthy = append(unhealthy, i)
		default:
			others = append(others, i)
		}
	}
	all := slices.Concat(recovered, unhealthy, others)
	if r.healthAfter == "" {
		return all
	}
	first := 1 + slices.IndexFunc(all, func(i int) bool { return machines[i].UID == r.healthAfter })
	return slices.Concat(all[first:], all[:first])
}
