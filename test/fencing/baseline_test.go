// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build fencing

package fencing_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Without a fence, Kubernetes does not replace a Pod of a StatefulSet whose kubelet hangs, and does not detach its volume, also when
// the Pod is deleted by force. A person who switches the machine off and on ends that.
func TestFenceRelease_NoFence_PodIsNotReplaced(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	d := newDatabase(t, w, "release-no-fence", evictAfter(time.Second))
	first := d.pod("db-0").UID
	d.hang()
	d.g.Eventually(func() bool { return d.pod("db-0").DeletionTimestamp != nil }, limit).Should(BeTrue())
	d.log("the Pod is terminating")
	d.g.Expect(w.API.Delete(t.Context(), d.pod("db-0"), client.GracePeriodSeconds(0))).To(Succeed())
	// The replacement is bound to the other Node, where its volume cannot be attached.
	d.g.Eventually(func() bool {
		pod := d.pod("db-0")
		return pod != nil && pod.UID != first && pod.Spec.NodeName == d.spare.Name
	}, limit).Should(BeTrue())
	d.g.Consistently(func() bool { return d.writing("db-0", d.Name) }, "2s").Should(BeTrue())
	d.g.Expect(d.attachments()).To(Equal([]string{d.Name}))

	d.g.Expect(d.SetPower(false)).To(Succeed())
	d.g.Expect(d.SetPower(true)).To(Succeed())
	second := d.untilRuns("db-0", d.spare.Name)
	d.g.Expect(d.runUIDs()).To(HaveLen(2))
	d.g.Expect(d.runUIDs()).To(ContainElement(second))
	d.log("the replacement runs")
}

// A Pod without a volume is replaced when it is deleted by force, and then two Pods of one identity write: what the fence prevents.
func TestFenceRelease_ForcedDeletion_TwoPodsWrite(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	d := newDatabase(t, w, "release-forced", withoutVolume)
	d.hang()
	d.g.Expect(w.API.Delete(t.Context(), d.pod("db-0"), client.GracePeriodSeconds(0))).To(Succeed())
	d.untilRuns("db-0", d.spare.Name)
	d.g.Eventually(func() string { return w.Kubelets.Writes.Overlaps(d.set.Namespace) }, limit).ShouldNot(BeEmpty())
	d.Kubelet.Recover()
	d.g.Eventually(func() bool { return d.world.Kubelets.Writes.Runs(d.set.Namespace, "db-0")[0].Ended }, limit).Should(BeTrue())
	w.Kubelets.Writes.Forget(d.set.Namespace)
}
