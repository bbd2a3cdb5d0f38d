// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/fencing"
)

// result is how long a fence took, from when the Node was Unknown.
type result struct {
	requester, node              string
	requested, proven, on, ready time.Duration
}

func (d *demonstration) byHand(ctx context.Context) error {
	d.Heading("Part 1: a person")
	return d.fence(ctx, "kubectl create", d.servers[0], func() error {
		_, err := d.Run(ctx, "cat fence.yaml && kubectl create -f fence.yaml")
		return err
	})
}

func (d *demonstration) byInTreeCheck(ctx context.Context) error {
	d.Heading("Part 2: a MachineHealthCheck of Cluster API")
	return d.fence(ctx, "MachineHealthCheck (in-tree)", d.servers[1], nil)
}

func (d *demonstration) byMachineHealthCheck(ctx context.Context) error {
	d.Heading("Part 3: a MachineHealthCheck of Remedy")
	return d.fence(ctx, "MachineHealthCheck", d.servers[2], nil)
}

// fence breaks the kubelet of a server, and follows its fence. request requests it, unless a check does.
func (d *demonstration) fence(ctx context.Context, requester string, server *fencing.Machine, request func() error) error {
	boot, err := d.node(ctx, server.Name)
	if err != nil {
		return err
	}
	server.Kubelet.Hang()
	d.Print("The kubelet of %s hangs. The machine has power, and its Pods may still run.", server.Name)
	if err := d.Until(ctx, "Node "+server.Name+" is Unknown", func(ctx context.Context) (bool, error) {
		node, err := d.node(ctx, server.Name)
		return fencing.Ready(node) == corev1.ConditionUnknown, err
	}); err != nil {
		return err
	}
	began := time.Now()
	d.Print("kube-controller-manager has set its condition Ready to Unknown.")
	if request != nil {
		if err := request(); err != nil {
			return err
		}
	}
	r := result{requester: requester, node: server.Name}
	fence, err := d.untilFence(ctx, server.Name, "it is requested", func(f *fencingv1.NodeFence) bool { return f.Status.Node != nil })
	if err != nil {
		return err
	}
	r.requested = time.Since(began)
	d.Print("NodeFence %s/%s was created, and has begun.", fence.Namespace, fence.Name)
	if request != nil {
		if _, err := d.Run(ctx, "kubectl remedy explain node/"+server.Name); err != nil {
			return err
		}
	}
	if err := d.followOff(ctx, server, &r, began); err != nil {
		return err
	}
	if err := d.followOn(ctx, server, &r, began, boot.Status.NodeInfo.BootID); err != nil {
		return err
	}
	d.results = append(d.results, r)
	return d.end(ctx, server, request != nil)
}

// followOff follows a fence until the Node is proven off.
func (d *demonstration) followOff(ctx context.Context, server *fencing.Machine, r *result, began time.Time) error {
	if err := d.Until(ctx, server.Name+" has no power", func(context.Context) (bool, error) { return !server.Power(), nil }); err != nil {
		return err
	}
	d.Print("%s has no power.", server.Name)
	proven := func(f *fencingv1.NodeFence) bool { return f.Status.Evidence != nil }
	if _, err := d.untilFence(ctx, server.Name, "it is proven off", proven); err != nil {
		return err
	}
	r.proven = time.Since(began)
	d.Print("Asked by a Job of its own, the BMC has answered OFF: the first proof.")
	fence, err := d.untilFence(ctx, server.Name, "it is proven off twice", func(f *fencingv1.NodeFence) bool {
		return slices.ContainsFunc(f.Status.Methods, func(m fencingv1.MethodRecord) bool { return m.Confirmed })
	})
	if err != nil {
		return err
	}
	d.Print("It has answered OFF to another Job: the second proof. The Jobs so far: %s.", jobsOf(fence))
	return nil
}

// followOn follows a fence until the Node is Ready with a new boot.
func (d *demonstration) followOn(ctx context.Context, server *fencing.Machine, r *result, began time.Time, boot string) error {
	if err := d.Until(ctx, server.Name+" has power", func(context.Context) (bool, error) { return server.Power(), nil }); err != nil {
		return err
	}
	r.on = time.Since(began)
	d.Print("%s is switched on, and boots.", server.Name)
	var node *corev1.Node
	if err := d.Until(ctx, "Node "+server.Name+" is Ready with a new boot", func(ctx context.Context) (is bool, err error) {
		node, err = d.node(ctx, server.Name)
		return fencing.Ready(node) == corev1.ConditionTrue && node.Status.NodeInfo.BootID != boot, err
	}); err != nil {
		return err
	}
	r.ready = time.Since(began)
	d.Print("Node %s is Ready with a new boot: %.8s was %.8s.", server.Name, node.Status.NodeInfo.BootID, boot)
	return nil
}

// end waits until the Node can be used, and verifies what happened to the machine. A check deletes its NodeFence.
func (d *demonstration) end(ctx context.Context, server *fencing.Machine, byHand bool) error {
	if err := d.Until(ctx, "the taint of the fence is removed", func(ctx context.Context) (bool, error) {
		node, err := d.node(ctx, server.Name)
		for _, taint := range node.Spec.Taints {
			if taint.Key == fencingv1.FencingTaint {
				return false, err
			}
		}
		return true, err
	}); err != nil {
		return err
	}
	if offs, ons := server.OffRequests(), server.OnRequests(); offs != 1 || ons != 1 {
		return errors.Errorf("the BMC of %s was asked %d times to switch off and %d times to switch on", server.Name, offs, ons)
	}
	if byHand {
		d.Print("The taint is removed, and the NodeFence keeps what was done:")
		_, err := d.Run(ctx, "kubectl get rnf -A")
		return err
	}
	if err := d.Until(ctx, "the check deletes the NodeFence", func(ctx context.Context) (bool, error) {
		fences := &fencingv1.NodeFenceList{}
		err := d.world.API.List(ctx, fences)
		return !slices.ContainsFunc(fences.Items, func(f fencingv1.NodeFence) bool {
			return f.Status.Node != nil && f.Status.Node.Name == server.Name
		}), errors.WithStack(err)
	}); err != nil {
		return err
	}
	d.Print("The taint is removed, and the check has deleted the NodeFence.")
	return nil
}

// summarize prints all times.
func (d *demonstration) summarize(context.Context) error {
	d.Heading("Summary: seconds from Ready=Unknown")
	lines := make([]string, 0, len(d.results)+1)
	lines = append(lines, fmt.Sprintf("%-30s %-10s %9s %11s %12s %7s",
		"requested by", "node", "requested", "proven off", "switched on", "Ready"))
	for _, r := range d.results {
		lines = append(lines, fmt.Sprintf("%-30s %-10s %9.1f %11.1f %12.1f %7.1f",
			r.requester, r.node, r.requested.Seconds(), r.proven.Seconds(), r.on.Seconds(), r.ready.Seconds()))
	}
	d.Lines(strings.Join(lines, "\n"))
	return nil
}

func (d *demonstration) node(ctx context.Context, name string) (*corev1.Node, error) {
	node := &corev1.Node{}
	return node, errors.WithStack(d.world.API.Get(ctx, client.ObjectKey{Name: name}, node))
}

// untilFence waits until the fence of a Node matches.
func (d *demonstration) untilFence(
	ctx context.Context, node, announced string, matches func(*fencingv1.NodeFence) bool,
) (found *fencingv1.NodeFence, _ error) {
	err := d.Until(ctx, announced, func(ctx context.Context) (bool, error) {
		fences := &fencingv1.NodeFenceList{}
		if err := d.world.API.List(ctx, fences); err != nil {
			return false, errors.WithStack(err)
		}
		for i := range fences.Items {
			if f := &fences.Items[i]; f.Status.Node != nil && f.Status.Node.Name == node && matches(f) {
				found = f
			}
		}
		return found != nil, nil
	})
	return found, err
}

// jobsOf are the Jobs of a fence, with their results.
func jobsOf(fence *fencingv1.NodeFence) string {
	all := make([]string, 0, len(fence.Status.Jobs))
	for _, job := range fence.Status.Jobs {
		all = append(all, fmt.Sprintf("%s %s (%s)", job.Name, job.Action, job.Result))
	}
	return strings.Join(all, ", ")
}
