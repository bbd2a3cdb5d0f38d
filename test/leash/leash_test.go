// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package leash_test

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

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/leash"
)

// TestMain plays the test that gets killed, when it is told to: it starts a process, says which, and waits for its end.
func TestMain(m *testing.M) {
	if os.Getenv("PLAY_THE_VICTIM") == "" {
		os.Exit(m.Run())
	}
	// A shell that starts tests in the background lets them, and what they start, ignore Ctrl-C.
	interrupt := make(chan os.Signal, 1)
	signal.Notify(interrupt, os.Interrupt)
	go func() {
		<-interrupt
		os.Exit(1)
	}()
	l, err := leash.New()
	if err != nil {
		panic(err)
	}
	wrapped, err := l.Wrap("sleeper", "/bin/sleep")
	if err != nil {
		panic(err)
	}
	child := exec.Command(wrapped, "3600")
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := child.Start(); err != nil {
		panic(err)
	}
	fmt.Println(child.Process.Pid, l.Dir)
	_ = child.Wait()
}

func TestAProcessEndsWithTheOneThatStartedIt(t *testing.T) {
	for name, sent := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "Ctrl-C": syscall.SIGINT, "terminated": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			victim := exec.Command(os.Args[0])
			victim.Env = append(os.Environ(), "PLAY_THE_VICTIM=yes")
			victim.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			out, err := victim.StdoutPipe()
			g.Expect(err).ToNot(HaveOccurred())
			g.Expect(victim.Start()).To(Succeed())
			var pid int
			var dir string
			line, err := bufio.NewReader(out).ReadString('\n')
			g.Expect(err).ToNot(HaveOccurred())
			_, err = fmt.Sscan(line, &pid, &dir)
			g.Expect(err).ToNot(HaveOccurred())
			note := filepath.Join(dir, "sleeper.pid")
			g.Eventually(func() (string, error) { b, err := os.ReadFile(note); return strings.TrimSpace(string(b)), err }, time.Minute).Should(Equal(strconv.Itoa(pid)))
			g.Expect(leash.Alive(pid)).To(BeTrue())

			// As a terminal does it: to the whole group.
			g.Expect(syscall.Kill(-victim.Process.Pid, sent)).To(Succeed())
			_ = victim.Wait()
			g.Eventually(func() bool { return leash.Alive(pid) }, time.Minute).Should(BeFalse())
			g.Eventually(func() error { _, err := os.Stat(dir); return err }, time.Minute).Should(MatchError(os.ErrNotExist))
		})
	}
}

func TestAReleaseEndsWhatIsLeft(t *testing.T) {
	g := NewWithT(t)
	l, err := leash.New()
	g.Expect(err).ToNot(HaveOccurred())
	wrapped, err := l.Wrap("sleeper", "/bin/sleep")
	g.Expect(err).ToNot(HaveOccurred())
	child := exec.Command(wrapped, "3600")
	g.Expect(child.Start()).To(Succeed())
	g.Eventually(filepath.Join(l.Dir, "sleeper.pid"), time.Minute).Should(BeAnExistingFile())
	g.Eventually(func() string { b, _ := os.ReadFile(filepath.Join(l.Dir, "sleeper.pid")); return string(b) }, time.Minute).ShouldNot(BeEmpty())
	l.Release()
	g.Expect(child.Wait()).To(MatchError(ContainSubstring("killed")))
	g.Expect(l.Dir).ToNot(BeADirectory())
}
