// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

// OlderReason is what a condition of the older generation gives as its reason, where it is False; empty otherwise.
func OlderReason(m *clusterv1.Machine, kind string) string {
	if present := older(m, kind); present != nil && present.Status == "False" {
		return present.Reason
	}
	return ""
}

// older is a condition of the older generation; nil if there is none. It is not copied, and nobody may change it.
func older(m *clusterv1.Machine, kind string) *clusterv1.Condition {
	all := m.GetV1Beta1Conditions()
	for i := range all {
		if string(all[i].Type) == kind {
			return &all[i]
		}
	}
	return nil
}
