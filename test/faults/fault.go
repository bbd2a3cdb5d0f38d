// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"net"
	"os"
	"syscall"

	"github.com/pkg/errors"
)

// Fault is how a request fails.
type Fault string

// Faults of a given write.
const (
	// Refuse: it does not happen, and the process gets an error (500).
	Refuse Fault = "Refuse"
	// LoseRequest: it does not happen, and the process gets an error of the connection.
	LoseRequest Fault = "LoseRequest"
	// LoseAnswer: it happens, and the process gets an error of the connection.
	LoseAnswer Fault = "LoseAnswer"
	// CrashBefore: the process crashes just before it would have happened.
	CrashBefore Fault = "CrashBefore"
	// CrashAfter: the process crashes just after it has happened.
	CrashAfter Fault = "CrashAfter"
)

// Faults of random trouble.
const (
	// Conflict: another writer was faster (409). A create has no conflict.
	Conflict Fault = "Conflict"
	// TooManyRequests: it is to be tried again later (429).
	TooManyRequests Fault = "TooManyRequests"
	// InternalError is a server that fails (500).
	InternalError Fault = "InternalError"
	// Unavailable is a server that is about to stop or to start (503).
	Unavailable Fault = "Unavailable"
	// TimeoutBefore: there is no answer, and it did not happen. The process gets the timeout at once.
	TimeoutBefore Fault = "TimeoutBefore"
	// TimeoutAfter: there is no answer, and it did happen.
	TimeoutAfter Fault = "TimeoutAfter"
)

// lands reports whether the server gets a write with this fault.
func (f Fault) lands() bool { return f == LoseAnswer || f == CrashAfter || f == TimeoutAfter }

// ErrCrashed is what every request of a process gets that has crashed.
var ErrCrashed = errors.New("this process has crashed: nothing of it reaches the API server any more, start another one")

// broken is what a client sees of a connection that breaks.
func broken() error {
	return &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
}

// tooLate is what a client sees that has waited for long enough.
func tooLate() error {
	return &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}
}
