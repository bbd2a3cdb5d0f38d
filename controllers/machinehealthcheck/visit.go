// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/checkup"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// visit is one pass over one check: what was seen, and what was written since.
type visit struct {
	r      *Reconciler
	record *record
	seen   *seen
	now    time.Time
	// looked is when the last look began.
	looked time.Time
	// check and machines are as they are after our own writes, so that the next write is about what it has to be about.
	check    *remedyv1.MachineHealthCheck
	machines map[string]*clusterv1.Machine
	// turn is the Lease of the control plane as the last look has seen it; nil if there was none.
	turn *coordinationv1.Lease
	// silent: the check or its Cluster was paused at a look past the caches, or the check is somebody else's by now. pausedNow are Machines that were.
	silent    bool
	pausedNow map[string]bool
	// facts are what the pass rests on, and made the requests that it has made, by the names of their targets.
	facts *checkup.Facts
	made  map[string]*remedyv1.RequestReference
	// unlisted are the kinds of requests that could not be listed in this pass.
	unlisted map[schema.GroupVersionKind]bool
}

func newVisit(r *Reconciler, record *record, check *remedyv1.MachineHealthCheck, now time.Time) *visit {
	return &visit{
		r: r, record: record, now: now, check: check,
		machines: map[string]*clusterv1.Machine{}, pausedNow: map[string]bool{}, made: map[string]*remedyv1.RequestReference{},
		unlisted: map[schema.GroupVersionKind]bool{},
	}
}

// Obstacle reads past the cache whether the check or its Cluster is paused, or is not the one that was planned for any more.
func (v *visit) Obstacle(ctx context.Context) (*remediation.Look, error) {
	check, cluster, err := v.r.Checks.find(ctx, v.r.Live, client.ObjectKeyFromObject(v.seen.check))
	if apierrors.IsNotFound(err) {
		return &remediation.Look{Changed: true}, nil
	}
	if err != nil {
		return nil, err
	}
	now := seen{check: check, cluster: cluster}
	v.sawLive(&now)
	switch {
	case now.frozen():
		return &remediation.Look{Frozen: true}, nil
	case changed(v.seen.check, check), !v.r.actsFor(check):
		return &remediation.Look{Changed: true}, nil
	}
	return nil, nil
}

// sawLive notes that nothing may be told any more on objects, as was just seen. The caches may not show it before this pass is over.
func (v *visit) sawLive(now *seen) { v.silent = v.silent || now.frozen() || !v.r.actsFor(now.check) }

// clock is the time now. A pass over many Machines takes long, and what is begun at its end is not as old as its facts.
func (v *visit) clock() time.Time { return v.r.Clock.Now().Truncate(notes.Precision) }

// changed says whether a check is another one than it was, in what a plan rests on.
func changed(before, now *remedyv1.MachineHealthCheck) bool {
	return before.UID != now.UID || before.Generation != now.Generation || before.DeletionTimestamp.IsZero() != now.DeletionTimestamp.IsZero()
}

// cluster is where the Nodes are.
func (v *visit) cluster() workload.Cluster {
	return v.r.Clusters.At(client.ObjectKey{Namespace: v.seen.check.Namespace, Name: v.seen.check.Spec.ClusterName})
}

// ControlPlane is what is known of the control plane of the Cluster. What cannot be read keeps everybody from touching it.
func (v *visit) ControlPlane(ctx context.Context) remediation.ControlPlane {
	c := remediation.ControlPlane{Busy: v.seen.busyElsewhere()}
	if !v.seen.initialized() {
		return c
	}
	live := v.cluster().Live()
	lease, err := live.Lease(ctx, workload.TurnKey)
	if err != nil {
		return c
	}
	v.turn = lease
	c.Turn = turnOf(lease, identity(v.seen.check).String())
	members := v.seen.etcdMembers()
	if len(members) > 0 {
		c.Etcd = remediation.EtcdOf(members)
		return c
	}
	inside, err := live.ControlPlane(ctx)
	if err != nil {
		return c
	}
	c.Etcd = remediation.EtcdOf(membersByPods(inside.Etcd), membersByNodes(inside))
	return c
}

// etcdMembers are the members as the owner of the control plane knows them; none if it says nothing about them.
func (s *seen) etcdMembers() []remediation.Member {
	var members []remediation.Member
	known := false
	for _, machines := range [][]*clusterv1.Machine{s.machines, s.unselected} {
		for _, m := range machines {
			if !util.IsControlPlaneMachine(m) {
				continue
			}
			member := remediation.Member{Node: m.Status.NodeRef.Name}
			if c := conditions.Get(m, etcdMemberHealthy); c != nil {
				known = true
				member.Healthy, member.Unhealthy = c.Status == metav1.ConditionTrue, c.Status == metav1.ConditionFalse
			}
			members = append(members, member)
		}
	}
	if !known {
		return nil
	}
	return members
}

// etcdMemberHealthy is a condition that owners of control planes set on their Machines.
const etcdMemberHealthy = "EtcdMemberHealthy"

func membersByPods(pods []workload.EtcdPod) []remediation.Member {
	members := make([]remediation.Member, 0, len(pods))
	for _, pod := range pods {
		members = append(members, remediation.Member{Node: pod.Node, Healthy: pod.Ready})
	}
	return members
}

func membersByNodes(c workload.ControlPlane) []remediation.Member {
	members := make([]remediation.Member, 0, len(c.Nodes))
	for _, node := range c.Nodes {
		members = append(members, remediation.Member{Node: node.Name, Healthy: isReady(node)})
	}
	return members
}

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
