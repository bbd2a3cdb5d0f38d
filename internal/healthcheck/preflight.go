// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"context"
	"slices"
	"sync"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/pipeline"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// Obstacle reads live whether the check or its Cluster is paused, or has changed since the plan.
func (p *scope) Obstacle(ctx context.Context) (*remediation.PreflightCheck, error) {
	check, cluster, err := p.find(ctx)
	if apierrors.IsNotFound(err) {
		return &remediation.PreflightCheck{Changed: true}, nil
	}
	if err != nil {
		return nil, err
	}
	now := &snapshot{check: check, cluster: cluster}
	p.observeLive(now)
	switch {
	case now.paused():
		return &remediation.PreflightCheck{Paused: true}, nil
	case changed(p.snapshot.check, check), !p.r.Responsible(check.Object):
		return &remediation.PreflightCheck{Changed: true}, nil
	}
	return nil, nil
}

// find reads the check and its Cluster live.
func (p *scope) find(ctx context.Context) (*Check, *clusterv1.Cluster, error) {
	reader := p.r.Live
	if key := p.snapshot.check.Cluster; p.snapshot.cluster != nil {
		ahead := &clusterAhead{Reader: reader, key: key, cluster: &clusterv1.Cluster{}, done: make(chan struct{})}
		go func() {
			defer close(ahead.done)
			ahead.err = ahead.Reader.Get(ctx, key, ahead.cluster)
		}()
		reader = ahead
	}
	return p.r.Store.Find(ctx, reader, client.ObjectKeyFromObject(p.snapshot.check.Object))
}

// clusterAhead reads a Cluster at the same time as the check that names it.
type clusterAhead struct {
	client.Reader
	key     client.ObjectKey
	cluster *clusterv1.Cluster
	err     error
	done    chan struct{}
}

// Get reads an object. For the Cluster, it waits for the read that has begun.
func (r *clusterAhead) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	cluster, is := object.(*clusterv1.Cluster)
	if !is || key != r.key {
		return r.Reader.Get(ctx, key, object, options...)
	}
	if <-r.done; r.err != nil {
		return r.err
	}
	r.cluster.DeepCopyInto(cluster)
	return nil
}

// observeLive makes the scope silent if the check is paused or another instance is responsible for it. The caches may not have that before
// this reconcile is over. If the check has changed, the next one reads it live.
func (p *scope) observeLive(now *snapshot) {
	if changed(p.snapshot.check, now.check) {
		p.record.version = ""
	}
	p.silent = p.silent || now.paused() || !p.r.Responsible(now.check.Object)
}

// changed reports whether a check differs in what a plan depends on.
func changed(before, now *Check) bool {
	a, b := before.Object, now.Object
	return a.GetUID() != b.GetUID() || a.GetGeneration() != b.GetGeneration() || before.deleting() != now.deleting()
}

// Preflight reads live what the decisions about some targets depend on. What cannot be read of a target fails only the preflight check of
// that target.
func (p *scope) Preflight(ctx context.Context, targets []int, all bool) (*pipeline.Preflight, error) {
	p.livePreflight = p.r.Clock.Now()
	fresh, err := p.readAgain(ctx, targets, all)
	if err != nil {
		ctrl.LoggerFrom(ctx).V(4).Info("A preflight check failed", "reason", err.Error())
		return nil, errors.New(cause(err))
	}
	if p.observeLive(fresh); !p.r.Responsible(fresh.check.Object) {
		return nil, errors.New("another instance is responsible for the check now")
	}
	read := &pipeline.Preflight{Facts: fresh.facts(p.now), Checks: make([]remediation.PreflightCheck, len(targets))}
	if fresh.check.Place == requests.InWorkload && len(fresh.nameConflicts) > 0 {
		// Requests are not watched there.
		p.snapshot.requeueAt(p.clock().Add(remediation.RetryTime))
	}
	control := p.controlPlaneAgain(ctx, fresh, targets)
	for n, i := range targets {
		read.Checks[n] = p.preflightCheck(fresh, i)
		others := slices.DeleteFunc(slices.Clone(control.Busy), func(name string) bool { return name == fresh.targets[i].name() })
		read.Checks[n].ControlPlane = remediation.ControlPlane{Busy: others, Lease: control.Lease, Etcd: control.Etcd}
		if now := fresh.targets[i].Object; now != p.snapshot.targets[i].Object {
			// The write is made against what the preflight check has read.
			p.objects[now.GetName()] = now
		}
	}
	return read, nil
}

// NodeLeases reads live when the kubelets of Nodes renewed their Leases last.
func (p *scope) NodeLeases(ctx context.Context, nodes []string) []pipeline.NodeLease {
	leases := make([]pipeline.NodeLease, len(nodes))
	for i, lease := range p.cluster().Live().NodeLeases(ctx, nodes) {
		leases[i].Renewed = lease.Renewed
		if lease.Err != nil {
			leases[i].Err = errors.New(cause(lease.Err))
		}
	}
	return leases
}

// preflightCheck returns what was read live of one target besides its facts.
func (p *scope) preflightCheck(fresh *snapshot, i int) remediation.PreflightCheck {
	t := fresh.targets[i]
	if slices.Contains(fresh.lost, i) {
		return remediation.PreflightCheck{Failed: true}
	}
	p.pausedNow[t.name()] = annotations.HasPaused(t.Object)
	check := remediation.PreflightCheck{Paused: fresh.paused() || p.pausedNow[t.name()]}
	if why, is := fresh.unreadable[i]; is {
		check.Failed, check.Cause = true, why
		return check
	}
	check.Changed, check.Cause = p.changed(fresh), cause(t.Reading.Err)
	if why, is := fresh.unsure[i]; is {
		check.RequestsUnread, check.Cause = true, why
	}
	return check
}

// changed reports whether the check has changed since the plan, or its Cluster is being deleted now.
func (p *scope) changed(fresh *snapshot) bool {
	planned, now := p.check.Object, fresh.check.Object
	// Nothing is started without the finalizer, which keeps the check until everything is cleaned up.
	return changed(p.snapshot.check, fresh.check) || finalized(planned) != finalized(now) ||
		notes.Storm(now.GetAnnotations()) != notes.Storm(planned.GetAnnotations()) || fresh.clusterState() != p.snapshot.clusterState()
}

// readAgain reads the check, its Cluster and some of its targets, or all, live. The others stay as they were.
func (p *scope) readAgain(ctx context.Context, targets []int, all bool) (*snapshot, error) {
	if p.snapshot.requestsUnread != nil {
		return nil, p.snapshot.requestsUnread
	}
	fresh := *p.snapshot
	fresh.unreadable, fresh.unsure = map[int]string{}, map[int]string{}
	var check *Check
	var cluster *clusterv1.Cluster
	var unread error
	var reads sync.WaitGroup
	// The targets are read at the same time, by the selector of the plan: after a change of the check, nothing is done.
	reads.Go(func() { check, cluster, unread = p.find(ctx) })
	err := p.readDetailsAgain(ctx, &fresh, targets, all)
	if reads.Wait(); unread != nil {
		return nil, unread
	}
	fresh.check, fresh.cluster, fresh.connection = check, cluster, p.cluster().Connection(ctx)
	return &fresh, err
}

// readDetailsAgain reads the targets, their requests and their Nodes or Leases.
func (p *scope) readDetailsAgain(ctx context.Context, fresh *snapshot, targets []int, all bool) error {
	everything := all || p.needsAll(targets)
	if err := p.readTargetsAgain(ctx, fresh, targets, everything); err != nil {
		return err
	}
	p.readRequestsAgain(ctx, fresh, targets, everything)
	if fresh.check.ofNodes() {
		p.readNodeLeasesAgain(ctx, fresh, targets)
	} else {
		p.readNodesAgain(ctx, fresh, targets, all)
	}
	p.readOtherClaimsAgain(ctx, fresh, targets)
	return nil
}

// readOtherClaimsAgain reads the claims of another project live if one of the targets has no request: its operator may remediate what would
// be started.
func (p *scope) readOtherClaimsAgain(ctx context.Context, fresh *snapshot, targets []int) {
	starts := func(i int) bool { return fresh.requestFor(fresh.targets[i]) == nil }
	if p.r.Others == nil || fresh.nodesUnread != nil || !slices.ContainsFunc(targets, starts) {
		return
	}
	unread := p.addOtherClaims(ctx, fresh, p.clock(), true)
	p.snapshot.requeueAt(fresh.requeueTime)
	for _, i := range targets {
		if unread != "" && fresh.unsure[i] == "" {
			fresh.unsure[i] = unread
		}
	}
}

// needsAll reports whether a preflight check of these targets has to read all targets and requests: with maxInFlight, the remediations of
// others count, and for a control plane, all its members do.
func (p *scope) needsAll(targets []int) bool {
	return p.snapshot.check.Policy.MaxInFlight != nil || p.anyOfControlPlane(targets)
}

func (p *scope) anyOfControlPlane(targets []int) bool {
	return slices.ContainsFunc(targets, func(i int) bool { return p.snapshot.targets[i].ControlPlane })
}

// readTargetsAgain reads those targets, or all.
func (p *scope) readTargetsAgain(ctx context.Context, fresh *snapshot, targets []int, all bool) error {
	fresh.targets = slices.Clone(p.snapshot.targets)
	if all {
		return p.readAllAgain(ctx, fresh)
	}
	for _, i := range targets {
		before := p.snapshot.targets[i]
		t, selected, err := p.r.Source.Get(ctx, p.r.Live, fresh.check, before.name())
		switch {
		case err != nil && p.stillUnread(err):
		case err != nil && ctx.Err() != nil:
			return errors.Wrap(err, "failed to read a target live")
		case err != nil:
			// The error concerns this target only.
			ctrl.LoggerFrom(ctx).V(4).Info("A target could not be read live", "target", before.name(), "reason", err.Error())
			fresh.unreadable[i] = cause(err)
		case t != nil && t.uid() == before.uid() && t.Subject.Machine == before.Subject.Machine && selected:
			if !fresh.check.ofNodes() {
				t.Reading = before.Reading
			}
			fresh.targets[i] = t
		default:
			fresh.lost = append(fresh.lost, i)
		}
	}
	return nil
}

// stillUnread reports whether the Nodes that are the targets cannot be read, as when the decisions were made: a request can be withdrawn
// without them, and none is created.
func (p *scope) stillUnread(err error) bool {
	var unread *workload.ReadError
	return p.snapshot.nodesUnread != nil && errors.As(err, &unread)
}

func (p *scope) readAllAgain(ctx context.Context, fresh *snapshot) error {
	targets, others, err := p.r.Source.Targets(ctx, p.r.Live, fresh.check, true)
	if err != nil && p.stillUnread(err) {
		return nil
	}
	if err != nil {
		return err
	}
	fresh.others = others
	found, known := make(map[types.UID]*Target, len(targets)), make(map[types.UID]bool, len(p.snapshot.targets))
	for _, t := range p.snapshot.targets {
		known[t.uid()] = true
	}
	for _, t := range targets {
		// The next reconcile judges a new target. But it counts already, for instance as a member of the control plane.
		if found[t.uid()] = t; !known[t.uid()] {
			fresh.others = append(fresh.others, t)
		}
	}
	for i, t := range p.snapshot.targets {
		if now := found[t.uid()]; now != nil && now.Subject.Machine == t.Subject.Machine {
			if !fresh.check.ofNodes() {
				now.Reading = t.Reading
			}
			fresh.targets[i] = now
		} else {
			fresh.lost = append(fresh.lost, i)
		}
	}
	return nil
}

// readNodesAgain reads the Nodes of those targets, or of all, from the workload cluster.
func (p *scope) readNodesAgain(ctx context.Context, fresh *snapshot, targets []int, all bool) {
	if all {
		targets = make([]int, len(fresh.targets))
		for i := range targets {
			targets[i] = i
		}
	}
	asked := make([]*Target, 0, len(targets))
	for _, i := range targets {
		asked = append(asked, fresh.targets[i])
	}
	for n, reading := range p.cluster().Live().Read(ctx, fresh.readRequest(asked)) {
		t := *fresh.targets[targets[n]]
		t.Reading = reading
		fresh.targets[targets[n]] = &t
	}
}

// cluster is where the Nodes are.
func (p *scope) cluster() workload.Cluster { return p.r.Clusters.Get(p.snapshot.check.Cluster) }
