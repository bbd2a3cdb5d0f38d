// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"context"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// live is a cluster that is read past its cache.
type live cluster

func (l *live) cluster() *cluster { return (*cluster)(l) }

// Look answers for every target.
func (l *live) Look(ctx context.Context, q Question) []Reading {
	readings := make([]Reading, len(q.Targets))
	var named, unnamed []int
	for i := range q.Targets {
		known, is := q.unread(&q.Targets[i])
		switch {
		case is:
			readings[i] = known
		case q.Targets[i].Name == "":
			unnamed = append(unnamed, i)
		default:
			named = append(named, i)
		}
	}
	l.cluster().resolve(ctx, &q, readings, named, unnamed)
	l.cluster().doubtMissing(ctx, &q, readings, l.record.present(), true)
	return readings
}

// HeartbeatRenewed is when the kubelet renewed the Lease of its Node last.
func (l *live) HeartbeatRenewed(ctx context.Context, node string) (time.Time, error) {
	lease, err := l.Lease(ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: node})
	if err != nil || lease == nil || lease.Spec.RenewTime == nil {
		return time.Time{}, err
	}
	return lease.Spec.RenewTime.Time, nil
}

// Lease is a Lease, or nil. Whoever says that there is none is believed, however it is said: that there is one only ever holds something back,
// and to take it is refused if there is one.
func (l *live) Lease(ctx context.Context, key client.ObjectKey) (*coordinationv1.Lease, error) {
	return opened(ask(ctx, l.cluster(), func(ctx context.Context, api client.Client) (*coordinationv1.Lease, error) {
		lease := &coordinationv1.Lease{}
		err := api.Get(ctx, key, lease)
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) || err != nil && servesNoLeases(api) {
			return nil, nil //nolint:nilnil // that there is none is an answer.
		}
		if err != nil {
			return nil, err
		}
		return lease, nil
	}))
}

// servesNoLeases asks what is served at all: an API server without Leases may have any words for that, or call it an error of its own.
func servesNoLeases(api client.Client) bool {
	_, err := api.RESTMapper().RESTMapping(schema.GroupKind{Group: coordinationv1.GroupName, Kind: "Lease"})
	return meta.IsNoMatchError(err)
}

// ControlPlane is what the cluster itself says about its control plane.
func (l *live) ControlPlane(ctx context.Context) (ControlPlane, error) {
	return opened(ask(ctx, l.cluster(), func(ctx context.Context, api client.Client) (ControlPlane, error) {
		seen := ControlPlane{}
		for _, label := range [...]string{ControlPlaneLabel, LegacyControlPlaneLabel} {
			nodes := &corev1.NodeList{}
			if err := listAll(ctx, api, nodes, client.HasLabels{label}); err != nil {
				return ControlPlane{}, err
			}
			for i := range nodes.Items {
				if label == ControlPlaneLabel || !hasLabel(&nodes.Items[i], ControlPlaneLabel) {
					seen.Nodes = append(seen.Nodes, Strip(&nodes.Items[i]))
				}
			}
		}
		pods := &corev1.PodList{}
		err := listAll(ctx, api, pods, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{"component": "etcd"})
		if err != nil {
			return ControlPlane{}, err
		}
		for i := range pods.Items {
			if _, mirror := pods.Items[i].Annotations[corev1.MirrorPodAnnotationKey]; mirror && pods.Items[i].Spec.NodeName != "" {
				seen.Etcd = append(seen.Etcd, EtcdPod{Node: pods.Items[i].Spec.NodeName, Ready: ready(&pods.Items[i])})
			}
		}
		slices.SortFunc(seen.Nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
		slices.SortFunc(seen.Etcd, func(a, b EtcdPod) int { return cmp.Compare(a.Node, b.Node) })
		return seen, nil
	}))
}

func hasLabel(node *corev1.Node, label string) bool {
	_, has := node.Labels[label]
	return has
}

func ready(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodReady {
			return pod.Status.Conditions[i].Status == corev1.ConditionTrue
		}
	}
	return false
}

// opened makes an error of what may be none: a ReadError that is nil would not be a nil error.
func opened[T any](value T, err *ReadError) (T, error) {
	if err != nil {
		return value, err
	}
	return value, nil
}
