// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pkg/errors"
	"k8s.io/client-go/discovery"
)

// The processes that can crash.
const (
	EtcdProcess      = "etcd"
	APIServerProcess = "kube-apiserver"
)

// revived is a process that crashed: what it was called with, and the process that came after it.
type revived struct {
	args   []string
	cmd    *exec.Cmd
	exited chan struct{}
}

// Crash ends etcd or the API server without a chance to clean up. What is on disk stays.
func (c *ControlPlane) Crash(name string) error {
	if !slices.Contains([]string{EtcdProcess, APIServerProcess}, name) {
		return errors.Errorf("there is no %q in a control plane", name)
	}
	pid, err := c.pid(name)
	if err != nil {
		return err
	}
	// envtest does not export the arguments; the kernel does.
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(line) == 0 {
		return errors.Errorf("%s is not running", name)
	}
	before := c.revived[name]
	c.revived[name] = &revived{args: strings.Split(string(bytes.TrimRight(line, "\x00")), "\x00")[1:]}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return errors.Wrapf(err, "failed to kill %s", name)
	}
	if before != nil && before.cmd != nil {
		<-before.exited
	}
	// A process has ended when its parent has collected it: until then, a thread that waits for the disk can hold the port.
	for deadline := time.Now().Add(startLimit); syscall.Kill(pid, 0) == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			return errors.Errorf("%s was killed and is still there", name)
		}
	}
	c.group.Ended(name)
	return nil
}

// Revive starts what crashed again, with the same arguments and in this order, and then waits until the API server answers.
func (c *ControlPlane) Revive(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := c.revive(name); err != nil {
			return err
		}
	}
	return c.WaitReady(ctx)
}

func (c *ControlPlane) revive(name string) error {
	r := c.revived[name]
	if r == nil || r.cmd != nil {
		return errors.Errorf("%s has not crashed", name)
	}
	path := c.plane.APIServer.Path
	if name == EtcdProcess {
		path = c.plane.Etcd.Path
	}
	log, err := os.OpenFile(c.revivedLog(name), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return errors.Wrapf(err, "no log for %s", name)
	}
	// The process has its own handle.
	defer func() { _ = log.Close() }()
	cmd, exited := exec.Command(path, r.args...), make(chan struct{}) //nolint:noctx // it ends with the control plane.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return errors.Wrapf(err, "%s does not start again", name)
	}
	r.cmd, r.exited = cmd, exited
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	return nil
}

func (c *ControlPlane) revivedLog(name string) string {
	return filepath.Join(c.group.Dir, name+"-revived.log")
}

// ended reports that a revived process has ended again, with its last output.
func (c *ControlPlane) ended() error {
	for name, r := range c.revived {
		if r.cmd == nil {
			continue
		}
		select {
		case <-r.exited:
			said, _ := os.ReadFile(c.revivedLog(name))
			lines := strings.Split(strings.TrimSpace(string(said)), "\n")
			return errors.Errorf("%s has exited again (%s); its last lines:\n%s", name, r.cmd.ProcessState,
				strings.Join(lines[max(0, len(lines)-10):], "\n"))
		default:
		}
	}
	return nil
}

// WaitReady waits until the API server answers.
func (c *ControlPlane) WaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	api, err := discovery.NewDiscoveryClientForConfig(c.Admin)
	if err != nil {
		return errors.WithStack(err)
	}
	for {
		err := api.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
		if err == nil {
			return nil
		}
		if ended := c.ended(); ended != nil {
			return ended
		}
		select {
		case <-ctx.Done():
			return errors.Wrap(err, "the API server does not answer")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// endRevived ends the processes that envtest did not start: the API server first, because it needs etcd.
func (c *ControlPlane) endRevived() {
	for _, name := range []string{APIServerProcess, EtcdProcess} {
		r := c.revived[name]
		if r == nil || r.cmd == nil {
			continue
		}
		_ = r.cmd.Process.Kill()
		<-r.exited
		c.group.Ended(name)
	}
}
