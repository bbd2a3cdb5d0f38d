// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pkg/errors"
)

// Die ends the management controller. The machine keeps its power.
func (m *Machine) Die() { m.kill() }

// Revive starts the management controller again.
func (m *Machine) Revive(ctx context.Context) error { return m.start(ctx) }

// Slow delays each answer.
func (m *Machine) Slow(by time.Duration) error { return m.write("slow", fmt.Sprint(by.Seconds())) }

// SlowToSwitch delays what it does for a request to switch.
func (m *Machine) SlowToSwitch(by time.Duration) error {
	return m.write("slow-switch", fmt.Sprint(by.Seconds()))
}

// IgnoreOff accepts requests to switch off, and the machine keeps its power.
func (m *Machine) IgnoreOff() error { return m.write("ignore-off", "") }

// AnswerOff answers that the machine has no power, whether it has or not.
func (m *Machine) AnswerOff() error { return m.write("answers-off", "") }

// SwitchNeighbour switches the power of another machine, and answers with its own: two cables are interchanged.
func (m *Machine) SwitchNeighbour(other *Machine) error { return m.write("neighbour", other.dir) }

// Repair ends all faults of a management controller that runs.
func (m *Machine) Repair() error {
	for _, file := range []string{"slow", "slow-switch", "ignore-off", "answers-off", "neighbour"} {
		if err := os.Remove(filepath.Join(m.dir, file)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return errors.WithStack(err)
		}
	}
	return nil
}
