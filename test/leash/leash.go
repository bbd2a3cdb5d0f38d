// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leash ends the processes that a test has started when the test is gone, however it went: by Ctrl-C, by a signal, by a panic.
package leash

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/pkg/errors"
)

// Leash holds processes, and a folder for what they write. Both go with it.
type Leash struct {
	// Dir is removed with the leash.
	Dir string

	watcher *exec.Cmd
	hand    io.WriteCloser
}

// watch waits until the pipe from us closes, which the kernel does when we die, and then cleans up. Signals that end us must not end it first.
// After a proper end there are no process ids left, so that nobody else's process is hit.
const watch = `trap '' INT TERM HUP QUIT
while read -r _; do :; done
for note in "$0"/*.pid; do
  [ -e "$note" ] && kill -KILL "$(cat "$note")" 2>/dev/null
done
rm -rf "$0"`

// New makes a leash with an empty folder.
func New() (*Leash, error) {
	dir, err := os.MkdirTemp("", "remedy-")
	if err != nil {
		return nil, errors.Wrap(err, "failed to make a folder for processes")
	}
	watcher := exec.Command("/bin/sh", "-c", watch, dir) //nolint:noctx // it outlives everything else.
	watcher.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	hand, err := watcher.StdinPipe()
	if err == nil {
		err = watcher.Start()
	}
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, errors.Wrap(err, "failed to start the watcher of processes")
	}
	return &Leash{Dir: dir, watcher: watcher, hand: hand}, nil
}

// Wrap returns a program that does what the given one does, and is on the leash: it notes its process id before it becomes the other.
func (l *Leash) Wrap(name, path string) (string, error) {
	script := fmt.Sprintf("#!/bin/sh\necho $$ > '%s'\nexec '%s' \"$@\"\n", l.note(name), path)
	wrapped := filepath.Join(l.Dir, name)
	// A process that is begun meanwhile would hold the file open for writing, and what somebody writes to cannot be executed.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	err := os.WriteFile(wrapped, []byte(script), 0o700) //nolint:gosec // it is a program, it has to be executable.
	return wrapped, errors.Wrapf(err, "failed to put %s on the leash", name)
}

// PID is the process id of what was started by this name.
func (l *Leash) PID(name string) (int, error) {
	content, err := os.ReadFile(l.note(name))
	if err != nil {
		return 0, errors.Wrapf(err, "%s has not been started", name)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	return pid, errors.Wrapf(err, "the note of %s holds no process id", name)
}

// Ended says that the process has ended properly.
func (l *Leash) Ended(name string) {
	_ = os.Remove(l.note(name))
}

// Release ends what is left, and removes the folder.
func (l *Leash) Release() {
	_ = l.hand.Close()
	_ = l.watcher.Wait()
}

func (l *Leash) note(name string) string {
	return filepath.Join(l.Dir, name+".pid")
}

// Alive reports whether there is such a process. One that has ended and waits to be collected is not alive.
func Alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	// Its state is the word after its name, which stands in brackets. Where there is no /proc, the signal has to be enough.
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, found := strings.Cut(string(stat), ") ")
	return err != nil || !found || !strings.HasPrefix(after, "Z")
}
