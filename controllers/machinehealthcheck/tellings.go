// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// tellingTime is how long a pass tells Machines how they are. Thousands that are told for the first time take minutes, and nothing is done meanwhile
// for one that falls ill: so the others are told in the passes that follow.
const tellingTime = 500 * time.Millisecond

// tellings remember behind which Machine of a check the next pass begins to tell, where one could not be told and the time was over: others would never
// be told if each pass began with one whose writes fail slowly.
type tellings struct{ recall[struct{}] }

// goOnBehind lets the next pass begin behind a Machine.
func (t *tellings) goOnBehind(check types.NamespacedName, machine types.UID) {
	t.keep(check, map[types.UID]struct{}{machine: {}})
}

// order is in which order Machines are told how they are. First are those that are well and were handed to their owner, which deletes them as long as
// it does not know, then the sick, and then all others.
func (t *tellings) order(check types.NamespacedName, pass *explain.Pass, machines []*clusterv1.Machine) []int {
	var saved, sick, others []int
	for i := range pass.Assessment.Verdicts {
		switch kind := pass.Assessment.Verdicts[i].Kind; {
		case kind == health.Healthy && pass.Situation.Targets[i].Mark.Given:
			saved = append(saved, i)
		case kind == health.Unhealthy:
			sick = append(sick, i)
		default:
			others = append(others, i)
		}
	}
	all, last := slices.Concat(saved, sick, others), t.of(check)
	if len(last) == 0 {
		return all
	}
	begin := 1 + slices.IndexFunc(all, func(i int) bool {
		_, is := last[machines[i].UID]
		return is
	})
	return slices.Concat(all[begin:], all[:begin])
}
