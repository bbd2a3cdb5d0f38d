// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"slices"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
)

// cleanCluster removes every trace of Remedy from a cluster. A failure on one object does not stop the others. It returns the
// NodeHealthChecks of the management cluster, which stay until the workload clusters are clean: requests and Leases there name them.
func (u *Uninstaller) cleanCluster(ctx context.Context, c *Cluster) (nodeChecks []object, err error) {
	found, failed, err := c.find(ctx, "")
	if err != nil {
		return nil, err
	}
	for i := range failed {
		u.leave("%s: %s: %s", c.name, failed[i].name, failed[i].err)
	}
	if err := u.removeFencingTaints(ctx, c); err != nil {
		u.leave("%s: %s", c.name, err)
	}
	if c == u.Management {
		found = append(found, u.checksWithConditionsOnly(ctx)...)
	}
	// Checks come last, so an interrupted run leaves neither a request nor an owner remediation without the check that began it.
	slices.SortStableFunc(found, func(a, b object) int { return u.order(&a) - u.order(&b) })
	if c == u.Management {
		first := slices.IndexFunc(found, func(o object) bool { return o.isNodeHealthCheck() })
		if first >= 0 {
			found, nodeChecks = found[:first], found[first:]
		}
	}
	return nodeChecks, u.cleanObjects(ctx, c, found)
}

func (u *Uninstaller) cleanObjects(ctx context.Context, c *Cluster, objects []object) error {
	for i := range objects {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		o := &objects[i]
		if err := u.clean(ctx, c, o); err != nil {
			u.leave("%s: %s", c.name, err)
			continue
		}
		u.changed(c, o.kind, o, u.outcome(o))
	}
	return nil
}

// order sorts objects: requests, Machines, other objects, checks, checks of Nodes.
func (u *Uninstaller) order(o *object) int {
	switch {
	case u.withdraws(o):
		return 0
	case o.is(clusterv1.GroupVersion.Group, "Machine"):
		return 1
	case o.isNodeHealthCheck():
		return 4
	case o.is(clusterv1.GroupVersion.Group, "MachineHealthCheck"), o.resource.Group == remedyv1.GroupVersion.Group:
		return 3
	}
	return 2
}

// clean removes from one object what Remedy has set. A release leaves the conditions of Machines to the in-tree controller.
func (u *Uninstaller) clean(ctx context.Context, c *Cluster, o *object) (err error) {
	switch {
	case u.DryRun:
		return nil
	case u.withdraws(o):
		err = c.withdraw(ctx, o, u.Clock.Now())
	case o.is(clusterv1.GroupVersion.Group, "Machine") && !u.releasing:
		err = c.cancelOwnerRemediation(ctx, o)
	case o.is(clusterv1.GroupVersion.Group, "MachineHealthCheck"):
		err = c.removeConditions(ctx, o)
	}
	if err != nil {
		return err
	}
	return c.removeTraces(ctx, o)
}

// outcome describes what clean does.
func (u *Uninstaller) outcome(o *object) string {
	switch {
	case u.withdraws(o):
		return "withdrawn"
	case o.empty():
		return "removed conditions"
	case u.endsWithCheck(o) && slices.Contains(o.annotations, remedyv1.CheckAnnotation):
		return "removed " + o.traces.String() + "; not deleted because it does not have the form of a remediation request"
	}
	return "removed " + o.traces.String()
}

// withdraws returns true if an object is a request that is withdrawn.
func (u *Uninstaller) withdraws(o *object) bool { return u.endsWithCheck(o) && o.isRequest() }

// endsWithCheck returns true if an object, by its annotations, is a request that ends with its check. The in-tree controller, if it runs,
// continues a request of one of its checks, unless its remediation was stopped: the in-tree controller would not delete that one.
func (u *Uninstaller) endsWithCheck(o *object) bool {
	check, found := requests.ParseCheck(o.Annotations[remedyv1.CheckAnnotation])
	_, timedOut := o.Annotations[remedyv1.TimedOutAnnotation]
	return found && (u.exclusive || timedOut || check.Kind != string(metrics.InTreeMachineHealthCheck))
}

// isRequest returns true if an object has the form of a request, which annotations alone do not give it.
func (o *object) isRequest() bool {
	_, found := requests.CheckOf(&o.ObjectMeta)
	return found && o.ofRequests()
}

func (o *object) isNodeHealthCheck() bool {
	return o.is(remedyv1.GroupVersion.Group, string(metrics.NodeHealthCheck))
}

// hasConditions returns true if Remedy has set conditions on a check. Other controllers can set conditions of the same types on other
// checks.
func hasConditions(check *clusterv1.MachineHealthCheck) bool {
	return meta.FindStatusCondition(check.Status.Conditions, remedyv1.AdoptedCondition) != nil
}

// checksWithConditionsOnly returns the MachineHealthChecks of Cluster API with conditions of Remedy and without traces in their metadata,
// such as checks that wait for their adoption.
func (u *Uninstaller) checksWithConditionsOnly(ctx context.Context) (found []object) {
	checks := &clusterv1.MachineHealthCheckList{}
	if err := u.Management.client.List(ctx, checks); err != nil && !meta.IsNoMatchError(err) {
		u.leave("%s: %s", u.Management.name, errors.Wrap(err, "failed to list MachineHealthChecks"))
	}
	for i := range checks.Items {
		if o := newCheckObject(&checks.Items[i]); o.empty() && hasConditions(&checks.Items[i]) {
			found = append(found, o)
		}
	}
	return found
}

func newCheckObject(check *clusterv1.MachineHealthCheck) object {
	kind := apiResource{resource: clusterv1.GroupVersion.WithResource("machinehealthchecks"), kind: "MachineHealthCheck"}
	return newObject(kind, &check.ObjectMeta)
}
