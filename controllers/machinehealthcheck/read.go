// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// read sees a check and everything around it, from caches. Nothing that it returns may be changed.
func (v *visit) read(ctx context.Context, cluster *clusterv1.Cluster) (*seen, error) {
	r, check := v.r, v.check
	s := &seen{check: check, cluster: cluster, observe: r.Observe, naming: requests.NewNaming(references(check)...)}
	if err := s.readMachines(ctx, r.Cache); err != nil {
		return nil, err
	}
	workloads := r.Clusters.At(client.ObjectKey{Namespace: check.Namespace, Name: check.Spec.ClusterName})
	s.connection = workloads.Connection(ctx)
	s.readings = workloads.Read(ctx, s.question(s.machines))
	s.pending = s.connecting()
	s.thaws = v.record.observePauses(s.machines, v.now)
	s.absences = v.record.nodeGoneSince
	for _, more := range []func(context.Context, *seen) error{v.readRivals, v.readRequests, v.readOwners} {
		if err := more(ctx, s); err != nil {
			return nil, err
		}
	}
	if until := v.record.awaitFirstRead(s.pending, v.now); !until.IsZero() {
		s.again = until
		return s, errNotReadYet
	}
	return s, nil
}

// readMachines finds the Machines of the Cluster, those that the check selects first.
func (s *seen) readMachines(ctx context.Context, reader client.Reader, options ...client.ListOption) error {
	selector, err := s.check.Spec.Selector.Labels()
	if err != nil {
		return errors.Wrap(err, "the selector makes no sense")
	}
	if len(options) == 0 {
		options = []client.ListOption{client.MatchingFields{byCluster: s.check.Spec.ClusterName}, client.UnsafeDisableDeepCopy}
	}
	machines := &clusterv1.MachineList{}
	if err := reader.List(ctx, machines, append(options, client.InNamespace(s.check.Namespace))...); err != nil {
		return errors.Wrap(err, "failed to read the Machines")
	}
	s.machines, s.unselected = nil, nil
	for i := range machines.Items {
		m := &machines.Items[i]
		switch {
		case m.Spec.ClusterName != s.check.Spec.ClusterName:
		case selector.Matches(labels.Set(m.Labels)):
			s.machines = append(s.machines, m)
		default:
			s.unselected = append(s.unselected, m)
		}
	}
	byName := func(a, b *clusterv1.Machine) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortFunc(s.machines, byName)
	slices.SortFunc(s.unselected, byName)
	return nil
}

// question asks for the Nodes of Machines.
func (s *seen) question(machines []*clusterv1.Machine) workload.Question {
	q := workload.Question{Initialized: s.initialized(), Targets: make([]workload.Target, len(machines)), Known: s.known}
	for i, m := range machines {
		q.Targets[i] = question(m)
	}
	return q
}

// known goes through the Nodes of all Machines of the Cluster.
func (s *seen) known(yield func(workload.Target) bool) {
	for _, machines := range [][]*clusterv1.Machine{s.machines, s.unselected} {
		for _, m := range machines {
			if !yield(question(m)) {
				return
			}
		}
	}
}

// readRivals finds the other checks of the Cluster.
func (v *visit) readRivals(ctx context.Context, s *seen) error {
	in := []client.ListOption{client.InNamespace(s.check.Namespace), client.MatchingFields{byCluster: s.check.Spec.ClusterName}, client.UnsafeDisableDeepCopy}
	ours, cores, nodes := &remedyv1.MachineHealthCheckList{}, &clusterv1.MachineHealthCheckList{}, &remedyv1.NodeHealthCheckList{}
	for list, options := range map[client.ObjectList][]client.ListOption{ours: in, cores: in, nodes: {client.UnsafeDisableDeepCopy}} {
		if err := v.r.Cache.List(ctx, list, options...); err != nil {
			return errors.Wrap(err, "failed to read the other checks")
		}
	}
	for i := range ours.Items {
		if other := &ours.Items[i]; other.UID != s.check.UID {
			s.rivals = append(s.rivals, sibling(other, s.observe))
		}
	}
	s.rivals = append(s.rivals, v.rivalsAmong(s, cores)...)
	for i := range nodes.Items {
		if other := &nodes.Items[i]; other.Spec.ClusterRef != nil && *other.Spec.ClusterRef == (remedyv1.ClusterReference{Namespace: s.check.Namespace, Name: s.check.Spec.ClusterName}) {
			s.rivals = append(s.rivals, nodeCheck(other, s.observe))
		}
	}
	return nil
}

// readRequests finds the requests of this check, and out of which templates it can make more.
func (v *visit) readRequests(ctx context.Context, s *seen) error {
	asked := references(s.check)
	s.unresolved = map[requests.Reference]bool{}
	resolved := v.r.Requests.Resolve(ctx, identity(s.check), requests.PluralsOf(s.check.Annotations), asked...)
	for i := range resolved {
		one := &resolved[i]
		s.unresolved[one.Reference] = !one.Usable()
		if one.Trouble != nil {
			s.templates = append(s.templates, *one.Trouble)
		}
		s.askAgain(one.Again)
		var known *requests.NotKnownError
		if one.Err != nil && !errors.As(one.Err, &known) {
			s.askAgain(v.now.Add(remediation.RetryTime))
		}
	}
	if err := v.readOwn(ctx, s, resolved); err != nil {
		return err
	}
	s.readNames(v.r.Requests)
	return nil
}

// readNames finds out what bears the names of requests that could be made, and which other checks have requests for the same Machines.
func (s *seen) readNames(all *requests.Requests) {
	s.taken, s.elsewhere, s.adoptable = map[string]string{}, map[types.UID][]requests.Check{}, map[types.UID]*requests.Found{}
	mine := identity(s.check)
	asks, next := len(references(s.check)) > 0, s.nextKinds()
	for _, m := range s.machines {
		if asks && s.requestFor(m) == nil {
			if found, known := all.Named(next(m), client.ObjectKeyFromObject(m)); known && found != nil && !s.owns(found, m) {
				s.taken[m.Name] = found.String()
				if kindOf(s.check) == coreKind && found.Adoptable(asTarget(m).Machine, references(s.check)[0]) {
					s.adoptable[m.UID] = found
				}
			}
		}
		if len(s.rivals) == 0 {
			continue
		}
		for _, found := range all.About(asTarget(m)) {
			if !found.Of(mine) {
				s.elsewhere[m.UID] = append(s.elsewhere[m.UID], found.Check)
			}
		}
	}
}

// askAgain notes that it is worth asking again then.
func (s *seen) askAgain(at time.Time) {
	if s.again.IsZero() || !at.IsZero() && at.Before(s.again) {
		s.again = at
	}
}

// readOwners asks how far the owners of Machines that are gone have come. There are none nearly always.
func (v *visit) readOwners(ctx context.Context, s *seen) error {
	asked := map[string]bool{}
	for _, gone := range notes.Replacing(s.check.Annotations) {
		kind, name, _ := strings.Cut(gone.Owner, "/")
		if asked[gone.Owner] || kind != "MachineSet" {
			continue
		}
		asked[gone.Owner] = true
		owner := &clusterv1.MachineSet{}
		err := v.r.Live.Get(ctx, client.ObjectKey{Namespace: s.check.Namespace, Name: name}, owner)
		if apierrors.IsNotFound(err) {
			// It replaces nothing any more.
			s.owners = append(s.owners, remediation.Owner{Name: gone.Owner})
			continue
		}
		if err != nil {
			return errors.Wrap(err, "failed to read the owner of a Machine")
		}
		desired := 1
		if owner.Spec.Replicas != nil {
			desired = int(*owner.Spec.Replicas)
		}
		s.owners = append(s.owners, remediation.Owner{Name: gone.Owner, Desired: desired, WithNode: s.joined(gone.Owner)})
	}
	return nil
}

// joined is how many Machines of an owner have a Node, and are here to stay.
func (s *seen) joined(owner string) int {
	n := 0
	for _, machines := range [][]*clusterv1.Machine{s.machines, s.unselected} {
		for _, m := range machines {
			if remediatingOwner(m) == owner && m.Status.NodeRef.Name != "" && m.DeletionTimestamp.IsZero() {
				n++
			}
		}
	}
	return n
}
