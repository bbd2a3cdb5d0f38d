// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cluster-api/util"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
)

// glance is what could be read past the caches of the requests of one kind.
type glance struct {
	found []*requests.Found
	// all: they are all of the namespace. Otherwise they are those with the names of the Machines in question.
	all bool
	// failed is why it is not known whether there is one, by the names of Machines.
	failed map[string]error
}

// saw says whether it is known whether there is one of this name.
func (g *glance) saw(name string, asked bool) bool { return g.all || asked && g.failed[name] == nil }

// readRequestsAgain reads past the caches which requests there are for some Machines; for all, where it counts how many there are altogether. What
// cannot be read of one kind is no obstacle for whom it does not concern; there, what was seen is all that is known.
func (v *visit) readRequestsAgain(ctx context.Context, fresh *seen, targets []int) {
	kinds := kindsOf(fresh.check)
	glances := make(map[schema.GroupVersionKind]*glance, len(kinds))
	var live, own []*requests.Found
	for _, gvk := range kinds {
		glances[gvk] = v.glance(ctx, gvk, targets, v.looksAtAll(targets))
		live = append(live, glances[gvk].found...)
	}
	for _, r := range live {
		if r.Of(identity(fresh.check)) {
			own = append(own, r)
		}
	}
	for _, r := range v.seen.requests {
		known := slices.ContainsFunc(own, func(f *requests.Found) bool { return f.UID == r.UID })
		asked := slices.ContainsFunc(targets, func(i int) bool { return v.seen.machines[i].Name == r.Name })
		if g := glances[r.Kind]; !known && (g == nil || !g.saw(r.Name, asked)) {
			own = append(own, r)
		}
	}
	fresh.owned(own)
	fresh.takeNames(targets, live)
	for _, gvk := range kinds {
		v.missed(fresh, gvk, glances[gvk], targets)
	}
}

// missed notes for whom it matters that requests of a kind could not be read. Whoever has one waits. Whoever would get one is not begun with; nor is
// anybody else, if it was never known which there are. What was known once is: none is made that is not noted, as long as they cannot be read.
func (v *visit) missed(fresh *seen, gvk schema.GroupVersionKind, g *glance, targets []int) {
	next := fresh.nextKinds()
	for _, i := range targets {
		m := fresh.machines[i]
		err := g.failed[m.Name]
		if err == nil || fresh.blind[i] != "" {
			continue
		}
		why := gvk.GroupKind().String() + ": " + causeOfKind(err)
		switch has := fresh.requestFor(m); {
		case has != nil && has.Kind.GroupKind() == gvk.GroupKind():
			fresh.blind[i] = why
		case next(m).GroupKind() == gvk.GroupKind() || !v.r.Requests.Known(gvk):
			fresh.unsure[i] = why
		}
	}
}

// glanceTime is how long it may take to read requests of one kind again. A client waits for as long as it is told by an API server that cannot list
// them, and everybody else with it.
const glanceTime = 5 * time.Second

// glance reads the requests of a kind that bear the names of some Machines, whosever they are; or all of the namespace. Where one of them keeps all from
// being listed, each is asked for, and that is not tried again in this pass.
func (v *visit) glance(ctx context.Context, gvk schema.GroupVersionKind, targets []int, everything bool) *glance {
	if everything && !v.unlisted[gvk] {
		if g := v.glanceAtAll(ctx, gvk); g != nil {
			return g
		}
		v.unlisted[gvk] = true
	}
	ctx, done := context.WithTimeout(ctx, glanceTime)
	defer done()
	g := &glance{failed: map[string]error{}}
	for _, i := range targets {
		name := v.seen.machines[i].Name
		found, err := v.r.Requests.Live(ctx, gvk, client.ObjectKeyFromObject(v.seen.machines[i]))
		switch {
		case err != nil:
			ctrl.LoggerFrom(ctx).V(4).Info("A request could not be read again", "reason", err.Error())
			g.failed[name] = err
		case found != nil:
			g.found = append(g.found, found)
		}
	}
	return g
}

// glanceAtAll is nil if they cannot be listed.
func (v *visit) glanceAtAll(ctx context.Context, gvk schema.GroupVersionKind) *glance {
	ctx, done := context.WithTimeout(ctx, glanceTime)
	defer done()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	err := v.r.Live.List(ctx, list, client.InNamespace(v.seen.check.Namespace))
	if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		ctrl.LoggerFrom(ctx).V(4).Info("Requests could not be listed again", "kind", gvk.Kind, "reason", err.Error())
		return nil
	}
	g := &glance{all: true}
	for i := range list.Items {
		g.found = append(g.found, requests.Read(&list.Items[i]))
	}
	return g
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
