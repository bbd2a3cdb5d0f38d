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

func TestHealthOrder_RecoveredAndUnhealthy_ComeFirst(t *testing.T) {
	g := NewWithT(t)
	given := remediation.OwnerRemediation{Requested: true}
	pass := &explain.Evaluation{Assessment: &health.Assessment{}, Situation: &remediation.Situation{}}
	rows := []struct {
		uid  types.UID
		kind health.Kind
		mark remediation.OwnerRemediation
	}{
		{uid: "healthy", kind: health.Healthy},
		{uid: "unhealthy", kind: health.Unhealthy},
		{uid: "suspect", kind: health.Suspect, mark: given},
		{uid: "recovered", kind: health.Healthy, mark: given},
		{uid: "remediating", kind: health.Unhealthy, mark: given},
	}
	machines := make([]*Target, len(rows))
	for i, row := range rows {
		machines[i] = &Target{Object: &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{UID: row.uid}}}
		pass.Assessment.Verdicts = append(pass.Assessment.Verdicts, health.Verdict{Kind: row.kind})
		pass.Situation.Targets = append(pass.Situation.Targets, remediation.Target{OwnerRemediation: row.mark})
	}
	check := &record{}
	order := func() (uids []types.UID) {
		for _, i := range check.healthOrder(pass, machines) {
			uids = append(uids, machines[i].uid())
		}
		return uids
	}
	g.Expect(order()).To(Equal([]types.UID{"recovered", "unhealthy", "remediating", "healthy", "suspect"}))
	for last, expected := range map[types.UID][]types.UID{
		"recovered": {"unhealthy", "remediating", "healthy", "suspect", "recovered"},
		"unhealthy": {"remediating", "healthy", "suspect", "recovered", "unhealthy"},
		"suspect":   {"recovered", "unhealthy", "remediating", "healthy", "suspect"},
		"deleted":   {"recovered", "unhealthy", "remediating", "healthy", "suspect"},
	} {
		check.healthAfter = last
		g.Expect(order()).To(Equal(expected), string(last))
	}
	check.healthAfter = ""
	g.Expect(order()).To(Equal([]types.UID{"recovered", "unhealthy", "remediating", "healthy", "suspect"}))
}
