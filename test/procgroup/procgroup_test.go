// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package procgroup_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/procgroup"
)

// TestMain is also the program that the test kills: with the environment variable, it starts a process, prints its id, and waits for its
// end.
func TestMain(m *testing.M) {
	if os.Getenv("PROCGROUP_TEST_PARENT") == "" {
		os.Exit(m.Run())
	}
	// A shell that starts tests in the background makes them and their processes ignore Ctrl-C.
	interrupt := make(chan os.Signal, 1)
	signal.Notify(interrupt, os.Interrupt)
	go func() {
		<-interrupt
		os.Exit(1)
	}()
	group, err := procgroup.New()
	if err != nil {
		panic(err)
	}
	wrapped, err := group.Wrap("sleeper", "/bin/sleep")
	if err != nil {
		panic(err)
	}
	child := exec.Command(wrapped, "3600")
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := child.Start(); err != nil {
		panic(err)
	}
	fmt.Println(child.Process.Pid, group.Dir)
	_ = child.Wait()
}

func TestGroup_ParentEnds_ProcessEnds(t *testing.T) {
	for name, sent := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "Ctrl-C": syscall.SIGINT, "terminated": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			parent := exec.Command(os.Args[0])
			parent.Env = append(os.Environ(), "PROCGROUP_TEST_PARENT=yes")
			parent.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			out, err := parent.StdoutPipe()
			g.Expect(err).ToNot(HaveOccurred())
			g.Expect(parent.Start()).To(Succeed())
			var pid int
			var dir string
			line, err := bufio.NewReader(out).ReadString('\n')
			g.Expect(err).ToNot(HaveOccurred())
			_, err = fmt.Sscan(line, &pid, &dir)
			g.Expect(err).ToNot(HaveOccurred())
			pidFile := filepath.Join(dir, "sleeper.pid")
			g.Eventually(func() (string, error) {
				b, err := os.ReadFile(pidFile)
				return strings.TrimSpace(string(b)), err
			}, time.Minute).Should(Equal(strconv.Itoa(pid)))
			g.Expect(procgroup.Alive(pid)).To(BeTrue())

			// A terminal sends a signal to the whole process group.
			g.Expect(syscall.Kill(-parent.Process.Pid, sent)).To(Succeed())
			_ = parent.Wait()
			g.Eventually(func() bool { return procgroup.Alive(pid) }, time.Minute).Should(BeFalse())
			g.Eventually(func() error { _, err := os.Stat(dir); return err }, time.Minute).Should(MatchError(os.ErrNotExist))
		})
	}
}
