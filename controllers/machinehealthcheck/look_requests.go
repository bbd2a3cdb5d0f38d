// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"slices"
	"time"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
)

// readRequestsAgain reads past the caches which requests there are for some Machines; for all, where it counts how many there are altogether.
func (v *visit) readRequestsAgain(ctx context.Context, fresh *seen, targets []int) error {
	kinds := kindsOf(fresh.check)
	if len(kinds) == 0 {
		return nil
	}
	everything := v.looksAtAll(targets)
	live, err := v.liveRequests(ctx, kinds, targets, everything)
	if err != nil {
		return err
	}
	var own []*requests.Found
	for _, r := range live {
		if r.Of(identity(fresh.check)) {
			own = append(own, r)
		}
	}
	for _, r := range v.seen.requests {
		known := slices.ContainsFunc(own, func(f *requests.Found) bool { return f.UID == r.UID })
		looked := slices.Contains(kinds, r.Kind) && (everything || slices.ContainsFunc(targets, func(i int) bool { return v.seen.machines[i].Name == r.Name }))
		if !known && !looked {
			own = append(own, r)
		}
	}
	fresh.owned(own)
	fresh.takeNames(targets, live)
	return nil
}

// liveRequests are those of these kinds that bear the names of some Machines, whosever they are; or all of the namespace.
func (v *visit) liveRequests(ctx context.Context, kinds []schema.GroupVersionKind, targets []int, everything bool) ([]*requests.Found, error) {
	var live []*requests.Found
	for _, gvk := range kinds {
		if everything {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
			err := v.r.Live.List(ctx, list, client.InNamespace(v.seen.check.Namespace))
			if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
				return nil, errors.Wrapf(err, "failed to read all %s again", gvk.Kind)
			}
			for i := range list.Items {
				live = append(live, requests.Read(&list.Items[i]))
			}
			continue
		}
		for _, i := range targets {
			found, err := v.r.Requests.Live(ctx, gvk, client.ObjectKeyFromObject(v.seen.machines[i]))
			if err != nil {
				return nil, err
			}
			if found != nil {
				live = append(live, found)
			}
		}
	}
	return live, nil
}

// takeNames notes what bears the name of a request that one of the Machines could get next, and is none of ours for it.
func (s *seen) takeNames(targets []int, live []*requests.Found) {
	s.taken = map[string]string{}
	next := s.nextKinds()
	byName := make(map[string][]*requests.Found, len(live))
	for _, r := range live {
		byName[r.Name] = append(byName[r.Name], r)
	}
	for _, i := range targets {
		m := s.machines[i]
		for _, r := range byName[m.Name] {
			if r.Kind.GroupKind() == next(m).GroupKind() && !s.owns(r, m) {
				s.taken[m.Name] = r.String()
			}
		}
	}
}

// inFlightNow is what takes up places now.
type inFlightNow struct {
	all     int
	targets []remediation.Decision
}

func (n inFlightNow) without(target int) int {
	if n.targets == nil {
		return 0
	}
	if n.targets[target].Budgeted {
		return n.all - 1
	}
	return n.all
}

// othersInFlight counts what takes up places by what was read again: requests, marks, and Machines that are gone and not replaced yet. Where
// places are not limited, nobody asks.
func othersInFlight(fresh *seen, now time.Time) inFlightNow {
	if fresh.check.Spec.MaxInFlight == nil {
		return inFlightNow{}
	}
	facts := fresh.facts(now)
	assessment := health.Evaluate(&facts.Snapshot, &facts.Health, now)
	frozen := facts.Situation
	frozen.Check = remediation.Check{Frozen: true}
	plan := remediation.Plan(&frozen, &assessment, &facts.Policy, now)
	n := inFlightNow{all: plan.Counts.InFlight, targets: plan.Decisions}
	for _, gone := range facts.Situation.Replacing {
		if !slices.ContainsFunc(fresh.machines, named(gone.Target)) {
			n.all++
		}
	}
	return n
}

// controlPlaneNow is the control plane as it is now, with what this check is busy with.
type controlPlaneNow struct {
	remediation.ControlPlane
}

// without is what one Machine has to know of it: what others are busy with.
func (c controlPlaneNow) without(machine string) remediation.ControlPlane {
	control := c.ControlPlane
	control.Busy = slices.DeleteFunc(slices.Clone(c.Busy), func(name string) bool { return name == machine })
	return control
}

// controlPlaneAgain reads the control plane again, if one of its Machines is among the targets.
func (v *visit) controlPlaneAgain(ctx context.Context, fresh *seen, targets []int) controlPlaneNow {
	if !slices.ContainsFunc(targets, func(i int) bool { return util.IsControlPlaneMachine(v.seen.machines[i]) }) {
		return controlPlaneNow{}
	}
	again := *v
	again.seen = fresh
	control := again.ControlPlane(ctx)
	v.turn = again.turn
	for _, m := range fresh.machines {
		if util.IsControlPlaneMachine(m) && fresh.requestFor(m) != nil {
			control.Busy = append(control.Busy, m.Name)
		}
	}
	return controlPlaneNow{control}
}
