// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"slices"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// stillStray reads past the caches whether what is left is still to go: not while its Machine is paused, nor when the check looks after it again.
// News of either are on their way to us, and the error says no more than that.
func (v *visit) stillStray(ctx context.Context, left *leftover) error {
	key := client.ObjectKey{Namespace: v.seen.check.Namespace}
	if left.machine != nil {
		key.Name = left.machine.Name
	} else {
		key.Name = left.request.Name
	}
	m := &clusterv1.Machine{}
	err := v.r.Live.Get(ctx, key, m)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return errors.Wrap(err, "failed to read the Machine again")
	case !left.about(m):
		return nil
	case annotations.HasPaused(m), m.Spec.ClusterName == v.seen.check.Spec.ClusterName && selects(v.seen.check, m.Labels):
		return errNoStray
	}
	return nil
}

// about says whether it is left of this Machine, and of none that bears its name by now.
func (l *leftover) about(m *clusterv1.Machine) bool {
	return l.machine != nil && l.machine.UID == m.UID || l.request != nil && slices.Contains(l.request.Machines, m.UID)
}

// errNoStray is what a write returns for what is to stay where it is for now.
var errNoStray = errors.New("the Machine is paused, or the check looks after it again")

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
