// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package instance runs the manager as in a cluster: a process with its own ServiceAccount and exactly the permissions of config/rbac.
package instance

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pkg/errors"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane/assets"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/procgroup"
)

// Namespace and ServiceAccount are what config/rbac is written for.
const (
	Namespace      = "remedy-system"
	ServiceAccount = "remedy-manager"
)

// Instance is a running manager.
type Instance struct {
	// Probes and Diagnostics are the addresses it serves.
	Probes, Diagnostics string

	cmd    *exec.Cmd
	ports  []*controlplane.Port
	group  *procgroup.Group
	exited chan struct{}
	err    error
}

// Build builds the manager and returns its path.
func Build(ctx context.Context, dir string) (string, error) {
	root, err := assets.ModuleDir(ctx, assets.ModulePath)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "manager")
	cmd := exec.CommandContext(ctx, "go", "build", "-tags=fieldsv1string", "-o", path, ".")
	cmd.Dir = root
	// The race detector's tests have it on, and everything would be compiled again for it.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	return path, errors.Wrapf(err, "the manager does not build: %s", out)
}

// Start runs the manager against the control plane until Stop. It logs to the writer.
func Start(binary string, cp *controlplane.ControlPlane, log io.Writer, args ...string) (*Instance, error) {
	i := &Instance{exited: make(chan struct{})}
	if err := i.start(binary, cp, log, args); err != nil {
		i.release()
		return nil, err
	}
	return i, nil
}

func (i *Instance) start(binary string, cp *controlplane.ControlPlane, log io.Writer, args []string) error {
	var err error
	if i.group, err = procgroup.New(); err != nil {
		return err
	}
	if binary, err = filepath.Abs(binary); err != nil {
		return errors.WithStack(err)
	}
	if binary, err = i.group.Wrap("manager", binary); err != nil {
		return err
	}
	kubeconfig := filepath.Join(i.group.Dir, "kubeconfig")
	if err := cp.WriteKubeconfig(controlplane.ServiceAccount(Namespace, ServiceAccount), kubeconfig); err != nil {
		return err
	}
	for range 2 {
		port, err := controlplane.TakePort()
		if err != nil {
			return err
		}
		i.ports = append(i.ports, port)
	}
	i.Probes, i.Diagnostics = i.ports[0].Address(), i.ports[1].Address()
	i.cmd = exec.Command(binary, append([]string{ //nolint:noctx // it ends by Stop, with the signal that a cluster sends.
		"--kubeconfig=" + kubeconfig,
		"--health-addr=" + i.Probes,
		"--diagnostics-address=" + i.Diagnostics,
	}, args...)...)
	i.cmd.Env = os.Environ()
	if os.Getenv("POD_NAMESPACE") == "" {
		i.cmd.Env = append(i.cmd.Env, "POD_NAMESPACE="+Namespace)
	}
	i.cmd.Stdout, i.cmd.Stderr = log, log
	if err := i.cmd.Start(); err != nil {
		return errors.Wrap(err, "the manager does not start")
	}
	go func() {
		i.err = i.cmd.Wait()
		close(i.exited)
	}()
	return nil
}

// PID is the id of the process.
func (i *Instance) PID() int { return i.cmd.Process.Pid }

// Exited is closed when the process has ended.
func (i *Instance) Exited() <-chan struct{} { return i.exited }

// Stop asks the manager to stop, as a cluster does, and returns its exit code; -1 if it had to be killed.
func (i *Instance) Stop() int {
	defer i.release()
	_ = i.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-i.exited:
	case <-time.After(time.Minute):
		_ = i.cmd.Process.Kill()
		<-i.exited
	}
	return i.cmd.ProcessState.ExitCode()
}

// Kill ends the manager without a chance to clean up, as a lost machine does.
func (i *Instance) Kill() {
	_ = i.cmd.Process.Kill()
	<-i.exited
	i.release()
}

// Freeze stops the process without ending it, as a machine without resources does. Its connections stay. Thaw lets it continue.
func (i *Instance) Freeze() error {
	if err := i.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return errors.Wrap(err, "failed to freeze the manager")
	}
	return procgroup.AwaitStopped(i.cmd.Process.Pid)
}

// Thaw lets a frozen process continue.
func (i *Instance) Thaw() error {
	return errors.Wrap(i.cmd.Process.Signal(syscall.SIGCONT), "failed to thaw the manager")
}

// Probe asks /healthz or /readyz.
func (i *Instance) Probe(ctx context.Context, path string) (status int, text string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+i.Probes+path, http.NoBody)
	if err != nil {
		return 0, "", errors.WithStack(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", errors.WithStack(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, strings.TrimSpace(string(body)), errors.WithStack(err)
}

// release can be called more than once: a test stops an instance, and its clean-up kills what is left.
func (i *Instance) release() {
	for _, port := range i.ports {
		port.Release()
	}
	if i.group == nil {
		return
	}
	if i.cmd != nil && i.cmd.ProcessState != nil {
		i.group.Ended("manager")
	}
	i.group.Release()
	i.group = nil
}
