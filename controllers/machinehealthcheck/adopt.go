// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"

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
