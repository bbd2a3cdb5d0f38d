// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"slices"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// sweep takes everything of ours off a cluster. What cannot be taken off keeps nothing else from it.
func (l *Leaver) sweep(ctx context.Context, c *Cluster) error {
	all, unread, err := find(ctx, c.discoverer, c.metadata, "")
	if err != nil {
		return err
	}
	for i := range unread {
		l.miss("%s: %s", c.name, &unread[i])
	}
	// Whoever is interrupted must not leave a mark or a request of which nobody knows whose it was: checks let go last.
	slices.SortStableFunc(all, func(a, b found) int { return l.rank(&a) - l.rank(&b) })
	for i := range all {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := l.takeOff(ctx, c, &all[i]); err != nil {
			l.miss("%s: %s", c.name, err)
		}
	}
	return nil
}

// rank is the order in which objects are cleaned.
func (l *Leaver) rank(f *found) int {
	switch {
	case l.withdrawn(f):
		return 0
	case f.is("Machine", clusterv1.GroupVersion.Group):
		return 1
	case f.is("MachineHealthCheck", clusterv1.GroupVersion.Group), f.resource.Group == remedyv1.GroupVersion.Group:
		return 3
	}
	return 2
}

func (f *found) is(kind, group string) bool { return f.kind == kind && f.resource.Group == group }

// takeOff takes off what is ours of one object.
func (l *Leaver) takeOff(ctx context.Context, c *Cluster, f *found) error {
	if f.resource.Group == remedyv1.GroupVersion.Group {
		// What people have told a check of our own kind is theirs.
		f.keep(remedyv1.RequestPluralsAnnotation)
	}
	if f.empty() {
		return nil
	}
	if !l.DryRun {
		if err := l.change(ctx, c, f); err != nil {
			return err
		}
	}
	l.say(c, f.kind, f.Namespace, f.Name, l.fate(f))
	return nil
}

func (l *Leaver) change(ctx context.Context, c *Cluster, f *found) error {
	var err error
	switch {
	case l.withdrawn(f):
		err = c.withdraw(ctx, f, l.Clock.Now())
	case f.is("Machine", clusterv1.GroupVersion.Group):
		err = c.unmark(ctx, f)
	case f.is("MachineHealthCheck", clusterv1.GroupVersion.Group):
		err = c.hush(ctx, &f.ObjectMeta)
	}
	if err != nil {
		return err
	}
	return c.clean(ctx, f)
}

// hushAll takes what only we say out of the status of checks on which nothing else of ours stands: those that wait to be taken over, for example.
func (l *Leaver) hushAll(ctx context.Context) {
	checks := &clusterv1.MachineHealthCheckList{}
	if err := l.Management.api.List(ctx, checks); err != nil {
		if !meta.IsNoMatchError(err) {
			l.miss("%s: %s", l.Management.name, errors.Wrap(err, "failed to read the MachineHealthChecks"))
		}
		return
	}
	for i := range checks.Items {
		check := &checks.Items[i]
		if !speaks(check) {
			continue
		}
		if o := in(&check.ObjectMeta); l.DryRun && !o.empty() {
			// It is said already.
			continue
		}
		if !l.DryRun {
			if err := l.Management.hush(ctx, &check.ObjectMeta); err != nil {
				l.miss("%s: %s", l.Management.name, err)
				continue
			}
		}
		l.say(l.Management, "MachineHealthCheck", check.Namespace, check.Name, "without our conditions")
	}
}
