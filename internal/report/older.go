// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	deprecated "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
)

// OlderReason is what a condition of the older generation gives as its reason, where it is False; empty otherwise.
func OlderReason(m *clusterv1.Machine, kind string) string {
	if present := deprecated.Get(m, clusterv1.ConditionType(kind)); present != nil && present.Status == "False" {
		return present.Reason
	}
	return ""
}
