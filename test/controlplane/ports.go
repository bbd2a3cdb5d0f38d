// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/pkg/errors"
)

// Ports are taken from below the range that the kernel uses for outgoing connections:
// a port that was found with ":0" may be in use by one of those before its server listens.
const (
	firstPort = 11000
	lastPort  = 18999
)

// Port is a TCP port on loopback that no other process of these tests takes until it is released, or its process ends.
type Port struct {
	Number int
	lock   *os.File
}

// TakePort finds an unused port, and reserves it among all processes of these tests.
func TakePort() (*Port, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("remedy-ports-%d", os.Getuid()))
	for range 200 {
		port, err := tryPort(dir, firstPort+rand.IntN(lastPort-firstPort+1)) //nolint:gosec // no secret depends on it.
		if err != nil {
			return nil, err
		}
		if port != nil {
			return port, nil
		}
	}
	return nil, errors.Errorf("no free port between %d and %d on 127.0.0.1", firstPort, lastPort)
}

// tryPort returns nil if the port is taken.
func tryPort(dir string, number int) (*Port, error) {
	if err := os.MkdirAll(dir, 0o700); errors.Is(err, os.ErrExist) {
		return nil, nil //nolint:nilnil // another process created and removed it: it is created again.
	} else if err != nil {
		return nil, errors.Wrap(err, "failed to make the folder of port locks")
	}
	lock, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(number)), os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil //nolint:nilnil // the process with the last port has just removed the folder: it is created again.
	}
	if err != nil {
		return nil, errors.Wrap(err, "failed to open a port lock")
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
			return nil, nil //nolint:nilnil // another process holds it, which is no error.
		}
		return nil, errors.Wrapf(err, "the file system of %s cannot lock files: set TMPDIR to a folder on another one", dir)
	}
	port := &Port{Number: number, lock: lock}
	if !port.holds() {
		return nil, lock.Close()
	}
	if !port.free() {
		port.Release()
		return nil, nil //nolint:nilnil // a process listens there, which is no error.
	}
	return port, nil
}

// free reports whether no process listens there.
func (p *Port) free() bool {
	listener, err := net.Listen("tcp", p.Address()) //nolint:noctx // it does not wait.
	return err == nil && listener.Close() == nil
}

// holds reports whether the locked file is the one that others find: the earlier owner of the port may have removed it in between.
func (p *Port) holds() bool {
	locked, err := p.lock.Stat()
	if err != nil {
		return false
	}
	found, err := os.Stat(p.lock.Name())
	return err == nil && os.SameFile(locked, found)
}

// String is the number, as addresses want it.
func (p *Port) String() string {
	return strconv.Itoa(p.Number)
}

// Address is the port on loopback.
func (p *Port) Address() string {
	return "127.0.0.1:" + p.String()
}

// Release lets others take the port, and leaves no file behind, nor the folder if it was the last one. It can be called more than once.
func (p *Port) Release() {
	// Only while it is locked: afterwards it could belong to another process.
	if p.holds() {
		_ = os.Remove(p.lock.Name())
		_ = os.Remove(filepath.Dir(p.lock.Name()))
	}
	_ = p.lock.Close()
}
