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
	// Refuse: it does not happen, and the process is told so (500).
	Refuse Fault = "Refuse"
	// LoseRequest: it does not happen, and the process only knows that the connection broke.
	LoseRequest Fault = "LoseRequest"
	// LoseAnswer: it happens, and the process only knows that the connection broke.
	LoseAnswer Fault = "LoseAnswer"
	// CrashBefore: the process crashes just before it would have happened.
	CrashBefore Fault = "CrashBefore"
	// CrashAfter: the process crashes just after it has happened.
	CrashAfter Fault = "CrashAfter"
)

// Faults of random trouble.
const (
	// Conflict: somebody else was faster (409). Creating meets no conflict.
	Conflict Fault = "Conflict"
	// TooManyRequests: it is to be tried again later (429).
	TooManyRequests Fault = "TooManyRequests"
	// InternalError is a server that fails (500).
	InternalError Fault = "InternalError"
	// Unavailable is a server that is about to stop or to start (503).
	Unavailable Fault = "Unavailable"
	// TimeoutBefore: nobody answers, and it did not happen. The process is told at once that the time is over.
	TimeoutBefore Fault = "TimeoutBefore"
	// TimeoutAfter: nobody answers, and it did happen.
	TimeoutAfter Fault = "TimeoutAfter"
)

// lands says whether the server gets to see a write that meets this fault.
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
