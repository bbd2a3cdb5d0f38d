// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"context"
	"slices"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	members, err := p.etcdMembers(ctx)
	if err != nil {
		c.Unread = cause(err)
		return c
	}
	if len(members) > 0 {
		c.Etcd = remediation.EtcdOf(members)
		return c
	}
	inside, err := live.ControlPlane(ctx)
	if err != nil {
		c.Unread = cause(err)
		return c
	}
	var byPods []remediation.Member
	for _, pod := range inside.Etcd {
		byPods = append(byPods, remediation.Member{Node: pod.Node, Healthy: pod.Ready})
	}
	c.Etcd = remediation.EtcdOf(byPods, membersByNodes(inside.Nodes))
	return c
}

// membersByNodes are the members of a control plane whose etcd has no Pods. If Nodes have the label of etcd, the others have no member.
func membersByNodes(nodes []*corev1.Node) []remediation.Member {
	var labelled []remediation.Member
	all := make([]remediation.Member, 0, len(nodes))
	for _, node := range nodes {
		all = append(all, remediation.Member{Node: node.Name, Healthy: isReady(node)})
		if metav1.HasLabel(node.ObjectMeta, workload.EtcdLabel) {
			labelled = append(labelled, all[len(all)-1])
		}
	}
	if len(labelled) > 0 {
		return labelled
	}
	return all
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
func (p *scope) etcdMembers(ctx context.Context) ([]remediation.Member, error) {
	machines, err := p.controlPlaneMachines(ctx)
	if err != nil {
		return nil, err
	}
	members, reported := make([]remediation.Member, 0, len(machines)), false
	for _, machine := range machines {
		member := remediation.Member{Node: machine.Status.NodeRef.Name}
		if c := conditions.Get(machine, etcdMemberHealthy); c != nil {
			reported = true
			member.Healthy, member.Unhealthy = c.Status == metav1.ConditionTrue, c.Status == metav1.ConditionFalse
		}
		members = append(members, member)
	}
	if !reported {
		return nil, nil
	}
	for t := range p.snapshot.all {
		known := func(m remediation.Member) bool { return m.Node == t.name() }
		if t.ControlPlane && t.Machine == nil && !slices.ContainsFunc(members, known) {
			// A Node without a Machine can have a member, too, about which no owner reports.
			members = append(members, remediation.Member{Node: t.name()})
		}
	}
	return members, nil
}

// controlPlaneMachines are the Machines of the control plane. A Machine whose Node does not exist is no target of a check of Nodes, but it
// still is a member of etcd.
func (p *scope) controlPlaneMachines(ctx context.Context) ([]*clusterv1.Machine, error) {
	var machines []*clusterv1.Machine
	for t := range p.snapshot.all {
		if t.ControlPlane && t.Machine != nil {
			machines = append(machines, t.Machine)
		}
	}
	if !p.snapshot.check.ofNodes() || len(machines) == 0 {
		return machines, nil
	}
	cluster := client.ObjectKey{Namespace: machines[0].Namespace, Name: machines[0].Spec.ClusterName}
	list := &clusterv1.MachineList{}
	options := append(MachinesInCluster(cluster, true), client.HasLabels{clusterv1.MachineControlPlaneLabel})
	if err := p.r.Live.List(ctx, list, options...); err != nil {
		return nil, errors.Wrap(err, "failed to read the Machines of the control plane")
	}
	machines = machines[:0]
	for i := range list.Items {
		machines = append(machines, &list.Items[i])
	}
	return machines, nil
}

// etcdMemberHealthy is a condition that owners of control planes set on their Machines.
const etcdMemberHealthy = "EtcdMemberHealthy"

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
