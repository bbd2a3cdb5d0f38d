// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
)

// Method is the method of the profiles of NewProfile.
const Method = "ipmi"

// NewProfile returns a profile with a row for each machine. Agents wait as short as they can.
func NewProfile(namespace, name string, machines ...*Machine) *fencingv1.FenceProfile {
	profile := &fencingv1.FenceProfile{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	profile.Spec.Image = "registry.example.com/fence-agents:4.12"
	profile.Spec.Methods = []fencingv1.FenceMethod{{
		Name: Method, Agent: "fence_ipmilan", SecretName: SecretName,
		Timeout:    &remedyv1.Duration{Duration: metav1.Duration{Duration: 30 * time.Second}},
		Parameters: fencingv1.Parameters{"lanplus": "1", "cipher": "3", "power_wait": "0", "power_timeout": "3"},
	}}
	profile.Spec.PowerManagement = []fencingv1.PowerLevel{{Methods: []fencingv1.MethodName{Method}}}
	for _, m := range machines {
		profile.Spec.Nodes = append(profile.Spec.Nodes, Row(m.Name, m))
	}
	return profile
}

// Row is the row of a Node, with the device of a machine.
func Row(node string, m *Machine) fencingv1.FenceProfileNode {
	address := fencingv1.Parameters{"ip": fencingv1.ParameterValue(m.IP), "ipport": fencingv1.ParameterValue(m.Port)}
	return fencingv1.FenceProfileNode{Name: node, Parameters: map[string]fencingv1.Parameters{Method: address}}
}

// Ready is the status of the condition Ready of a Node.
func Ready(node *corev1.Node) corev1.ConditionStatus {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status
		}
	}
	return corev1.ConditionUnknown
}
