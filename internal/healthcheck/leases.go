// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"context"
	"slices"
	"time"

	"github.com/pkg/errors"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/pipeline"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// nodeLease returns the Lease of a Node that is being remediated. Before it is read, the check uses it. Without a known request for the
// Node, the Lease is left as it is while some requests cannot be read, and while there is one for an earlier Node of the same name.
func (s *snapshot) nodeLease(node string, requested bool) remediation.Lease {
	switch {
	case !s.check.ofNodes():
		return remediation.Lease{}
	case s.leases == nil:
		return remediation.Lease{Used: s.leasesUnread == nil}
	case !s.leases.Used:
		return remediation.Lease{}
	}
	lease := s.leases.Lease(node)
	if lease == nil {
		return remediation.Lease{Used: true}
	}
	holder := workload.LeaseHolder(lease)
	earlier := func(r *requests.Request) bool { return r.Node.Name == node }
	return remediation.Lease{
		Used: true, Holder: holder, Until: workload.LeaseExpiry(&lease.Spec),
		HeldByThis: holder == s.check.LeaseHolder() &&
			(requested || len(s.unread) == 0 && !slices.ContainsFunc(s.requests, earlier)),
	}
}

// readNodeLeases reads the Leases of Nodes while there are requests, and after the last one: for the other Nodes, the preflight check reads
// them.
func (p *scope) readNodeLeases(ctx context.Context, s *snapshot) {
	if !s.check.ofNodes() || s.paused() || s.nodesUnread != nil || len(s.requests)+len(s.check.InFlight) == 0 {
		return
	}
	if s.leases, s.leasesUnread = p.r.Clusters.Get(s.check.Cluster).Live().NodeRemediations(ctx); s.leasesUnread != nil {
		ctrl.LoggerFrom(ctx).V(4).Info("The Leases of Nodes could not be read", "reason", s.leasesUnread.Error())
		s.requeueAt(p.now.Add(remediation.RetryTime))
	}
	p.nodeLeases = s.leases
}

// readNodeLeasesAgain reads the Leases of Nodes live. Without them, no remediation of these Nodes starts. One that is in progress can end.
func (p *scope) readNodeLeasesAgain(ctx context.Context, fresh *snapshot, targets []int) {
	fresh.leases, fresh.leasesUnread = p.cluster().Live().NodeRemediations(ctx)
	p.nodeLeases = fresh.leases
	if fresh.leasesUnread == nil {
		return
	}
	for _, i := range targets {
		if fresh.unsure[i] == "" {
			fresh.unsure[i] = cause(fresh.leasesUnread)
		}
	}
}

// nodeOf returns the Node of a target, or the name of one that no longer exists and has a request.
func nodeOf(t *Target, request *requests.Request) requests.Object {
	if t == nil {
		return requests.Object{Name: request.Node.Name}
	}
	return t.Subject.Node
}

// acquireNodeLease acquires the Lease of a Node as it was read, or not at all.
func (p *scope) acquireNodeLease(ctx context.Context, node requests.Object, until time.Time) error {
	if p.nodeLeases == nil || !p.nodeLeases.Used {
		return nil
	}
	api, err := p.cluster().Client(ctx)
	if err == nil {
		var acquired *coordinationv1.Lease
		var owners []metav1.OwnerReference
		if node.UID != "" {
			owners = append(owners, workload.NodeOwner(node.Name, node.UID))
		}
		key, before := p.nodeLeases.Key(node.Name), p.readNodeLease(node.Name)
		acquired, err = workload.AcquireLease(ctx, api, key, before, p.snapshot.check.LeaseHolder(), p.now, until, owners...)
		if err == nil {
			p.keepNodeLease(node.Name, acquired)
		}
	}
	return p.writeError("Lease "+p.nodeLeases.Key(node.Name).String(), err)
}

// releaseNodeLease deletes the Lease of a Node as it was read.
func (p *scope) releaseNodeLease(ctx context.Context, node requests.Object) error {
	lease := p.readNodeLease(node.Name)
	if lease == nil {
		return nil
	}
	api, err := p.cluster().Client(ctx)
	if err != nil {
		return err
	}
	err = errors.Wrap(client.IgnoreNotFound(workload.DeleteLease(ctx, api, lease)), "failed to release the Lease of the Node")
	if err = p.released(ctx, client.ObjectKeyFromObject(lease), err); err == nil {
		p.keepNodeLease(node.Name, nil)
	}
	return err
}

// releaseNodeLeases deletes the Leases of all Nodes that the check still holds, before its finalizer is removed.
func (p *scope) releaseNodeLeases(ctx context.Context) error {
	if !p.check.ofNodes() || p.snapshot.clusterState() == remediation.ClusterIsMissing || p.snapshot.nodesUnread != nil {
		return nil //nolint:nilerr // A Lease that cannot be deleted expires.
	}
	leases, err := p.cluster().Live().NodeRemediations(ctx)
	if err != nil {
		ctrl.LoggerFrom(ctx).V(4).Info("The Leases of Nodes could not be read", "reason", err.Error())
		return nil
	}
	p.nodeLeases = leases
	for _, lease := range p.nodeLeases.HeldBy(p.check.LeaseHolder()) {
		api, err := p.cluster().Client(ctx)
		if err != nil {
			return err
		}
		err = errors.Wrap(client.IgnoreNotFound(workload.DeleteLease(ctx, api, lease)), "failed to release the Lease of a Node")
		if err := p.released(ctx, client.ObjectKeyFromObject(lease), err); err != nil {
			return err
		}
	}
	return nil
}

// released returns the error of the release of a Lease, which comes after the report. The next reconcile reports a missing permission. One
// failure keeps a check that is being deleted, and the next reconcile reports any failure. After that, the Lease is left until it expires:
// a workload cluster must not keep the check of an administrator.
func (p *scope) released(ctx context.Context, key client.ObjectKey, err error) error {
	if err == nil {
		return nil
	}
	failed := p.writeError("Lease "+key.String(), err)
	if p.check.deleting() && p.snapshot.unreleased != "" {
		ctrl.LoggerFrom(ctx).Info("A Lease could not be released, and expires", "lease", key.String(), "reason", failed.Error())
		return nil
	}
	var write *pipeline.WriteError
	if errors.As(failed, &write) && (p.check.deleting() || apierrors.IsForbidden(err)) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.record.unreleased = write.Cause
	}
	return failed
}

// Several targets are written to at the same time.
func (p *scope) readNodeLease(node string) *coordinationv1.Lease {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.nodeLeases == nil {
		return nil
	}
	return p.nodeLeases.Lease(node)
}

func (p *scope) keepNodeLease(node string, lease *coordinationv1.Lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nodeLeases.Set(node, lease)
}

// permission is what to do if the manager lacks a permission in the cluster of the Nodes.
func (p *scope) permission() string {
	if p.check.inManagementCluster() {
		return applyRoles
	}
	return "allow that to the user of the cluster's kubeconfig"
}

// writeError is that of a write in the cluster of the Nodes. In a workload cluster, the cause names a missing permission.
func (p *scope) writeError(object string, err error) error {
	permission := ""
	if p.snapshot.check.inManagementCluster() {
		permission = applyRoles
	}
	return writeError(object, permission, err, workload.CauseOf)
}

// acquireControlPlaneLease acquires the control-plane Lease as it was read, or not at all.
func (p *scope) acquireControlPlaneLease(ctx context.Context, until time.Time) error {
	p.leaseMu.Lock()
	defer p.leaseMu.Unlock()
	api, err := p.cluster().Client(ctx)
	if err == nil {
		var acquired *coordinationv1.Lease
		acquired, err = workload.AcquireLease(ctx, api, workload.ControlPlaneLease, p.lease, p.snapshot.check.LeaseHolder(), p.now, until)
		if err == nil {
			p.lease = acquired
		}
	}
	object := "Lease " + workload.ControlPlaneLease.String()
	if !p.snapshot.check.inManagementCluster() {
		object += " of the workload cluster"
	}
	return p.writeError(object, err)
}

// ReleaseLease releases the control-plane Lease of a check as it was read, and wakes the checks that may wait for it.
func (e *Environment) ReleaseLease(ctx context.Context, check *Check, lease *coordinationv1.Lease, claims []Claim) error {
	api, err := e.Clusters.Get(check.Cluster).Client(ctx)
	if err != nil {
		return err
	}
	if err := client.IgnoreNotFound(workload.DeleteLease(ctx, api, lease)); err != nil {
		return errors.Wrap(err, "failed to release the control-plane Lease")
	}
	// Other checks were woken when the request was deleted, and read that the Lease was still held.
	for i := range claims {
		e.Requests.Wake(claims[i].Check)
	}
	return nil
}
