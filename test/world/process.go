// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pkg/errors"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/procgroup"
)

// Process is a program of the world: it can be stopped, killed, frozen and started again.
type Process struct {
	Name string
	// Log is the file it writes to. A restart appends.
	Log string
	// Args are its arguments. A change counts from the next start on.
	Args []string
	// Env is added to a bare environment.
	Env []string
	// ReadyURL answers 200 when it is ready.
	ReadyURL string
	// Diagnostics is the address of its metrics, if it has any.
	Diagnostics string

	// program is what the wrapper at path executes.
	program, path string
	group         *procgroup.Group
	// own are flags with what a process on this machine cannot take from a Deployment: its addresses and its kubeconfig.
	own []string

	lock   sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{}
	// requested: it ends on request.
	requested bool
}

// newProcess adds a program to the group. It does not start it.
func newProcess(group *procgroup.Group, logs, name, path string) (*Process, error) {
	wrapped, err := group.Wrap(name, path)
	if err != nil {
		return nil, err
	}
	return &Process{Name: name, Log: filepath.Join(logs, name+".log"), program: path, path: wrapped, group: group}, nil
}

// Start starts it, and returns at once.
func (p *Process) Start() error {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.running() {
		return errors.Errorf("%s is running already", p.Name)
	}
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return errors.Wrapf(err, "no log for %s", p.Name)
	}
	// The process has its own handle.
	defer func() { _ = log.Close() }()
	cmd := exec.Command(p.path, p.Args...) //nolint:noctx // it ends by Stop or Kill.
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "GOGC=" + os.Getenv("GOGC"), "HOME=" + p.group.Dir, "TMPDIR=" + p.group.Dir}, p.Env...)
	cmd.Dir = p.group.Dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return errors.Wrapf(err, "%s does not start", p.Name)
	}
	exited := make(chan struct{})
	p.cmd, p.exited, p.requested = cmd, exited, false
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	return nil
}

// keep starts it again whenever it has ended by itself, as the kubelet does: a manager that cannot renew its lead in time does, and on a
// machine that is very busy none can. Who was killed or stopped stays so, and who was never started.
func (p *Process) keep(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.Exited():
		}
		if p.endedByItself() {
			// If it does not start, it is tried again.
			_ = p.Start()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}

func (p *Process) endedByItself() bool {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.cmd != nil && !p.running() && !p.requested
}

// Ready waits until it answers that it is ready.
func (p *Process) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if p.answers(ctx) {
			return nil
		}
		select {
		case <-p.Exited():
			return errors.Errorf("%s has ended (%s); its last words:\n%s", p.Name, p.cmd.ProcessState, p.lastWords())
		case <-ctx.Done():
			return errors.Errorf("%s is not ready (%v); its last words:\n%s", p.Name, ctx.Err(), p.lastWords())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// startsUntilReady is Ready for a manager of Cluster API that was installed a moment ago. If it ends, it is started again, as a container is: on a
// busy machine the API server does not serve all of its kinds yet, and then a manager ends.
func (p *Process) startsUntilReady(ctx context.Context) error {
	const restarts = 5
	err := p.Ready(ctx)
	for range restarts {
		if err == nil || p.Running() {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Second):
		}
		if err = p.Start(); err == nil {
			err = p.Ready(ctx)
		}
	}
	return err
}

func (p *Process) answers(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.ReadyURL, http.NoBody)
	if err != nil {
		return false
	}
	response, err := trusting.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// lastWords is the end of its log.
func (p *Process) lastWords() string {
	content, _ := os.ReadFile(p.Log)
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}

// Running reports whether it runs. A frozen process does.
func (p *Process) Running() bool {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.running()
}

func (p *Process) running() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Exited is closed when the process that was started last has ended. It is closed, too, when none was started.
func (p *Process) Exited() <-chan struct{} {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.exited == nil {
		none := make(chan struct{})
		close(none)
		return none
	}
	return p.exited
}

// Stop asks it to stop, as a cluster does, and waits; after half a minute it is killed.
func (p *Process) Stop() error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.Exited():
	case <-time.After(30 * time.Second):
		return p.Kill()
	}
	p.group.Ended(p.Name)
	return nil
}

// Kill ends it without a chance to clean up, as a lost machine does, and waits until it has ended.
func (p *Process) Kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.Exited()
	p.group.Ended(p.Name)
	return nil
}

// Freeze makes it hang: its connections stay, it does nothing. Thaw ends it. When it returns, every thread has stopped.
func (p *Process) Freeze() error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return errors.Wrapf(procgroup.AwaitStopped(p.cmd.Process.Pid), "failed to freeze %s", p.Name)
}

// Thaw lets a frozen process go on.
func (p *Process) Thaw() error { return p.signal(syscall.SIGCONT) }

func (p *Process) signal(s syscall.Signal) error {
	p.lock.Lock()
	defer p.lock.Unlock()
	if !p.running() {
		return errors.Errorf("%s is not running", p.Name)
	}
	p.requested = p.requested || s == syscall.SIGTERM || s == syscall.SIGKILL
	return errors.Wrapf(p.cmd.Process.Signal(s), "failed to signal %s", p.Name)
}
