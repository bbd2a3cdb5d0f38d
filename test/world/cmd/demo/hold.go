// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// whyBlocked is a command that prints why new remediations are blocked.
const whyBlocked = `kubectl get rmhc workers -o jsonpath='{.status.conditions[?(@.type=="RemediationAllowed")].message}'`

// breakAllWorkers breaks all workers. Remedy replaces none.
func (d *demonstration) breakAllWorkers(ctx context.Context) error {
	d.Heading("Part 3: all workers break at once, and Remedy replaces none")
	pool, err := d.cluster.PoolMachines(ctx, workersPool)
	if err != nil {
		return err
	}
	before := d.history.remediated()
	all := make([]*clusterv1.Machine, 0, len(pool))
	for i := range pool {
		all = append(all, &pool[i])
	}
	faults, err := d.breakNodes(ctx, all...)
	if err != nil {
		return err
	}
	d.PrintAt(faults[0].began, "All three workers turn NotReady. If all break at once, the cause is rarely the servers, and "+
		"replacing them all is an outage.")
	err = d.untilCheck(ctx, "all workers are blocked", workersPool, func(s *remedyv1.MachineHealthCheckStatus) bool {
		return is(s.Unhealthy, workers) && is(s.Blocked, workers) &&
			reason(s, remedyv1.RemediationAllowedCondition) == remedyv1.TooManyUnhealthyReason
	})
	if err != nil {
		return err
	}
	blocked := time.Now()
	d.PrintAt(blocked, "The five seconds are over, and all three are unhealthy. The check allows 40%% of three "+
		"Machines, which is one. So Remedy blocks all remediations:")
	if _, err := d.Run(ctx, "kubectl get rmhc workers"); err != nil {
		return err
	}
	if _, err := d.Run(ctx, "kubectl remedy explain machine/"+all[0].Name+" | head -9"); err != nil {
		return err
	}
	if err := d.repairNodes(ctx, all...); err != nil {
		return err
	}
	d.Print("The cause is fixed: all Nodes are Ready.")
	if err := d.awaitStormEnd(ctx); err != nil {
		return err
	}
	if err := d.nothingRemediated(before); err != nil {
		return err
	}
	healthy := time.Now()
	d.PrintAt(healthy, "All three are healthy, new remediations are allowed again, and no Machine was replaced.")
	r := faults[len(faults)-1].result("all workers at once", "Remedy: MachineHealthCheck", blocked, healthy)
	r.outcome = "blocked, none replaced"
	d.results = append(d.results, r)
	return nil
}

// awaitStormEnd waits until remediation is allowed again: the limit has to be kept for a while.
func (d *demonstration) awaitStormEnd(ctx context.Context) error {
	err := d.untilCheck(ctx, "a storm is reported", workersPool, func(s *remedyv1.MachineHealthCheckStatus) bool {
		return reason(s, remedyv1.RemediationAllowedCondition) == remedyv1.StormReason
	})
	if err != nil {
		return err
	}
	d.Print("What broke so many may return. So Remedy starts no remediation until the limit has been kept for " +
		"stormCooldownDuration, which is three seconds here:")
	if _, err := d.Run(ctx, whyBlocked); err != nil {
		return err
	}
	err = d.untilCheck(ctx, "the storm is over", workersPool, func(s *remedyv1.MachineHealthCheckStatus) bool {
		return reason(s, remedyv1.RemediationAllowedCondition) == remedyv1.RemediationAllowedReason
	})
	if err != nil {
		return err
	}
	return d.untilHealthy(ctx, workersPool)
}

// cutConnection breaks a worker and then the connection to the workload cluster. Remedy replaces nothing.
func (d *demonstration) cutConnection(ctx context.Context) error {
	d.Heading("Part 4: the connection to the workload cluster is cut, and Remedy replaces nothing")
	pool, err := d.cluster.PoolMachines(ctx, workersPool)
	if err != nil {
		return err
	}
	link, err := d.cluster.Link(ctx)
	if err != nil {
		return err
	}
	before := d.history.remediated()
	faults, err := d.breakNodes(ctx, &pool[0])
	if err != nil {
		return err
	}
	f := faults[0]
	d.PrintAt(f.began, "Node %s turns NotReady.", f.machine.Status.NodeRef.Name)
	if err := d.untilSuspect(ctx, workersPool); err != nil {
		return err
	}
	link.Cut()
	cut := time.Now()
	d.PrintAt(cut, "Before its five seconds are over, the connection to the API server of the workload cluster is cut. "+
		"The Node may recover, and Remedy could not see it. So it does not act on what it knew before:")
	err = d.untilCheck(ctx, "the workload cluster is reported as unreachable", workersPool, func(s *remedyv1.MachineHealthCheckStatus) bool {
		return reason(s, remedyv1.ClusterReachableCondition) == remedyv1.ClusterUnreachableReason && time.Now().After(f.deadline)
	})
	if err != nil {
		return err
	}
	reported := time.Now()
	d.PrintAt(reported, "The deadline of the Node was %s ago. Its Machine is not replaced, and the status has the reason:",
		seconds(reported.Sub(f.deadline)))
	if _, err := d.Run(ctx, "kubectl get rmhc"); err != nil {
		return err
	}
	if _, err := d.Run(ctx, whyBlocked); err != nil {
		return err
	}
	if err := d.repairNodes(ctx, f.machine); err != nil {
		return err
	}
	link.Restore()
	d.Print("Meanwhile the kubelet reports again. The connection is restored.")
	err = d.untilCheck(ctx, "Remedy is connected again", workersPool, func(s *remedyv1.MachineHealthCheckStatus) bool {
		found := reason(s, remedyv1.ClusterReachableCondition)
		return found == remedyv1.ReconnectingReason || found == remedyv1.ClusterReachableReason
	})
	if err != nil {
		return err
	}
	if err := d.nothingRemediated(before); err != nil {
		return err
	}
	d.Print("Remedy is connected again, and gives the kubelets 50 seconds to report before it decides anything. No Machine was replaced.")
	d.results = append(d.results, result{
		fault: "the connection", check: "Remedy: MachineHealthCheck", detected: seconds(reported.Sub(cut)), outcome: "blocked, none replaced",
	})
	return nil
}

// reason returns the reason of a condition.
func reason(s *remedyv1.MachineHealthCheckStatus, condition string) string {
	if c := meta.FindStatusCondition(s.Conditions, condition); c != nil {
		return c.Reason
	}
	return ""
}
