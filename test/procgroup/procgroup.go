// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package procgroup ends the processes of a test with the test, also if Ctrl-C, a signal or a panic ends the test. It does not start
// processes. Start reading at New.
package procgroup

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pkg/errors"
)

// Group is a set of processes and the folder that they write to. Release ends the processes and removes the folder.
type Group struct {
	Dir string

	watcher *exec.Cmd
	// pipe keeps the watcher waiting. The kernel closes it when this process ends.
	pipe io.WriteCloser
}

// watch waits until the pipe from this process closes, and then kills the processes and removes the folder. It ignores the signals that end
// this process. Ended removes the process id of a process that has ended, so that watch does not kill an unrelated process with the same
// id.
const watch = `trap '' INT TERM HUP QUIT
while read -r _; do :; done
for file in "$0"/*.pid; do
  [ -e "$file" ] && kill -KILL "$(cat "$file")" 2>/dev/null
done
rm -rf "$0"`

// New returns a group without processes and with an empty folder.
func New() (*Group, error) {
	dir, err := os.MkdirTemp("", "remedy-")
	if err != nil {
		return nil, errors.Wrap(err, "failed to make a folder for processes")
	}
	watcher := exec.Command("/bin/sh", "-c", watch, dir) //nolint:noctx // it ends after this process.
	watcher.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := watcher.StdinPipe()
	if err == nil {
		err = watcher.Start()
	}
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, errors.Wrap(err, "failed to start the watcher of processes")
	}
	return &Group{Dir: dir, watcher: watcher, pipe: pipe}, nil
}

// Wrap returns a program that writes its process id to the group's folder and then executes the given program.
func (g *Group) Wrap(name, path string) (string, error) {
	script := fmt.Sprintf("#!/bin/sh\necho $$ > '%s'\nexec '%s' \"$@\"\n", g.pidFile(name), path)
	wrapped := filepath.Join(g.Dir, name)
	// A process that is forked meanwhile inherits the open file, and a file that is open for writing cannot be executed.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	err := os.WriteFile(wrapped, []byte(script), 0o700) //nolint:gosec // it is a program, it has to be executable.
	return wrapped, errors.Wrapf(err, "failed to write the program that starts %s", name)
}

// PID returns the process id of the program that was wrapped with this name.
func (g *Group) PID(name string) (int, error) {
	content, err := os.ReadFile(g.pidFile(name))
	if err != nil {
		return 0, errors.Wrapf(err, "%s has not been started", name)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	return pid, errors.Wrapf(err, "the file of %s contains no process id", name)
}

// Ended removes a process that has ended from the group.
func (g *Group) Ended(name string) {
	_ = os.Remove(g.pidFile(name))
}

// Release kills the remaining processes and removes the folder.
func (g *Group) Release() {
	_ = g.pipe.Close()
	_ = g.watcher.Wait()
}

func (g *Group) pidFile(name string) string {
	return filepath.Join(g.Dir, name+".pid")
}

// Alive reports whether there is such a process. A zombie is not alive.
func Alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	// The process state follows the name, which is in brackets. Without /proc, only the signal above decides.
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, found := strings.Cut(string(stat), ") ")
	return err != nil || !found || !strings.HasPrefix(after, "Z")
}

// AwaitStopped returns when every thread of a process has stopped, which takes a moment after the signal.
func AwaitStopped(pid int) error {
	for deadline := time.Now().Add(10 * time.Second); !stopped(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return errors.Errorf("process %d does not stop", pid)
		}
	}
	return nil
}

// stopped asks the kernel for the state of each thread: the word after its name, which stands in brackets.
func stopped(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, thread := range threads {
		// A thread that has just ended does nothing, either.
		stat, err := os.ReadFile(thread)
		if _, state, found := strings.Cut(string(stat), ") "); err == nil && found && !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return true
}
