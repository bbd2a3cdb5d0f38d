// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
)

// leftover is what a stray is about; either may be missing.
type leftover struct {
	machine *clusterv1.Machine
	request *requests.Found
}

// strays are what is left of this check at Machines that it does not select any more, or that are gone.
func (s *seen) strays() []remediation.Stray {
	s.left = nil
	requested := map[types.UID]int{}
	var strays []remediation.Stray
	for _, r := range s.strayRequests() {
		for _, uid := range r.Machines {
			requested[uid] = len(strays)
		}
		strays = append(strays, remediation.Stray{Name: r.Name, ControlPlane: r.ControlPlane, Gone: true, Request: r.Request(s.naming)})
		s.left = append(s.left, leftover{request: r})
	}
	for _, m := range s.unselected {
		stray := s.leftAt(m)
		at, found := requested[m.UID]
		switch {
		case found:
			stray.Request = strays[at].Request
			strays[at], s.left[at].machine = stray, m
		case stray.Marked || stray.Ledger != (remediation.Ledger{}) || !stray.NodeGoneSince.IsZero():
			strays, s.left = append(strays, stray), append(s.left, leftover{machine: m})
		}
	}
	return strays
}

// strayRequests are the requests of this check for other Machines than those it selects.
func (s *seen) strayRequests() []*requests.Found {
	if len(s.requests) == 0 {
		return nil
	}
	selected := make(map[types.UID]bool, len(s.machines))
	for _, m := range s.machines {
		selected[m.UID] = true
	}
	var strays []*requests.Found
	for _, r := range s.requests {
		if !slices.ContainsFunc(r.Machines, func(uid types.UID) bool { return selected[uid] }) {
			strays = append(strays, r)
		}
	}
	return strays
}

// leftAt is what stands on a Machine that the check does not select. What is remembered of it is everybody's, and goes only if nobody looks after it.
func (s *seen) leftAt(m *clusterv1.Machine) remediation.Stray {
	left := remediation.Stray{
		Name: m.Name, ControlPlane: util.IsControlPlaneMachine(m), Frozen: annotations.HasPaused(m), Marked: notes.Author(m.Annotations) == author(s.check),
	}
	for i := range s.rivals {
		if r := &s.rivals[i]; r.author != "" && r.selects(m, nil) {
			return left
		}
	}
	left.Ledger, left.NodeGoneSince = notes.Ledger(m.Annotations), notes.NodeGoneSince(m.Annotations)
	return left
}
