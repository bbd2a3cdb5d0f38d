// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

// asPassenger makes this program one with a world of its own; a modest one does without the in-memory infrastructure if it has to.
const (
	asPassenger = "WORLD_TEST_PASSENGER"
	modest      = "modest"
)

// ride is another program's main function: a world that stays up until its program goes.
func ride() error {
	if err := world.Isolate(); err != nil {
		return err
	}
	// Where there is one network namespace for all, there is one in-memory infrastructure.
	alone, _ := world.Isolated()
	w, err := world.Start(context.Background(), world.Options{WithoutRemedy: true, WithoutInfrastructure: !alone && os.Getenv(asPassenger) == modest})
	if err != nil {
		return err
	}
	if _, err := os.Stdout.WriteString("up: " + w.Dir + " " + filepath.Dir(w.Plane.Certificates) + "\n"); err != nil {
		return err
	}
	select {}
}

func TestWorld_TwoAtOnce_LeaveNothingBehind(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	interrupted, killed, folders := twoPassengers(t)
	for _, of := range folders {
		for _, folder := range of {
			g.Expect(folder).To(BeADirectory())
			g.Expect(processesOf(folder)).ToNot(BeEmpty())
		}
	}
	// Ctrl-C, and a kill that no process can handle; each hits the outer program only.
	g.Expect(interrupted.cmd.Process.Signal(syscall.SIGINT)).To(Succeed())
	g.Expect(killed.cmd.Process.Kill()).To(Succeed())
	for _, of := range folders {
		for _, folder := range of {
			g.Eventually(func() []string { return processesOf(folder) }, soon).Should(BeEmpty())
			g.Eventually(func() error { _, err := os.Stat(folder); return err }, soon).Should(MatchError(os.ErrNotExist))
		}
	}
}

func TestWorld_SecondWithoutNetworkNamespace_IsRejected(t *testing.T) {
	g := NewWithT(t)
	theWorld(t)
	program, err := os.Executable()
	g.Expect(err).ToNot(HaveOccurred())
	// It stays in this namespace, as all programs do where the kernel allows no other.
	other := exec.Command(program)
	other.Env = append(os.Environ(), "REMEDY_WORLD_ISOLATION=none", asPassenger+"=1")
	out, err := other.CombinedOutput()
	g.Expect(err).To(HaveOccurred())
	g.Expect(string(out)).To(ContainSubstring("one world at a time fits on this machine"))
}

// twoPassengers starts two programs, and returns the folders of the world of each when both worlds are up.
func twoPassengers(t *testing.T) (one, other passengerProcess, folders [][]string) {
	t.Helper()
	starting.Lock()
	defer starting.Unlock()
	one, other = passenger(t), passenger(t)
	return one, other, [][]string{arrived(t, one), arrived(t, other)}
}

type passengerProcess struct {
	cmd *exec.Cmd
	out *bufio.Scanner
}

func passenger(t *testing.T) passengerProcess {
	t.Helper()
	g := NewWithT(t)
	program, err := os.Executable()
	g.Expect(err).ToNot(HaveOccurred())
	cmd := exec.Command(program)
	// It finds a namespace of its own by itself. Where this program gets none, it gets none.
	cmd.Env = os.Environ()
	if alone, _ := world.Isolated(); alone {
		cmd.Env = withoutIsolation()
	}
	cmd.Env = append(cmd.Env, asPassenger+"="+modest)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(cmd.Start()).To(Succeed())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return passengerProcess{cmd: cmd, out: bufio.NewScanner(out)}
}

// arrived waits until the world is up, and returns its folders.
func arrived(t *testing.T, p passengerProcess) []string {
	t.Helper()
	for p.out.Scan() {
		if _, folders, is := strings.Cut(p.out.Text(), "up: "); is {
			return strings.Fields(folders)
		}
	}
	t.Fatal("the other program ended before its world was up")
	return nil
}

// processesOf are the command lines that mention a folder. The watcher that cleans up is one, for a moment.
func processesOf(folder string) []string {
	var found []string
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range lines {
		content, _ := os.ReadFile(file)
		if line := string(bytes.ReplaceAll(content, []byte{0}, []byte{' '})); strings.Contains(line, folder) {
			found = append(found, line)
		}
	}
	return found
}
