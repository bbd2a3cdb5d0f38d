// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// status gives a check these conditions, and nothing else.
func (p *place) status(check *clusterv1.MachineHealthCheck, kinds ...string) {
	p.t.Helper()
	before := check.DeepCopy()
	check.Status.Conditions = nil
	for _, kind := range kinds {
		check.Status.Conditions = append(check.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Said", LastTransitionTime: metav1.Now()})
	}
	p.Expect(p.api.Status().Patch(p.ctx, check, client.MergeFrom(before))).To(Succeed())
}

// TestOnlyWhatIsOursGoesFromAStatus: also if nothing is left in it then. Others may have conditions that are called as ours are.
func TestOnlyWhatIsOursGoesFromAStatus(t *testing.T) {
	p := newPlace(t)
	ours, theirs := p.core("ours"), p.core("theirs")
	p.status(ours, remedyv1.TakenOverCondition, remedyv1.ReadyCondition)
	p.status(theirs, remedyv1.ReadyCondition)
	leaver, said := p.leaver(false)
	p.Expect(leaver.Checks(p.ctx, p.namespace, "")).To(Succeed(), said.String())
	p.Expect(p.get(ours).(*clusterv1.MachineHealthCheck).Status.Conditions).To(BeEmpty())
	p.Expect(p.get(theirs).(*clusterv1.MachineHealthCheck).Status.Conditions).To(ConsistOf(HaveField("Type", remedyv1.ReadyCondition)))
}
