// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

func TestHealthOrder_RecoveredAndUnhealthyComeFirst(t *testing.T) {
	g := NewWithT(t)
	given := remediation.Mark{Given: true}
	pass := &explain.Pass{Assessment: &health.Assessment{}, Situation: &remediation.Situation{}}
	people := []struct {
		uid  types.UID
		kind health.Kind
		mark remediation.Mark
	}{
		{uid: "well", kind: health.Healthy},
		{uid: "sick", kind: health.Unhealthy},
		{uid: "suspect", kind: health.Suspect, mark: given},
		{uid: "saved", kind: health.Healthy, mark: given},
		{uid: "handed over", kind: health.Unhealthy, mark: given},
	}
	machines := make([]*Target, len(people))
	for i, one := range people {
		machines[i] = &Target{Object: &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{UID: one.uid}}}
		pass.Assessment.Verdicts = append(pass.Assessment.Verdicts, health.Verdict{Kind: one.kind})
		pass.Situation.Targets = append(pass.Situation.Targets, remediation.Target{Mark: one.mark})
	}
	check := &record{}
	order := func() (told []types.UID) {
		for _, i := range check.healthOrder(pass, machines) {
			told = append(told, machines[i].uid())
		}
		return told
	}
	g.Expect(order()).To(Equal([]types.UID{"saved", "sick", "handed over", "well", "suspect"}))
	for behind, next := range map[types.UID][]types.UID{
		"saved":   {"sick", "handed over", "well", "suspect", "saved"},
		"sick":    {"handed over", "well", "suspect", "saved", "sick"},
		"suspect": {"saved", "sick", "handed over", "well", "suspect"},
		"gone":    {"saved", "sick", "handed over", "well", "suspect"},
	} {
		check.healthAfter = behind
		g.Expect(order()).To(Equal(next), string(behind))
	}
	check.healthAfter = ""
	g.Expect(order()).To(Equal([]types.UID{"saved", "sick", "handed over", "well", "suspect"}))
}
