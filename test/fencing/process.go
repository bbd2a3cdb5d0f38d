// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"bytes"
	"context"
	"crypto/tls"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/procgroup"
)

// startLimit is how long a process may take to become ready on a busy machine.
const startLimit = 5 * time.Minute

// Process is a program of the world. It can be killed and started again.
type Process struct {
	Name string
	// ReadyURL answers 200 when it is ready.
	ReadyURL string

	path  string
	args  []string
	env   []string
	group *procgroup.Group
	log   Log

	lock   sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{}
}

// Log is what a process prints. It can be read while the process runs.
type Log struct {
	lock sync.Mutex
	text bytes.Buffer
}

// Write adds to the log.
func (l *Log) Write(text []byte) (int, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.text.Write(text)
}

// String returns all of it.
func (l *Log) String() string {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.text.String()
}

// End returns its last lines.
func (l *Log) End(lines int) string {
	all := strings.Split(strings.TrimSpace(l.String()), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Log returns what the process has printed, over all its lives.
func (p *Process) Log() *Log { return &p.log }

// Start starts it, and returns at once.
func (p *Process) Start() error {
	p.lock.Lock()
	defer p.lock.Unlock()
	cmd := exec.Command(p.path, p.args...) //nolint:noctx // it ends by Kill, or with its group.
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	if err := cmd.Start(); err != nil {
		return errors.Wrapf(err, "%s does not start", p.Name)
	}
	exited := make(chan struct{})
	p.cmd, p.exited = cmd, exited
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	return nil
}

// Kill ends it without a chance to clean up, and waits until it has ended.
func (p *Process) Kill() {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	<-p.exited
	p.group.Ended(p.Name)
}

// Exited is closed when the process that was started last has ended.
func (p *Process) Exited() <-chan struct{} {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.exited
}

// local is a client for probes. The certificates of processes are their own.
var local = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
	TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true, //nolint:gosec // it reads probes on loopback.
}}

// Ready waits until it is ready.
func (p *Process) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.ReadyURL, http.NoBody)
		if err != nil {
			return errors.WithStack(err)
		}
		if response, err := local.Do(request); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-p.Exited():
			return errors.Errorf("%s has exited. Its log ends with:\n%s", p.Name, p.log.End(10))
		case <-ctx.Done():
			return errors.Errorf("%s is not ready. Its log ends with:\n%s", p.Name, p.log.End(10))
		case <-time.After(50 * time.Millisecond):
		}
	}
}
