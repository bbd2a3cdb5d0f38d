// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"testing"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The holder of a Lease names the check, and checks of one name that manage Nodes of different clusters are different holders.
func TestHolder_AnyCheckAndCluster_IsParsedAndDiffersByCluster(t *testing.T) {
	names := rapid.StringMatching(`[a-z]([a-z0-9.-]{0,20}[a-z0-9])?`)
	clusters := rapid.Custom(func(t *rapid.T) client.ObjectKey {
		if rapid.Bool().Draw(t, "management cluster") {
			return client.ObjectKey{}
		}
		return client.ObjectKey{Namespace: names.Draw(t, "namespace of the Cluster"), Name: names.Draw(t, "Cluster")}
	})
	rapid.Check(t, func(t *rapid.T) {
		g := NewWithT(t)
		check := Check{Kind: "NodeHealthCheck", Name: names.Draw(t, "check")}
		cluster, other := clusters.Draw(t, "cluster"), clusters.Draw(t, "other cluster")

		parsed, isCheck := ParseHolder(check.Holder(cluster))

		g.Expect(isCheck).To(BeTrue())
		g.Expect(parsed).To(Equal(check))
		g.Expect(check.Holder(cluster) == check.Holder(other)).To(Equal(cluster == other), "%v and %v", cluster, other)
	})
}

func TestHolder_NamespacedCheck_IsItsName(t *testing.T) {
	g := NewWithT(t)
	check := Check{Kind: "MachineHealthCheck", Namespace: "team-a", Name: "workers"}
	g.Expect(check.Holder(client.ObjectKey{Namespace: "team-a", Name: "one"})).To(Equal("MachineHealthCheck/team-a/workers"))
}

func TestParseHolder_HolderOfAnotherController_IsNoCheck(t *testing.T) {
	g := NewWithT(t)
	for _, holder := range []string{"", "node-healthcheck-operator", "self-node-remediation of Cluster a/b", "a/b"} {
		_, isCheck := ParseHolder(holder)
		g.Expect(isCheck).To(BeFalse(), holder)
	}
}
