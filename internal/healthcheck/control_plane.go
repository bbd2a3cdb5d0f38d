// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// ControlPlane reads the control plane of the Cluster. No check remediates it as long as something cannot be read.
func (p *scope) ControlPlane(ctx context.Context) remediation.ControlPlane {
	c := remediation.ControlPlane{Busy: p.snapshot.busyElsewhere()}
	if !p.snapshot.initialized() {
		return c
	}
	live := p.cluster().Live()
	lease, err := live.Lease(ctx, workload.ControlPlaneLease)
	if err != nil {
		c.Unread = cause(err)
		return c
	}
	p.lease = lease
	c.Lease = remediation.Lease{Used: true}
	if lease != nil {
		holder := workload.LeaseHolder(lease)
		c.Lease.Holder, c.Lease.Until = holder, workload.LeaseExpiry(&lease.Spec)
		// It stays while some requests cannot be read.
		c.Lease.HeldByThis = holder == p.snapshot.check.LeaseHolder() && len(p.snapshot.unread) == 0
	}
	members := p.snapshot.etcdMembers()
	if len(members) > 0 {
		c.Etcd = remediation.EtcdOf(members)
		return c
	}
	inside, err := live.ControlPlane(ctx)
	if err != nil {
		c.Unread = cause(err)
		return c
	}
	var byPods, byNodes []remediation.Member
	for _, pod := range inside.Etcd {
		byPods = append(byPods, remediation.Member{Node: pod.Node, Healthy: pod.Ready})
	}
	for _, node := range inside.Nodes {
		byNodes = append(byNodes, remediation.Member{Node: node.Name, Healthy: isReady(node)})
	}
	c.Etcd = remediation.EtcdOf(byPods, byNodes)
	return c
}

// controlPlaneAgain reads the control plane live if one of the targets is a member, also which members this check remediates.
func (p *scope) controlPlaneAgain(ctx context.Context, fresh *snapshot, targets []int) remediation.ControlPlane {
	if !p.anyOfControlPlane(targets) {
		return remediation.ControlPlane{}
	}
	again := &scope{r: p.r, snapshot: fresh, check: p.check}
	control := again.ControlPlane(ctx)
	p.lease = again.lease
	for _, t := range fresh.targets {
		if t.ControlPlane && fresh.requestFor(t) != nil {
			control.Busy = append(control.Busy, t.name())
		}
	}
	return control
}

// etcdMembers are the members as the owner of the control plane reports them; none if it reports nothing about them.
func (s *snapshot) etcdMembers() []remediation.Member {
	var members []remediation.Member
	reported := false
	for t := range s.all {
		if !t.ControlPlane || t.Machine == nil {
			continue
		}
		member := remediation.Member{Node: t.NodeTarget.Name}
		if c := conditions.Get(t.Machine, etcdMemberHealthy); c != nil {
			reported = true
			member.Healthy, member.Unhealthy = c.Status == metav1.ConditionTrue, c.Status == metav1.ConditionFalse
		}
		members = append(members, member)
	}
	if !reported {
		return nil
	}
	return members
}

// etcdMemberHealthy is a condition that owners of control planes set on their Machines.
const etcdMemberHealthy = "EtcdMemberHealthy"

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
