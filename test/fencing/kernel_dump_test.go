// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build fencing

package fencing_test

import (
	"os/exec"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
)

// kdumpSend is what a crash kernel runs. The package fence-agents has it.
const kdumpSend = "/usr/libexec/fence-agents/fence_kdump_send"

// kdumpFirst makes a message of the crash kernel the first level of a profile.
func kdumpFirst(port string) func(*fencingv1.FenceProfile) {
	return func(profile *fencingv1.FenceProfile) {
		profile.Spec.Methods = append(profile.Spec.Methods, fencingv1.FenceMethod{
			Name: "kdump", Agent: "fence_kdump", Timeout: duration(30 * time.Second),
			Parameters: fencingv1.Parameters{"ipport": fencingv1.ParameterValue(port), "timeout": "20"},
		})
		profile.Spec.PowerManagement = append([]fencingv1.PowerLevel{{Methods: []fencingv1.MethodName{"kdump"}}}, profile.Spec.PowerManagement...)
		for i := range profile.Spec.Nodes {
			// What is sent to loopback comes from this address.
			profile.Spec.Nodes[i].Parameters["kdump"] = fencingv1.Parameters{"nodename": "127.0.0.1"}
		}
	}
}

// A kernel crashes, and its crash kernel sends its messages while it writes a dump. The workload is released, and the dump is not
// interrupted: nothing is switched. The machine reboots itself.
func TestFenceRelease_KernelDump_IsNotInterrupted(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	port, err := controlplane.TakePort()
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	t.Cleanup(port.Release)
	d := newDatabase(t, w, "kernel-dump", kdumpFirst(port.String()))
	d.Kubelet.Crash()
	sender := exec.Command(kdumpSend, "-p", port.String(), "-i", "1", "-f", "ipv4", "127.0.0.1")
	d.g.Expect(sender.Start()).To(Succeed())
	end := func() {
		_ = sender.Process.Kill()
		_ = sender.Wait()
	}
	t.Cleanup(end)
	d.hang()
	fence := d.fence()
	d.untilRuns("db-0", d.spare.Name)
	done := d.until(fence, "the workload is released", released)
	d.g.Expect(done.Status.Evidence.Class).To(Equal(fencingv1.EvidenceKernelDump))
	d.g.Expect(d.Requests()).To(BeEmpty())
	end()
	d.g.Expect(d.SetPower(false)).To(Succeed())
	d.g.Expect(d.SetPower(true)).To(Succeed())
	d.log("the dump is written, and the machine reboots")
	ended := d.untilEnded(fence)
	d.g.Expect(condition(ended, remedyv1.SucceededCondition)).To(Equal(metav1.ConditionTrue))
	d.undone()
	d.g.Expect(d.Requests()).To(BeEmpty())
}
