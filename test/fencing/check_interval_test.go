// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build fencing

package fencing_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/fencing"
)

// A password that is wrong and a device that is dead are found before a Node has to be fenced. Nothing is switched. When the device is
// repaired, the next check finds that, too.
func TestCheckInterval_BadDevices_AreFoundByDay(t *testing.T) {
	t.Parallel()
	g, w := NewWithT(t), theWorld(t)
	g.Expect(w.CreateSecret(t.Context(), fencing.Namespace, "bmc-of-drill", "another-one")).To(Succeed())
	machines := make([]*fencing.Machine, 0, 3)
	for _, name := range []string{"drill-well", "drill-password", "drill-dead"} {
		m, err := w.AddMachine(t.Context(), name, nil)
		g.Expect(err).ToNot(HaveOccurred())
		t.Cleanup(m.Kubelet.Leave)
		machines = append(machines, m)
	}
	machines[2].Die()
	profile := fencing.NewProfile(fencing.Namespace, "drill", machines...)
	shortTimeout(profile)
	profile.Spec.Nodes[1].SecretNames = map[string]string{fencing.Method: "bmc-of-drill"}
	profile.Spec.CheckInterval = duration(10 * time.Minute)
	g.Expect(w.API.Create(t.Context(), profile)).To(Succeed())

	reasons := func() (all []string) {
		g.Expect(w.API.Get(t.Context(), client.ObjectKeyFromObject(profile), profile)).To(Succeed())
		for _, node := range profile.Status.Nodes {
			all = append(all, node.Name+" "+node.Reason)
			for _, method := range node.Unreachable {
				all[len(all)-1] += " " + string(method)
			}
		}
		return all
	}
	g.Eventually(reasons, limit, 100*time.Millisecond).Should(Equal([]string{
		"drill-well DevicesAnswered", "drill-password DeviceFailed ipmi", "drill-dead DeviceFailed ipmi",
	}))
	g.Expect(profile.Status.Nodes[0].Message).To(Equal("All devices answered: ipmi ON"))

	g.Expect(machines[2].Revive(t.Context())).To(Succeed())
	// Only the fencing manager is allowed to write the status. It decides again when the metadata has changed.
	account, err := w.Config(controlplane.ServiceAccount(fencing.Namespace, fencing.FencingAccount))
	g.Expect(err).ToNot(HaveOccurred())
	manager, err := client.New(account, client.Options{Scheme: w.API.Scheme()})
	g.Expect(err).ToNot(HaveOccurred())
	for i := range profile.Status.Nodes {
		profile.Status.Nodes[i].CheckedAt = metav1.NewTime(profile.Status.Nodes[i].CheckedAt.Add(-time.Hour))
	}
	g.Expect(manager.Status().Update(t.Context(), profile)).To(Succeed())
	before := profile.DeepCopy()
	metav1.SetMetaDataAnnotation(&profile.ObjectMeta, "test", "due")
	g.Expect(w.API.Patch(t.Context(), profile, client.MergeFrom(before))).To(Succeed())
	g.Eventually(reasons, limit, 100*time.Millisecond).Should(ConsistOf(
		"drill-well DevicesAnswered", "drill-password DeviceFailed ipmi", "drill-dead DevicesAnswered"))
	for _, m := range machines {
		g.Expect(m.Requests()).To(BeEmpty())
		g.Expect(m.Power()).To(BeTrue())
	}
	fences := &fencingv1.NodeFenceList{}
	g.Eventually(func() int {
		g.Expect(w.API.List(t.Context(), fences, client.InNamespace(fencing.Namespace), client.MatchingFields{
			"metadata.name": profile.Name + "-device-check",
		})).To(Succeed())
		return len(fences.Items)
	}, limit, 100*time.Millisecond).Should(BeZero())
}
