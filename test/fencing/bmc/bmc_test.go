// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build fencing

package bmc_test

import (
	"bytes"
	"fmt"
	"os/exec"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/fencing/bmc"
)

// agent runs a real agent, and returns its exit code and its output.
func agent(t *testing.T, m *bmc.Machine, password, action string) (int, string) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "exec fence_ipmilan")
	cmd.Env = []string{"PATH=" + bmc.Path()}
	cmd.Stdin = bytes.NewBufferString(fmt.Sprintf(
		"ip=%s\nipport=%s\nlanplus=1\ncipher=3\npower_timeout=2\nusername=%s\npassword=%s\naction=%s\n",
		m.IP, m.Port, bmc.User, password, action))
	cmd.Stdout = &out
	begin := time.Now()
	_ = cmd.Run()
	t.Logf("%s %s: exit code %d after %.2fs", m.Name, action, cmd.ProcessState.ExitCode(), time.Since(begin).Seconds())
	return cmd.ProcessState.ExitCode(), out.String()
}

func TestMachine_RealAgent_SwitchesPower(t *testing.T) {
	g := NewWithT(t)
	rack, err := bmc.NewRack()
	g.Expect(err).ToNot(HaveOccurred())
	t.Cleanup(rack.Stop)
	begin := time.Now()
	m, err := rack.Add(t.Context(), "machine-a")
	g.Expect(err).ToNot(HaveOccurred())
	t.Logf("a machine is there after %.2fs", time.Since(begin).Seconds())
	other, err := rack.Add(t.Context(), "machine-b")
	g.Expect(err).ToNot(HaveOccurred())
	expect := func(action string, code int, answer string) {
		t.Helper()
		got, text := agent(t, m, bmc.Password, action)
		g.Expect(got).To(Equal(code), action)
		g.Expect(text).To(ContainSubstring(answer), action)
	}
	expect("status", 0, "Status: ON")
	expect("off", 0, "")
	g.Expect(m.Power()).To(BeFalse())
	expect("status", 2, "Status: OFF")
	expect("on", 0, "")
	g.Expect(m.Power()).To(BeTrue())
	g.Expect(m.Boots()).To(Equal(2))
	g.Expect(m.OffRequests()).To(Equal(1))
	g.Expect(m.OnRequests()).To(Equal(1))

	g.Expect(m.IgnoreOff()).To(Succeed())
	expect("off", 1, "")
	g.Expect(m.Power()).To(BeTrue())
	g.Expect(m.Repair()).To(Succeed())
	g.Expect(m.SwitchNeighbour(other)).To(Succeed())
	expect("off", 1, "")
	g.Expect(m.Power()).To(BeTrue())
	g.Expect(other.Power()).To(BeFalse())
	g.Expect(m.Repair()).To(Succeed())
	g.Expect(m.AnswerOff()).To(Succeed())
	expect("status", 2, "Status: OFF")
	g.Expect(m.Repair()).To(Succeed())
	g.Expect(m.Slow(200 * time.Millisecond)).To(Succeed())
	expect("status", 0, "Status: ON")
	g.Expect(m.Repair()).To(Succeed())

	code, _ := agent(t, m, "wrong", "status")
	g.Expect(code).To(Equal(1))
	m.Die()
	expect("status", 1, "")
	g.Expect(m.Revive(t.Context())).To(Succeed())
	expect("status", 0, "Status: ON")
}
