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
	"unicode"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/settings"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
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
	// outOfService are the UIDs of NodeFences that have added the taint out-of-service to their Nodes.
	outOfService []string
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
	if err := u.stopManagers(ctx, checksManager, settings.LeaseName); err != nil {
		return err
	}
	if err := u.endFences(ctx); err != nil {
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
	u.println(fmt.Sprintf("%s %s: %s%s", kind, name, change, u.dryRunSuffix()))
}

// maxLine is the maximum number of bytes of a line of output.
const maxLine = 4096

// println prints one line of printable characters. Workload clusters choose names, kinds, annotations and errors: these could otherwise
// change what a terminal shows, or look like other lines.
func (u *Uninstaller) println(text string) {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r) || unicode.IsControl(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, text)
	if len(text) > maxLine {
		text = strings.ToValidUTF8(text[:maxLine], "") + "..."
	}
	_, _ = fmt.Fprintln(u.Out, text)
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
		u.println("left: " + line)
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

// clusterTime limits how long one workload cluster is cleaned: its API server can return pages without an end.
const clusterTime = 10 * time.Minute

// concurrency is how many workload clusters are cleaned at the same time. Clusters that do not answer take long.
const concurrency = 16

// cleanWorkloadClusters cleans every workload cluster that can be reached, and reports the others.
func (u *Uninstaller) cleanWorkloadClusters(ctx context.Context) error {
	clusters := &clusterv1.ClusterList{}
	if err := u.Management.client.List(ctx, clusters); err != nil && !meta.IsNoMatchError(err) {
		u.leave("all workload clusters: %s", errors.Wrap(err, "failed to list Clusters"))
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, concurrency)
	for i := range clusters.Items {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if ctx.Err() != nil {
				return
			}
			cluster := &clusters.Items[i]
			if err := u.cleanWorkloadCluster(ctx, cluster); err != nil {
				u.leave("Cluster %s/%s: failed to clean the workload cluster: %s", cluster.Namespace, cluster.Name, err)
			}
		})
	}
	all.Wait()
	return ctx.Err()
}

// cleanWorkloadCluster removes the traces of Remedy from a workload cluster, and the Leases of its control plane and Nodes. Without a
// kubeconfig, no manager has ever connected to it.
func (u *Uninstaller) cleanWorkloadCluster(ctx context.Context, cluster *clusterv1.Cluster) error {
	kubeconfig, err := secret.Get(ctx, u.Management.client, client.ObjectKeyFromObject(cluster), secret.Kubeconfig)
	if err != nil {
		return errors.WithStack(client.IgnoreNotFound(err))
	}
	content := kubeconfig.Data[secret.KubeconfigDataName]
	if err := workload.ValidateKubeconfig(content); err != nil {
		return errors.Wrapf(err, "failed to use the kubeconfig in Secret %s/%s", kubeconfig.Namespace, kubeconfig.Name)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		return errors.WithStack(err)
	}
	workload.LimitAnswers(config)
	ctx, done := context.WithTimeout(ctx, clusterTime)
	defer done()
	c, err := NewCluster("Cluster "+cluster.Namespace+"/"+cluster.Name, config)
	if err != nil {
		return err
	}
	if _, err := u.cleanCluster(ctx, c); err != nil {
		return err
	}
	return u.deleteRemediationLeases(ctx, c, client.ObjectKeyFromObject(cluster))
}
