// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build fencing

package fencing_test

import (
	"os/exec"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/fencing"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/fencing/bmc"
)

// A kubelet hangs. The machine is switched off, proven off and switched on, and its Node is Ready with a new boot.
func TestFence_KubeletHangs_MachineIsRestarted(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	m := newMachine(t, w, "restarted")
	boot := m.node().Status.NodeInfo.BootID
	m.hang()
	fence := m.fence()
	m.until(fence, "the fence has the Node", func(f *fencingv1.NodeFence) bool { return m.taint() == string(f.UID) })
	proven := m.until(fence, "the Node is proven off", func(f *fencingv1.NodeFence) bool { return f.Status.Evidence != nil })
	m.g.Expect(condition(proven, fencingv1.FencedCondition)).To(Equal(metav1.ConditionTrue))
	ended := m.untilEnded(fence)

	m.g.Expect(ended.Status.Reason).To(Equal("Rejoined"))
	m.g.Expect(condition(ended, remedyv1.SucceededCondition)).To(Equal(metav1.ConditionTrue))
	m.g.Expect(condition(ended, fencingv1.RecoveredCondition)).To(Equal(metav1.ConditionTrue))
	actions := make([]string, 0, len(ended.Status.Jobs))
	for _, job := range ended.Status.Jobs {
		actions = append(actions, string(job.Action)+" "+string(job.Result))
	}
	m.g.Expect(actions).To(Equal([]string{"status Succeeded", "off Succeeded", "status Off", "status Off", "on Succeeded"}))
	m.g.Expect(m.OffRequests()).To(Equal(1))
	m.g.Expect(m.OnRequests()).To(Equal(1))
	m.g.Expect(fencing.Ready(m.node())).To(Equal(corev1.ConditionTrue))
	m.g.Expect(m.node().Status.NodeInfo.BootID).ToNot(Equal(boot))
	m.g.Eventually(m.taint).Should(BeEmpty())
	m.g.Expect(m.node().Annotations).To(HaveKeyWithValue(fencingv1.RemediationPodNameAnnotation, fencing.Namespace+"/"+fence.Name))

	get := exec.CommandContext(t.Context(), w.Kubectl, "--kubeconfig="+w.Kubeconfig, "get", "rnf", "-n", fencing.Namespace, fence.Name)
	out, err := get.CombinedOutput()
	m.g.Expect(err).ToNot(HaveOccurred(), string(out))
	t.Logf("\n%s", out)
	m.g.Expect(string(out)).To(MatchRegexp(`NODE +PHASE +STEP +RETRIES +FENCED +RELEASED +SUCCEEDED +REASON +AGE`))
	m.g.Expect(string(out)).To(MatchRegexp(`restarted +Final +Recovery +0? +True +True +True +Rejoined`))

	m.g.Expect(w.API.Delete(t.Context(), fence)).To(Succeed())
	m.untilGone(fence)
	for name, log := range w.Kubelets.Logs() {
		m.g.Expect(log).ToNot(ContainSubstring(bmc.Password), name)
	}
	m.g.Expect(strings.Contains(w.Fencing.Log().String(), bmc.Password)).To(BeFalse())
}
