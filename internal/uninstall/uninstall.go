// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Uninstaller removes Remedy from clusters. It is used once, for All or for Release.
type Uninstaller struct {
	Management *Cluster
	// DryRun prints the changes and makes none.
	DryRun bool
	Out    io.Writer
	Clock  clock.PassiveClock
	Timeouts

	// stopped is when the managers had stopped. exclusive is true if one of them ran without the in-tree controller.
	stopped   time.Time
	exclusive bool
	// releasing is true in Release: the in-tree controller continues the remediations of the checks.
	releasing bool

	// lock guards the results, because workload clusters are cleaned concurrently.
	lock    sync.Mutex
	changes int
	left    []string
}

// Timeouts limit how long an Uninstaller waits. A request to an API server has a timeout of its own.
type Timeouts struct {
	// Stop is for a manager to stop, Release for a manager to release a check.
	Stop, Release time.Duration
	// Poll is the interval between two reads.
	Poll time.Duration
}

// DefaultTimeouts are those of the command line.
var DefaultTimeouts = Timeouts{Stop: 2 * time.Minute, Release: 30 * time.Second, Poll: time.Second}

// All stops the managers and removes Remedy from the management cluster and from every workload cluster that can be reached.
func (u *Uninstaller) All(ctx context.Context) error {
	if err := u.stopManagers(ctx); err != nil {
		return err
	}
	u.stopped = u.Clock.Now()
	nodeChecks, err := u.cleanCluster(ctx, u.Management)
	if err == nil {
		err = u.cleanWorkloadClusters(ctx)
	}
	if err == nil {
		if failure := u.deleteRemediationLeases(ctx, u.Management, client.ObjectKey{}); failure != nil && ctx.Err() == nil {
			u.leave("%s: %s", u.Management.name, failure)
		}
		err = u.cleanObjects(ctx, u.Management, nodeChecks)
	}
	if err == nil {
		err = u.findRestartedManagers(ctx)
	}
	return u.finish(ctx, err)
}

// changed prints and counts one change.
func (u *Uninstaller) changed(c *Cluster, kind string, o metav1.Object, change string) {
	u.lock.Lock()
	defer u.lock.Unlock()
	u.changes++
	name := strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
	if c != u.Management {
		name += " in " + c.name
	}
	_, _ = fmt.Fprintf(u.Out, "%s %s: %s%s\n", kind, name, change, u.dryRunSuffix())
}

func (u *Uninstaller) dryRunSuffix() string {
	if u.DryRun {
		return " (dry run)"
	}
	return ""
}

// leave records what could not be removed or read.
func (u *Uninstaller) leave(format string, args ...any) {
	u.lock.Lock()
	defer u.lock.Unlock()
	u.left = append(u.left, fmt.Sprintf(format, args...))
}

// finish prints what is left and how many changes were made. It returns an error if anything is left.
func (u *Uninstaller) finish(ctx context.Context, err error) error {
	for _, line := range u.left {
		_, _ = fmt.Fprintln(u.Out, "left: "+line)
	}
	if u.changes == 0 && len(u.left) == 0 && err == nil {
		_, _ = fmt.Fprintln(u.Out, "nothing to remove")
	} else {
		_, _ = fmt.Fprintln(u.Out, plural(u.changes, "change")+u.dryRunSuffix())
	}
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted: run the command again to continue")
	case err != nil:
		return err
	case len(u.left) > 0:
		return errors.Errorf("incomplete: %s above with the prefix 'left:'. Fix the cause and run the command again", plural(len(u.left), "line"))
	}
	return nil
}

func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
