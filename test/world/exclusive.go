// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"net"
	"sync"

	"github.com/pkg/errors"
)

// debugAddress is where the in-memory infrastructure serves its switches. Its port cannot be changed.
const debugAddress = "127.0.0.1:19000"

// infrastructureHeld keeps two worlds of one program from starting the in-memory infrastructure at the same time.
var infrastructureHeld sync.Mutex

// holdInfrastructure makes sure that the fixed ports of the in-memory infrastructure belong to this world.
func holdInfrastructure() (release func(), err error) {
	if !infrastructureHeld.TryLock() {
		return nil, errors.New("this program has a world with an in-memory infrastructure already, and there can be one in a network namespace: " +
			"stop that one's, or start this world with Options.WithoutInfrastructure")
	}
	listener, err := net.Listen("tcp", ":19000") //nolint:noctx,gosec // it does not wait, and is closed at once.
	if err != nil {
		infrastructureHeld.Unlock()
		if is, why := Isolated(); !is {
			return nil, errors.Errorf("another world, or another program, listens on :19000 (%v): without a network namespace of its own (%s), "+
				"one world at a time fits on this machine; call world.Main in TestMain, or world.Isolate, where the kernel allows it", err, why)
		}
		return nil, errors.Wrap(err, "the port of the in-memory infrastructure is taken")
	}
	return infrastructureHeld.Unlock, errors.WithStack(listener.Close())
}
