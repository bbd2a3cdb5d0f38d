// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Live calls the API server of a cluster. Every call has a timeout, and ends with its context. All errors are ReadErrors.
type Live struct{ cluster Cluster }

// ControlPlane is what a cluster reports about its control plane.
type ControlPlane struct {
	// Nodes are the control-plane Nodes, stripped and sorted by name.
	Nodes []*corev1.Node
	// Etcd are the mirror Pods of etcd, sorted by Node. It is empty if etcd runs elsewhere.
	Etcd []EtcdPod
}

// EtcdPod is the mirror Pod of an etcd member.
type EtcdPod struct {
	Node  string
	Ready bool
}

// Read returns a reading for every target, in the same order.
func (l Live) Read(ctx context.Context, q ReadRequest) []Reading {
	readings := make([]Reading, len(q.Targets))
	var named, unnamed []int
	for i := range q.Targets {
		known, is := q.answerWithoutReading(&q.Targets[i])
		switch {
		case is:
			readings[i] = known
		case q.Targets[i].Name == "":
			unnamed = append(unnamed, i)
		default:
			named = append(named, i)
		}
	}
	l.cluster.lookUp(ctx, &q, readings, named, unnamed)
	cached := l.cluster.state.currentNodes()
	for i := range readings {
		readings[i].Node = cached.correct(readings[i].Node)
	}
	l.cluster.rejectMissingInWrongCluster(ctx, &q, readings, cached, true)
	return readings
}

// Nodes reads all Nodes, stripped and sorted by name.
func (l Live) Nodes(ctx context.Context) ([]*corev1.Node, error) {
	list, err := l.cluster.listNodes(ctx)
	if err != nil {
		return nil, err
	}
	nodes := slices.SortedFunc(maps.Values(list.byName), func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	cached := l.cluster.state.currentNodes()
	for i := range nodes {
		nodes[i] = cached.correct(nodes[i])
	}
	return nodes, nil
}

// NodeLease is the Lease of one Node.
type NodeLease struct {
	// Renewed is by the clock of the Node; zero without a Lease.
	Renewed time.Time
	Err     error
}

// NodeLeases returns the Leases of Nodes, in the order of the names. It reads few one by one, and many with one list. Without the
// permission to list Leases, it reads all one by one.
func (l Live) NodeLeases(ctx context.Context, nodes []string) []NodeLease {
	leases := make([]NodeLease, len(nodes))
	if len(nodes) > maxGets {
		renewed, err := l.listNodeLeases(ctx)
		if err == nil || err.Reason != Forbidden {
			for i, node := range nodes {
				leases[i].Renewed = renewed[node]
				if err != nil {
					leases[i].Err = err
				}
			}
			return leases
		}
	}
	var all sync.WaitGroup
	for i, node := range nodes {
		all.Go(func() {
			lease, err := l.Lease(ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: node})
			leases[i].Err = err
			if lease != nil && lease.Spec.RenewTime != nil {
				leases[i].Renewed = lease.Spec.RenewTime.Time
			}
		})
	}
	all.Wait()
	return leases
}

// listNodeLeases returns when the Leases of all Nodes were renewed.
func (l Live) listNodeLeases(ctx context.Context) (map[string]time.Time, *ReadError) {
	return call(ctx, l.cluster, func(ctx context.Context, api client.Client) (map[string]time.Time, error) {
		leases, renewed := &coordinationv1.LeaseList{}, map[string]time.Time{}
		err := fetchPages(ctx, api, leases, func() error {
			for i := range leases.Items {
				if lease := &leases.Items[i]; lease.Spec.RenewTime != nil && len(lease.Name) <= maxName {
					renewed[lease.Name] = lease.Spec.RenewTime.Time
				}
			}
			return nil
		}, client.InNamespace(corev1.NamespaceNodeLease))
		if err != nil && (meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || leasesNotServed(api)) {
			return nil, nil
		}
		return renewed, err
	})
}

// Lease returns a Lease; nil if it does not exist. Every form of "not found" is accepted: a Lease only ever blocks a remediation, and
// creating one fails if it exists.
func (l Live) Lease(ctx context.Context, key client.ObjectKey) (*coordinationv1.Lease, error) {
	return asError(call(ctx, l.cluster, func(ctx context.Context, api client.Client) (*coordinationv1.Lease, error) {
		lease := &coordinationv1.Lease{}
		err := api.Get(ctx, key, lease)
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) || err != nil && leasesNotServed(api) {
			return nil, nil //nolint:nilnil // the Lease does not exist.
		}
		if err != nil {
			return nil, err
		}
		return lease, nil
	}))
}

// leasesNotServed reads discovery: an API server without Leases may return any error for one.
func leasesNotServed(api client.Client) bool {
	_, err := api.RESTMapper().RESTMapping(schema.GroupKind{Group: coordinationv1.GroupName, Kind: "Lease"})
	return meta.IsNoMatchError(err)
}

// maxControlPlane is the memory of the Nodes of a control plane.
const maxControlPlane = 8 << 20

// ControlPlane returns the Nodes and the etcd Pods of the control plane.
func (l Live) ControlPlane(ctx context.Context) (ControlPlane, error) {
	return asError(call(ctx, l.cluster, func(ctx context.Context, api client.Client) (ControlPlane, error) {
		controlPlane, kept := ControlPlane{}, 0
		nodes, pods := &corev1.NodeList{}, &corev1.PodList{}
		for n, label := range ControlPlaneLabels {
			err := fetchPages(ctx, api, nodes, func() error {
				for i := range nodes.Items {
					listed := func(earlier string) bool { return hasLabel(&nodes.Items[i], earlier) }
					if slices.ContainsFunc(ControlPlaneLabels[:n], listed) {
						continue
					}
					node := Strip(&nodes.Items[i])
					if kept += memoryOf(node); kept > maxControlPlane {
						return errTooManyNodes
					}
					controlPlane.Nodes = append(controlPlane.Nodes, node)
				}
				return nil
			}, client.HasLabels{label})
			if err != nil {
				return ControlPlane{}, err
			}
		}
		err := fetchPages(ctx, api, pods, func() error {
			for i := range pods.Items {
				pod := &pods.Items[i]
				if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror && pod.Spec.NodeName != "" && len(pod.Spec.NodeName) <= maxName {
					controlPlane.Etcd = append(controlPlane.Etcd, EtcdPod{Node: pod.Spec.NodeName, Ready: isReady(pod)})
				}
			}
			return nil
		}, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{"component": "etcd"})
		if err != nil {
			return ControlPlane{}, err
		}
		slices.SortFunc(controlPlane.Nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
		slices.SortFunc(controlPlane.Etcd, func(a, b EtcdPod) int { return cmp.Compare(a.Node, b.Node) })
		return controlPlane, nil
	}))
}

func hasLabel(node *corev1.Node, label string) bool {
	_, has := node.Labels[label]
	return has
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// asError converts the error: a nil *ReadError would be an error that is not nil.
func asError[T any](value T, err *ReadError) (T, error) {
	if err != nil {
		return value, err
	}
	return value, nil
}
