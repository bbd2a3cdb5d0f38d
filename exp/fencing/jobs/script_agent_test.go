//go:build fencing

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package jobs_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/jobs"
)

// These tests run the script of a Job as it is, with fence agents and an IPMI device. They need the Debian packages fence-agents, openipmi
// and ipmitool: go test -tags=fieldsv1string,fencing ./exp/fencing/jobs

// perform runs the container of an action, and reads its result as the manager does.
func perform(t *testing.T, g Gomega, action fencingv1.Action, method fencingv1.FenceMethod, secret map[string]string) (jobs.Observed, ran) {
	r := request(action)
	r.Method = method
	r.Method.Image = "agents:4.12"
	got := runContainer(t, g, sh, r, secret)
	job, condition := build(g, r), batchv1.JobComplete
	if got.exitCode != 0 {
		condition = batchv1.JobFailed
	}
	return jobs.Observe(finish(job, condition, ""), []corev1.Pod{ended(job, got.exitCode, got.message)}), got
}

func TestScript_FenceDummy_SwitchesAndAnswers(t *testing.T) {
	g := NewWithT(t)
	state := filepath.Join(t.TempDir(), "state")
	g.Expect(os.WriteFile(state, []byte("on"), 0o600)).To(Succeed())
	method := fencingv1.FenceMethod{Name: "dummy", Agent: "fence_dummy", Parameters: fencingv1.Parameters{
		"type": "file", "status_file": fencingv1.ParameterValue(state),
	}}
	for _, row := range []struct {
		action  fencingv1.Action
		result  fencingv1.JobResult
		message string
	}{
		{"status", fencingv1.JobSucceeded, "Status: ON\n"},
		{"off", fencingv1.JobSucceeded, "Success: Powered OFF\n"},
		{"status", fencingv1.JobOff, "Status: OFF\n"},
		{"off", fencingv1.JobSucceeded, "Success: Already OFF\n"},
		{"on", fencingv1.JobSucceeded, "Success: Powered ON\n"},
		{"status", fencingv1.JobSucceeded, "Status: ON\n"},
	} {
		observed, got := perform(t, g, row.action, method, nil)
		g.Expect(got.message).To(Equal(row.message), got.log)
		g.Expect(observed.Result).To(Equal(row.result))
	}
	g.Expect(os.WriteFile(state, []byte("unknown"), 0o600)).To(Succeed())
	observed, _ := perform(t, g, fencingv1.ActionStatus, method, nil)
	g.Expect(observed.Result).To(Equal(fencingv1.JobFailed))
}

// fence_dummy has no parameters for a user and a password, and logs unknown ones.
func TestScript_UnknownParameter_ValueIsNotLogged(t *testing.T) {
	g := NewWithT(t)
	method := fencingv1.FenceMethod{
		Name: "dummy", Agent: "fence_dummy", SecretName: "bmc", SecretKeys: []fencingv1.ParameterName{"username", "password"},
		Parameters: fencingv1.Parameters{"pass-word": canary, "status_file": "/nonexistent"},
	}
	observed, got := perform(t, g, fencingv1.ActionStatus, method, map[string]string{"username": "admin", "password": "$(touch x) " + canary})
	g.Expect(got.log).To(And(ContainSubstring("Ignoring unknown option 'password\n"), ContainSubstring("Ignoring unknown option 'pass-word\n"),
		Not(ContainSubstring(canary)), Not(ContainSubstring("touch"))))
	g.Expect(observed.Result).To(Equal(fencingv1.JobOff), "fence_dummy takes a file that does not exist for off")
	g.Expect(filepath.Join(got.folder, "x")).ToNot(BeAnExistingFile())
}

func TestScript_NoSuchAgent_IsUnknown(t *testing.T) {
	g := NewWithT(t)
	observed, _ := perform(t, g, fencingv1.ActionStatus, fencingv1.FenceMethod{Name: "dummy", Agent: "fence_no_such_agent"}, nil)
	g.Expect(observed.Result).To(Equal(fencingv1.JobUnknown))
}

// startIPMI starts an IPMI device on the loopback address whose power is in a file, and returns its port.
func startIPMI(t *testing.T, g Gomega, password, power string) string {
	listener, err := net.ListenPacket("udp", "127.0.0.1:0")
	g.Expect(err).ToNot(HaveOccurred())
	port := listener.LocalAddr().(*net.UDPAddr).Port
	g.Expect(listener.Close()).To(Succeed())
	folder := t.TempDir()
	chassis := filepath.Join(folder, "chassis")
	write := func(name, content string) {
		g.Expect(os.WriteFile(filepath.Join(folder, name), []byte(content), 0o700)).To(Succeed())
	}
	write("chassis", fmt.Sprintf("#!/bin/sh\ncase $2 in\nget) echo \"power:$(cat %[1]s)\" ;;\nset) echo \"$4\" >%[1]s ;;\nesac\n", power))
	write("lan.conf", fmt.Sprintf(`name "device"
set_working_mc 0x20
  startlan 1
    addr 127.0.0.1 %d
    priv_limit admin
    allowed_auths_callback none md2 md5 straight
    allowed_auths_user none md2 md5 straight
    allowed_auths_operator none md2 md5 straight
    allowed_auths_admin none md2 md5 straight
    guid a123456789abcdefa123456789abcdef
  endlan
  chassis_control "%s 0x20"
  user 2 true "admin" "%s" admin 10 none md2 md5 straight
`, port, chassis, password))
	write("sim.emu", `mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr
sel_enable 0x20 1000 0x0a
mc_enable 0x20
`)
	device := exec.CommandContext(t.Context(), "ipmi_sim", "-c", "lan.conf", "-f", "sim.emu", "-s", folder, "-n")
	device.Dir = folder
	stdin, err := device.StdinPipe()
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(device.Start()).To(Succeed())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = device.Process.Kill()
		_ = device.Wait()
	})
	return fmt.Sprint(port)
}

func TestScript_FenceIPMI_SwitchesAndAnswers(t *testing.T) {
	g := NewWithT(t)
	power := filepath.Join(t.TempDir(), "power")
	g.Expect(os.WriteFile(power, []byte("1\n"), 0o600)).To(Succeed())
	// A shell could change it.
	const password = "p=$(id)';*&x"
	port := startIPMI(t, g, password, power)
	method := fencingv1.FenceMethod{
		Name: "ipmi", Agent: "fence_ipmilan", SecretName: "bmc", SecretKeys: []fencingv1.ParameterName{"username", "password"},
		Parameters: fencingv1.Parameters{
			"ip": "127.0.0.1", "ipport": fencingv1.ParameterValue(port), "lanplus": "1", "cipher": "3", "power_wait": "0",
		},
	}
	secret := map[string]string{"username": "admin", "password": password + "\n"}
	g.Eventually(func() fencingv1.JobResult {
		observed, got := perform(t, g, fencingv1.ActionStatus, method, secret)
		t.Log(got.message, got.log)
		return observed.Result
	}, "20s").Should(Equal(fencingv1.JobSucceeded), "it needs some time to start")
	observed, got := perform(t, g, fencingv1.ActionOff, method, secret)
	g.Expect(observed.Result).To(Equal(fencingv1.JobSucceeded), got.log)
	g.Expect(os.ReadFile(power)).To(BeEquivalentTo("0\n"))
	observed, _ = perform(t, g, fencingv1.ActionStatus, method, secret)
	g.Expect(observed.Result).To(Equal(fencingv1.JobOff))
	observed, _ = perform(t, g, fencingv1.ActionOn, method, secret)
	g.Expect(observed.Result).To(Equal(fencingv1.JobSucceeded))
	g.Expect(os.ReadFile(power)).To(BeEquivalentTo("1\n"))
	observed, got = perform(t, g, fencingv1.ActionStatus, method, map[string]string{"username": "admin", "password": canary})
	g.Expect(observed.Result).To(Equal(fencingv1.JobFailed), "wrong password")
	g.Expect(got.log).ToNot(ContainSubstring(canary))
	_, got = perform(t, g, fencingv1.ActionOff, method, map[string]string{"username": "admin"})
	g.Expect(got.log).To(ContainSubstring("key password of the Secret is missing"))
	g.Expect(os.ReadFile(power)).To(BeEquivalentTo("1\n"), "nothing was done")
}
