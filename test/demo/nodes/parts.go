// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// apply applies an invalid manifest, and then a valid one.
func (d *demonstration) apply(ctx context.Context) error {
	d.Heading("Part 1: the API server explains what is wrong in a manifest")
	d.Print("This manifest has a dangerous typing error: Nodes are unhealthy while Ready is True. The API server rejects it, and " +
		"reports the reason:")
	if err := d.RunRejected(ctx, "kubectl apply -f test/demo/nodes/invalid.yaml"); err != nil {
		return err
	}
	d.Print("This one is correct. A Node is unhealthy when its condition Ready has not been True for five seconds, and remediation " +
		"stops while more than 40%% of the Nodes are unhealthy:")
	if _, err := d.Run(ctx, "tail -n +4 test/demo/nodes/check.yaml && kubectl apply -f test/demo/nodes/check.yaml"); err != nil {
		return err
	}
	if err := d.untilHealthy(ctx); err != nil {
		return err
	}
	_, err := d.Run(ctx, "kubectl get rnhc")
	return err
}

// rebootNode breaks a Node. The remediator reboots it.
func (d *demonstration) rebootNode(ctx context.Context) error {
	d.Heading("Part 2: a Node breaks, and the remediation provider reboots it")
	node := names(1)[0]
	since := time.Now()
	err := d.setReady(ctx, corev1.ConditionUnknown, since, node)
	if err != nil {
		return err
	}
	d.Print("Node %s turns NotReady: its kubelet no longer reports.", node)
	if err := d.until(ctx, "Node "+node+" is suspect", func(s *remedyv1.NodeHealthCheckStatus) bool {
		return ptr.Deref(s.Suspect, 0) == 1
	}); err != nil {
		return err
	}
	d.Print("The Node is suspect: it may recover before its five seconds are over. Ask why it is not remediated, and when it would be:")
	if _, err := d.Run(ctx, "kubectl remedy explain node/"+node+" | head -6"); err != nil {
		return err
	}
	if err := d.Until(ctx, "Remedy creates a remediation request for Node "+node, func(ctx context.Context) (bool, error) {
		requests, err := d.requests(ctx)
		return requests == 1, err
	}); err != nil {
		return err
	}
	requested := time.Now()
	d.PrintAt(requested, "The five seconds are over, and the Node is unhealthy. %.2fs after the deadline, Remedy has created a request for "+
		"the remediation provider:", requested.Sub(since.Truncate(time.Second).Add(timeout)).Seconds())
	if _, err := d.Run(ctx, "kubectl get fenceagentsremediations -n remediation && kubectl get rnhc"); err != nil {
		return err
	}
	d.mayReboot.Store(true)
	if err := d.untilHealthy(ctx); err != nil {
		return err
	}
	d.Print("The remediation provider has rebooted the Node. The Node is Ready, and Remedy has deleted the request. " +
		"The check keeps the history:")
	_, err = d.Run(ctx, "kubectl remedy history node/"+node)
	return err
}

// breakMostNodes breaks most Nodes. Remedy creates no request.
func (d *demonstration) breakMostNodes(ctx context.Context) error {
	d.Heading("Part 3: four of five Nodes break at once, and Remedy reboots none")
	d.mayReboot.Store(false)
	since := time.Now()
	if err := d.setReady(ctx, corev1.ConditionUnknown, since, names(workers-1)...); err != nil {
		return err
	}
	d.Print("Four Nodes turn NotReady. If most break at once, the cause is rarely the servers, and rebooting them all is an outage.")
	if err := d.until(ctx, "four Nodes are unhealthy, and their remediation is blocked", func(s *remedyv1.NodeHealthCheckStatus) bool {
		allowed := meta.FindStatusCondition(s.Conditions, remedyv1.RemediationAllowedCondition)
		return ptr.Deref(s.Unhealthy, 0) == workers-1 && ptr.Deref(s.Blocked, 0) == workers-1 &&
			allowed != nil && allowed.Reason == remedyv1.TooManyUnhealthyReason
	}); err != nil {
		return err
	}
	blocked := time.Now()
	d.PrintAt(blocked, "Their five seconds are over, and %.2fs later the status reports that all four are unhealthy. The check allows 40%% "+
		"of five Nodes, which is two. So Remedy blocks all remediations:", blocked.Sub(since.Truncate(time.Second).Add(timeout)).Seconds())
	if _, err := d.Run(ctx, "kubectl get rnhc"); err != nil {
		return err
	}
	if _, err := d.Run(ctx, "kubectl remedy explain node/worker-2 | head -7"); err != nil {
		return err
	}
	if err := d.setReady(ctx, corev1.ConditionTrue, time.Now(), names(workers-1)...); err != nil {
		return err
	}
	d.Print("The cause is fixed: all Nodes are Ready.")
	if err := d.untilHealthy(ctx); err != nil {
		return err
	}
	// The remediation of the part before.
	if err := d.until(ctx, "no remediation was added to the history", func(s *remedyv1.NodeHealthCheckStatus) bool {
		return len(s.RecentRemediations) == 1
	}); err != nil {
		return err
	}
	d.Print("All five are healthy again, and none was rebooted.")
	return nil
}

// until waits until the status of the check matches.
func (d *demonstration) until(ctx context.Context, announced string, matches func(*remedyv1.NodeHealthCheckStatus) bool) error {
	return d.Until(ctx, announced, func(ctx context.Context) (bool, error) {
		check := &remedyv1.NodeHealthCheck{}
		err := d.api.Get(ctx, client.ObjectKey{Name: "workers"}, check)
		return matches(&check.Status), errors.WithStack(err)
	})
}

// untilHealthy waits until all Nodes are healthy, and there is no request.
func (d *demonstration) untilHealthy(ctx context.Context) error {
	err := d.until(ctx, "all Nodes are healthy", func(s *remedyv1.NodeHealthCheckStatus) bool {
		return ptr.Deref(s.HealthyNodes, 0) == workers && len(s.UnhealthyTargets) == 0 &&
			meta.IsStatusConditionTrue(s.Conditions, remedyv1.ReadyCondition)
	})
	if err != nil {
		return err
	}
	return d.Until(ctx, "there is no remediation request", func(ctx context.Context) (bool, error) {
		requests, err := d.requests(ctx)
		return requests == 0, err
	})
}

// requests counts the remediation requests.
func (d *demonstration) requests(ctx context.Context) (int, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(remediator.FenceAgents.GroupVersion().WithKind(remediator.FenceAgents.Kind + "List"))
	err := d.api.List(ctx, list, client.InNamespace(namespace))
	return len(list.Items), errors.WithStack(err)
}
