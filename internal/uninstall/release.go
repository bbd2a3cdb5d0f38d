// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
)

// Release releases one MachineHealthCheck of Cluster API, or those of a namespace. A running manager releases them itself, so it cannot be
// interrupted while it acts, and does not adopt them again.
func (u *Uninstaller) Release(ctx context.Context, namespace, name string) error {
	u.releasing = true
	checks, err := u.checks(ctx, namespace, name)
	if err != nil {
		return err
	}
	running, adoptsAll := u.managerState(ctx)
	warned := map[types.UID]bool{}
	var all []*release
	for i := range checks {
		r := &release{check: &checks[i]}
		if err := u.prepare(ctx, r, running, adoptsAll, warned); err != nil {
			u.leave("MachineHealthCheck %s/%s: %s", r.check.Namespace, r.check.Name, err)
			continue
		}
		all = append(all, r)
	}
	if running && !u.DryRun {
		u.awaitManager(ctx, all)
	}
	for _, r := range all {
		if err := u.complete(ctx, r); err != nil {
			u.leave("MachineHealthCheck %s/%s: %s", r.check.Namespace, r.check.Name, err)
		}
	}
	return u.finish(ctx, u.cleanReleased(ctx, namespace, all))
}

// checks reads the checks to release. An empty name means all of the namespace.
func (u *Uninstaller) checks(ctx context.Context, namespace, name string) ([]clusterv1.MachineHealthCheck, error) {
	var err error
	list := &clusterv1.MachineHealthCheckList{}
	if name == "" {
		err = u.Management.client.List(ctx, list, client.InNamespace(namespace))
	} else {
		list.Items = make([]clusterv1.MachineHealthCheck, 1)
		err = u.Management.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &list.Items[0])
	}
	switch {
	case meta.IsNoMatchError(err):
		return nil, errors.Errorf("the cluster does not serve MachineHealthChecks of %s: select the management cluster with --context or "+
			"--kubeconfig, or run kubectl remedy uninstall if Cluster API is uninstalled", clusterv1.GroupVersion)
	case apierrors.IsNotFound(err):
		return nil, errors.Errorf("MachineHealthCheck %s/%s of Cluster API not found: see kubectl get machinehealthchecks.cluster.x-k8s.io -n %s",
			namespace, name, namespace)
	}
	return list.Items, errors.Wrap(err, "failed to read MachineHealthChecks")
}

// release is the release of one check.
type release struct {
	check *clusterv1.MachineHealthCheck
	// optOut is true if the Cluster or a manager adopts all checks, so the check needs the annotation that excludes it.
	optOut bool
	// paused is true if another pause keeps the manager from releasing the check.
	paused bool
	// done is true if the manager has released the check.
	done bool
}

// prepare excludes a check from adoption if it would be adopted again, or if a manager has to release it first.
func (u *Uninstaller) prepare(ctx context.Context, r *release, running, adoptsAll bool, warned map[types.UID]bool) error {
	cluster := &clusterv1.Cluster{}
	err := u.Management.client.Get(ctx, client.ObjectKey{Namespace: r.check.Namespace, Name: r.check.Spec.ClusterName}, cluster)
	if client.IgnoreNotFound(err) != nil {
		return errors.Wrapf(err, "failed to read Cluster %s/%s", r.check.Namespace, r.check.Spec.ClusterName)
	}
	u.warn(warned, "MachineHealthCheck", r.check)
	u.warn(warned, "Cluster", cluster)
	pause, paused := r.check.Annotations[clusterv1.PausedAnnotation]
	r.paused = paused && pause != remedyv1.Pause || ptr.Deref(cluster.Spec.Paused, false)
	_, generated := r.check.Labels[clusterv1.ClusterTopologyOwnedLabel]
	r.optOut = adoptsAll || generated && cluster.Annotations[remedyv1.AdoptAnnotation] == "true"
	value := r.check.Annotations[remedyv1.AdoptAnnotation]
	if value == "false" || !r.optOut && (!running || value == "") {
		return nil
	}
	if !u.DryRun {
		before := r.check.DeepCopy()
		metav1.SetMetaDataAnnotation(&r.check.ObjectMeta, remedyv1.AdoptAnnotation, "false")
		if err := u.Management.client.Patch(ctx, r.check, client.MergeFrom(before)); err != nil {
			return errors.Wrap(err, "failed to set the annotation "+remedyv1.AdoptAnnotation+"=false")
		}
	}
	if r.optOut {
		u.changed(u.Management, "MachineHealthCheck", r.check,
			"annotated with "+remedyv1.AdoptAnnotation+"=false because its Cluster or the manager may adopt all checks")
	}
	return nil
}

// adopted returns true if a check still has more of Remedy than the annotations that users set.
func (r *release) adopted() bool {
	o := newCheckObject(r.check)
	o.limit([]string{remedyv1.AdoptAnnotation, remedyv1.RequestPluralsAnnotation}, nil)
	return !o.empty() || hasConditions(r.check)
}

// warn prints once that the value of the annotation for adoption has no effect.
func (u *Uninstaller) warn(warned map[types.UID]bool, kind string, o client.Object) {
	value, found := o.GetAnnotations()[remedyv1.AdoptAnnotation]
	if !found || value == "true" || value == "false" || warned[o.GetUID()] {
		return
	}
	warned[o.GetUID()] = true
	_, _ = fmt.Fprintf(u.Out, "%s %s/%s: annotation %s=%q has no effect: set \"true\" or \"false\", or remove it\n",
		kind, o.GetNamespace(), o.GetName(), remedyv1.AdoptAnnotation, value)
}

// awaitManager waits until the manager has released the checks. After the timeout they are released without it: the manager starts nothing
// after it has read the annotation.
func (u *Uninstaller) awaitManager(ctx context.Context, all []*release) {
	_ = wait.PollUntilContextTimeout(ctx, u.Poll, u.Timeouts.Release, true, func(context.Context) (bool, error) {
		done := true
		for _, r := range all {
			if r.paused || !r.adopted() {
				continue
			}
			err := u.Management.client.Get(ctx, client.ObjectKeyFromObject(r.check), r.check)
			r.done = err == nil && !r.adopted()
			done = done && (r.done || apierrors.IsNotFound(err))
		}
		return done, nil
	})
	for _, r := range all {
		if r.done {
			u.changed(u.Management, "MachineHealthCheck", r.check, "released by the manager")
		}
	}
}

// complete removes from a check what the manager has not removed.
func (u *Uninstaller) complete(ctx context.Context, r *release) error {
	o := newCheckObject(r.check)
	if r.optOut {
		o.limit([]string{remedyv1.AdoptAnnotation}, nil)
	}
	if o.empty() && !hasConditions(r.check) {
		return nil
	}
	if err := u.clean(ctx, u.Management, &o); err != nil {
		return err
	}
	change := u.outcome(&o)
	if !r.done {
		change = "released, " + change
	}
	u.changed(u.Management, o.kind, &o, change)
	return nil
}

// cleanReleased removes the traces of released checks from Machines and requests. The checks come first: until then the manager needs these
// traces.
func (u *Uninstaller) cleanReleased(ctx context.Context, namespace string, released []*release) error {
	found, failed, err := u.Management.find(ctx, namespace)
	if err != nil {
		return err
	}
	u.leaveUnread(failed)
	s := u.newSelection(ctx, namespace, released)
	var objects []object
	for i := range found {
		if s.narrow(&found[i]) {
			objects = append(objects, found[i])
		}
	}
	if s.keptHistory {
		u.leave("the remediation history stays on Machines because another check may need it: %s", s.err)
	}
	return u.cleanObjects(ctx, u.Management, objects)
}

// leaveUnread reports kinds that could not be listed. Kinds that the caller may not list are no failure where no check leaves traces.
func (u *Uninstaller) leaveUnread(failed []unread) {
	var skipped []string
	for i := range failed {
		if failed[i].harmless() {
			skipped = append(skipped, failed[i].name)
		} else {
			u.leave("%s: %s", failed[i].name, failed[i].err)
		}
	}
	slices.Sort(skipped)
	if len(skipped) > 0 {
		_, _ = fmt.Fprintln(u.Out, "skipped, because you are not allowed to list them and checks write nothing to them: "+
			strings.Join(skipped, ", "))
	}
}

// selection selects the traces that a release of checks removes from Machines and requests.
type selection struct {
	// names are those of the released checks.
	names map[string]bool
	// released and remaining select the Machines that the released checks and Remedy's other checks monitor.
	released, remaining []func(machine *object) bool
	// err is why the remaining checks could not be read. keptHistory is true if a Machine has kept its remediation history because of it.
	err         error
	keptHistory bool
}

func (u *Uninstaller) newSelection(ctx context.Context, namespace string, released []*release) *selection {
	s := &selection{names: map[string]bool{}}
	for _, r := range released {
		s.names[r.check.Name] = true
		s.released = append(s.released, selectorOf(r.check))
	}
	inTree, own := &clusterv1.MachineHealthCheckList{}, &remedyv1.MachineHealthCheckList{}
	for _, list := range []client.ObjectList{inTree, own} {
		// The CRD of Remedy's own kind may be deleted.
		if err := u.Management.client.List(ctx, list, client.InNamespace(namespace)); err != nil && !meta.IsNoMatchError(err) {
			s.err = errors.Wrap(err, "failed to list the other checks")
			return s
		}
	}
	for i := range inTree.Items {
		check := &inTree.Items[i]
		adopted := check.Annotations[clusterv1.PausedAnnotation] == remedyv1.Pause ||
			meta.IsStatusConditionTrue(check.Status.Conditions, remedyv1.AdoptedCondition)
		if adopted && !s.names[check.Name] {
			s.remaining = append(s.remaining, selectorOf(check))
		}
	}
	for i := range own.Items {
		selector, err := own.Items[i].Spec.Selector.Labels()
		s.remaining = append(s.remaining, selects(own.Items[i].Spec.ClusterName, selector, err))
	}
	return s
}

func selectorOf(check *clusterv1.MachineHealthCheck) func(*object) bool {
	selector, err := metav1.LabelSelectorAsSelector(&check.Spec.Selector)
	return selects(check.Spec.ClusterName, selector, err)
}

// selects returns a function that selects the Machines of a Cluster with a selector. As in the controllers, an invalid selector selects
// nothing.
func selects(cluster string, selector labels.Selector, err error) func(*object) bool {
	return func(machine *object) bool {
		return err == nil && machine.Labels[clusterv1.ClusterNameLabel] == cluster && selector.Matches(labels.Set(machine.Labels))
	}
}

// history are the annotations with the remediation history of a Machine, which all checks that monitor the Machine share.
var history = slices.Sorted(maps.Keys(notes.WithoutHistory()))

// narrow limits the traces of an object to those that the release removes, and returns false if it removes none. What a released check has
// created or annotated is removed; the history of a Machine that it monitors is removed unless another check of Remedy monitors the
// Machine, too.
func (s *selection) narrow(o *object) bool {
	byReleased := s.names[checkOf(o)]
	if !o.is(clusterv1.GroupVersion.Group, "Machine") {
		return byReleased
	}
	selectsMachine := func(selects func(*object) bool) bool { return selects(o) }
	switch {
	case !byReleased && !slices.ContainsFunc(s.released, selectsMachine):
		return false
	case s.err != nil || slices.ContainsFunc(s.remaining, selectsMachine):
		before := len(o.annotations)
		o.limit(history, nil)
		s.keptHistory = s.keptHistory || s.err != nil && len(o.annotations) < before
		return byReleased && !o.empty()
	case !byReleased:
		o.limit(nil, history)
	}
	return !o.empty()
}

// checkOf returns the name of the check of Cluster API that created a request or requested the remediation of a Machine by its owner; empty
// if none did.
func checkOf(o *object) string {
	core := string(metrics.InTreeMachineHealthCheck)
	check, found := requests.ParseCheck(o.Annotations[remedyv1.CheckAnnotation])
	if found && check.Kind == core && check.Namespace == o.Namespace {
		return check.Name
	}
	if name, found := strings.CutPrefix(notes.ResponsibleCheck(o.Annotations), core+"/"); found {
		return name
	}
	return ""
}
