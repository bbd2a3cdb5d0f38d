// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"maps"
	"slices"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// owned says whether a check carries the label and the owner that every object of a Cluster has.
func owned(check *remedyv1.MachineHealthCheck, cluster *clusterv1.Cluster) bool {
	return check.Labels[clusterv1.ClusterNameLabel] == cluster.Name && slices.ContainsFunc(check.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.UID == cluster.UID && o.Kind == "Cluster" && o.Name == cluster.Name
	})
}

// own puts both on it. An owner that is another Cluster of that name, which has gone, is replaced.
func own(check *remedyv1.MachineHealthCheck, cluster *clusterv1.Cluster) {
	check.Labels = maps.Clone(check.Labels)
	if check.Labels == nil {
		check.Labels = map[string]string{}
	}
	check.Labels[clusterv1.ClusterNameLabel] = cluster.Name
	check.OwnerReferences = util.EnsureOwnerRef(slices.Clone(check.OwnerReferences), metav1.OwnerReference{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID,
	})
}

// adoptRequests takes over what Cluster API's own controller has begun for a check that was handed to us. It is ours when it comes back. One that is
// about to go begins nothing: Cluster API's own controller may look after it until then, and would make anew whatever we withdraw.
func (v *visit) adoptRequests(ctx context.Context) error {
	s := v.seen
	if s.observes() || !s.check.DeletionTimestamp.IsZero() {
		return nil
	}
	var failed []error
	for i, m := range s.machines {
		request := s.adoptable[m.UID]
		if request == nil || !mayAdopt(s.rivals, m, s.readings[i].Node) {
			continue
		}
		if obstacle, err := v.Obstacle(ctx); err != nil || obstacle != nil {
			return utilerrors.NewAggregate(append(failed, err))
		}
		now, err := v.coresNow(ctx)
		if err != nil {
			return utilerrors.NewAggregate(append(failed, err))
		}
		if mayAdopt(now, m, s.readings[i].Node) {
			failed = append(failed, v.r.Requests.Adopt(ctx, request, identity(s.check), steps(s.check, s.naming)[0].ID.Order))
		}
	}
	return utilerrors.NewAggregate(failed)
}

// mayAdopt says whether a request for a Machine can only be that of a check of ours: a request of Cluster API's own controller does not say for which of
// its checks it was made. Of ours it is the one that names this template. It ends what was begun also where another one of ours comes first.
func mayAdopt(rivals []rival, m *clusterv1.Machine, node *corev1.Node) bool {
	theirs := slices.ContainsFunc(rivals, func(r rival) bool { return r.theirs && r.selects(m, node) })
	return !theirs && !annotations.HasPaused(m)
}

// coresNow are the other checks of Cluster API, as an API server says at this moment: the cache may not know yet that there is one more, or that one was
// given back, and its controller goes on with its requests.
func (v *visit) coresNow(ctx context.Context) ([]rival, error) {
	s, list := v.seen, &clusterv1.MachineHealthCheckList{}
	if err := v.r.Live.List(ctx, list, client.InNamespace(s.check.Namespace)); err != nil {
		return nil, errors.Wrap(err, "failed to read the other checks")
	}
	return v.rivalsAmong(s, list), nil
}
