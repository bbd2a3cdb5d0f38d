// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Node with another provider ID than its Machine does not make the cluster unreachable, unless no other Node can be evaluated.
func TestClusterReachable_OtherServers_AreNamed(t *testing.T) {
	const others = "These Nodes have other provider IDs than their Machines, and are not evaluated; " +
		"if they are other servers, delete the Machines: "
	tests := []struct {
		why     string
		reads   NodeReads
		status  metav1.ConditionStatus
		reason  string
		message string
	}{
		{"one of two", NodeReads{Nodes: 1, NotOfMachine: []string{"n-1"}}, metav1.ConditionTrue, "ClusterReachable", others + "n-1"},
		{"all", NodeReads{NotOfMachine: []string{"n-2", "n-1"}}, metav1.ConditionFalse, "NodesUnreadable", others + "n-1, n-2"},
		{
			"and a failed read",
			NodeReads{Nodes: 4, Failed: 1, Why: "permission denied", NotOfMachine: []string{"n-1"}},
			metav1.ConditionTrue,
			"ClusterReachable", "1 of 4 Nodes cannot be read: permission denied. " + others + "n-1",
		},
		{
			"and no read",
			NodeReads{Nodes: 4, Failed: 4, Why: "permission denied", NotOfMachine: []string{"n-1"}},
			metav1.ConditionFalse,
			"NodesUnreadable", "Nodes cannot be read: permission denied. " + others + "n-1",
		},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			p := fleet(4, 1, func(p *Evaluation) { p.Context.Reading = test.reads })
			NewWithT(t).Expect(reachableCondition(p)).To(And(
				HaveField("Status", test.status), HaveField("Reason", test.reason), HaveField("Message", test.message)))
		})
	}
}
