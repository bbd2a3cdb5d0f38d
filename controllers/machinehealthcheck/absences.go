// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// absences remembers since when the Nodes of Machines are gone, where nobody may write it on the Machines: a check that only observes would
// find them gone since just now, over and over again. When it is lost the time begins anew.
type absences struct{ recall[time.Time] }

// found notes what shall be remembered of the Machines of a check, by the verdicts on them.
func (a *absences) found(check types.NamespacedName, machines []*clusterv1.Machine, verdicts []health.Verdict) {
	var gone map[types.UID]time.Time
	for i := range verdicts {
		since := verdicts[i].NodeGoneSince
		if since.IsZero() {
			continue
		}
		if gone == nil {
			gone = map[types.UID]time.Time{}
		}
		gone[machines[i].UID] = since
	}
	a.keep(check, gone)
}
