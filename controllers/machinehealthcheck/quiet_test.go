// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"context"
	"time"

	"github.com/pkg/errors"
)

// quiet waits until nothing is written any more, or the process has crashed.
func (c *controller) quiet(ctx context.Context) error {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		before, fresh := len(c.Writes()), c.upToDate()
		c.pass()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if fresh && len(c.Writes()) == before && c.upToDate() {
			return nil
		}
	}
	return errors.New("it comes to no rest")
}
