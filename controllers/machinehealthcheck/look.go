// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"slices"
	"time"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/checkup"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// How many Machines are looked at once: few, as whatever is found out about the last of them is older by all acts on the others before. They are
// read one by one; more at a time where all Machines have to be read for a look.
const (
	fewMachines  = 5
	moreMachines = 25
)

// Preflight reads again, past the caches, what the decisions about the first of some Machines rest on. What cannot be read of a
// Machine or its Node fails the looks that need it.
func (v *visit) Preflight(ctx context.Context, targets []int) (*checkup.Preflight, error) {
	few := fewMachines
	if v.looksAtAll(targets) {
		few = moreMachines
	}
	targets = targets[:min(len(targets), few)]
	v.looked = v.r.Clock.Now()
	fresh, err := v.readAgain(ctx, targets)
	if err != nil {
		ctrl.LoggerFrom(ctx).V(4).Info("A last look failed", "reason", err.Error())
		return nil, errors.New(cause(err))
	}
	if v.sawLive(fresh); !v.r.actsFor(fresh.check) {
		return nil, errors.New("another instance looks after the check by now")
	}
	read := &checkup.Preflight{Facts: fresh.only(targets).facts(v.now), Looks: make([]remediation.Look, len(targets))}
	if fresh.check.Spec.MaxInFlight != nil {
		read.All = fresh.facts(v.now)
	}
	control := v.controlPlaneAgain(ctx, fresh, targets)
	for n, target := range targets {
		read.Looks[n] = v.lookAt(fresh, target)
		read.Looks[n].ControlPlane = control.without(fresh.machines[target].Name)
	}
	return read, nil
}

// LeaseRenewed asks the workload cluster when a kubelet renewed its Lease last.
func (v *visit) LeaseRenewed(ctx context.Context, target int) (time.Time, error) {
	renewed, err := v.cluster().Live().HeartbeatRenewed(ctx, v.seen.machines[target].Status.NodeRef.Name)
	if err != nil {
		return time.Time{}, errors.New(cause(err))
	}
	return renewed, nil
}

// only is what was seen of some Machines.
func (s *seen) only(targets []int) *seen {
	few := *s
	few.machines, few.readings, few.unselected, few.requests = nil, nil, nil, nil
	for _, i := range targets {
		few.machines, few.readings = append(few.machines, s.machines[i]), append(few.readings, s.readings[i])
	}
	return &few
}

// lookAt is what was read again of one Machine beside its facts.
func (v *visit) lookAt(fresh *seen, i int) remediation.Look {
	m := fresh.machines[i]
	if slices.Contains(fresh.lost, i) {
		return remediation.Look{Failed: true}
	}
	v.pausedNow[m.Name] = annotations.HasPaused(m)
	look := remediation.Look{Frozen: fresh.frozen() || v.pausedNow[m.Name]}
	if why, is := fresh.blind[i]; is {
		look.Failed, look.Cause = true, why
		return look
	}
	look.Changed, look.Cause = v.changed(fresh), cause(fresh.readings[i].Err)
	if why, is := fresh.unsure[i]; is {
		look.RequestsUnread, look.Cause = true, why
	}
	return look
}

// changed says whether the check is not the one that was planned for, or its Cluster has begun to go.
func (v *visit) changed(fresh *seen) bool {
	// The finalizer is what makes the check wait until everything is cleaned up: nothing is begun without it.
	return changed(v.seen.check, fresh.check) || finalized(v.check) != finalized(fresh.check) || notes.Storm(fresh.check.Annotations) != notes.Storm(v.check.Annotations) ||
		fresh.clusterState() != v.seen.clusterState()
}

// readAgain sees the check, its Cluster and some of its Machines past the caches. The others stay as they were seen.
func (v *visit) readAgain(ctx context.Context, targets []int) (*seen, error) {
	fresh := *v.seen
	fresh.blind, fresh.unsure = map[int]string{}, map[int]string{}
	var err error
	if fresh.check, fresh.cluster, err = v.r.Checks.find(ctx, v.r.Live, client.ObjectKeyFromObject(v.seen.check)); err != nil {
		return nil, err
	}
	if err := v.readMachinesAgain(ctx, &fresh, targets); err != nil {
		return nil, err
	}
	v.readRequestsAgain(ctx, &fresh, targets)
	v.readNodesAgain(ctx, &fresh, targets)
	return &fresh, nil
}

// looksAtAll says whether a look at these Machines has to see all: where places are limited, what others have begun counts, and of a control
// plane, all its members.
func (v *visit) looksAtAll(targets []int) bool {
	return v.seen.check.Spec.MaxInFlight != nil ||
		slices.ContainsFunc(targets, func(i int) bool { return util.IsControlPlaneMachine(v.seen.machines[i]) })
}

// readMachinesAgain reads those Machines, or all.
func (v *visit) readMachinesAgain(ctx context.Context, fresh *seen, targets []int) error {
	fresh.machines = slices.Clone(v.seen.machines)
	if !v.looksAtAll(targets) {
		for _, i := range targets {
			m := &clusterv1.Machine{}
			err := v.r.Live.Get(ctx, client.ObjectKeyFromObject(v.seen.machines[i]), m)
			switch {
			case err != nil && ctx.Err() != nil:
				return errors.Wrap(err, "failed to read a Machine again")
			case err != nil && !apierrors.IsNotFound(err):
				// That is about this one only.
				ctrl.LoggerFrom(ctx).V(4).Info("A Machine could not be read again", "target", v.seen.machines[i].Name, "reason", err.Error())
				fresh.blind[i] = cause(err)
			case err == nil && m.UID == v.seen.machines[i].UID && m.Spec.ClusterName == fresh.check.Spec.ClusterName && selects(fresh.check, m.Labels):
				fresh.machines[i] = m
			default:
				fresh.lost = append(fresh.lost, i)
			}
		}
		return nil
	}
	all := &seen{check: fresh.check}
	if err := all.readMachines(ctx, v.r.Live, client.MatchingLabels{clusterv1.ClusterNameLabel: fresh.check.Spec.ClusterName}); err != nil {
		return err
	}
	fresh.unselected = all.unselected
	found, known := make(map[types.UID]*clusterv1.Machine, len(all.machines)), make(map[types.UID]bool, len(v.seen.machines))
	for _, m := range v.seen.machines {
		known[m.UID] = true
	}
	for _, m := range all.machines {
		// One that is new is for another pass, but it is there: as a member of a control plane, for instance.
		if found[m.UID] = m; !known[m.UID] {
			fresh.unselected = append(fresh.unselected, m)
		}
	}
	for i, m := range v.seen.machines {
		if now := found[m.UID]; now != nil {
			fresh.machines[i] = now
		} else {
			fresh.lost = append(fresh.lost, i)
		}
	}
	return nil
}

// readNodesAgain asks the workload cluster itself about the Nodes of those Machines.
func (v *visit) readNodesAgain(ctx context.Context, fresh *seen, targets []int) {
	machines := make([]*clusterv1.Machine, 0, len(targets))
	for _, i := range targets {
		machines = append(machines, fresh.machines[i])
	}
	fresh.readings = slices.Clone(v.seen.readings)
	for n, reading := range v.cluster().Live().Look(ctx, fresh.question(machines)) {
		fresh.readings[targets[n]] = reading
	}
}
