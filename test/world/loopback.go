// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// raiseLoopback brings up the only interface of a new network namespace.
func raiseLoopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return errors.Wrap(err, "no socket in the new network namespace")
	}
	defer func() { _ = unix.Close(socket) }()
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return errors.WithStack(err)
	}
	if err := unix.IoctlIfreq(socket, unix.SIOCGIFFLAGS, request); err != nil {
		return errors.Wrap(err, "the new network namespace has no loopback")
	}
	request.SetUint16(request.Uint16() | unix.IFF_UP)
	return errors.Wrap(unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request), "loopback does not come up")
}
