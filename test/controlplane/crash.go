// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pkg/errors"
	"k8s.io/client-go/discovery"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/leash"
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
	pid, err := c.leash.PID(name)
	if err != nil {
		return err
	}
	// envtest keeps the arguments to itself; the kernel knows them.
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
	for deadline := time.Now().Add(startLimit); leash.Alive(pid); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			return errors.Errorf("%s was killed and is still there", name)
		}
	}
	c.leash.Ended(name)
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
	r.cmd, r.exited = exec.Command(path, r.args...), make(chan struct{}) //nolint:noctx // it ends with the control plane.
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := r.cmd.Start(); err != nil {
		return errors.Wrapf(err, "%s does not start again", name)
	}
	go func() {
		_ = r.cmd.Wait()
		close(r.exited)
	}()
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
		select {
		case <-ctx.Done():
			return errors.Wrap(err, "the API server does not answer")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// endRevived ends what envtest does not know of: the API server first, as it needs etcd.
func (c *ControlPlane) endRevived() {
	for _, name := range []string{APIServerProcess, EtcdProcess} {
		r := c.revived[name]
		if r == nil || r.cmd == nil {
			continue
		}
		_ = r.cmd.Process.Kill()
		<-r.exited
		c.leash.Ended(name)
	}
}
