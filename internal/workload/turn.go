// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import "sigs.k8s.io/controller-runtime/pkg/client"

// TurnKey is the Lease by which checks take turns at a control plane. It stands in the cluster of the Nodes, where everybody finds it who looks
// after them, from whatever management cluster.
var TurnKey = client.ObjectKey{Namespace: "kube-system", Name: "remedy-control-plane"}
