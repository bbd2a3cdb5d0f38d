// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"

	"github.com/pkg/errors"
)

// Standby is the name of the process that StartStandby starts.
const Standby = "remedy-standby"

// StartStandby starts a second manager of Remedy, as another replica of its Deployment, and waits until it is ready. It has a tap of its own:
// see FailAtWrite and WritesOf.
func (w *World) StartStandby(ctx context.Context) error {
	if w.processes[Remedy] == nil || w.processes[Standby] != nil {
		return errors.New("a standby needs one manager of Remedy, and there can be one standby")
	}
	process, err := w.remedyProcess(ctx, Standby, w.processes[Remedy].program)
	if err != nil {
		return err
	}
	if err := process.Start(); err != nil {
		return err
	}
	w.background.Go(func() { process.keep(w.life) })
	return process.Ready(ctx)
}
