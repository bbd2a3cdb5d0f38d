// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// written remembers the status that this process has seen or written last of each check. The cache may be behind that, and who compares with what is in
// the cache would then take an untrue status for a true one. Nobody would look again, as a change of status wakes nobody.
type written struct {
	mu     sync.Mutex
	checks map[types.NamespacedName]lastWrite
}

type lastWrite struct {
	uid types.UID
	// version is that of the check after the write; empty if nobody knows whether the write has happened.
	version string
	// status is what was written; nil if the cache has it by now.
	status *remedyv1.MachineHealthCheckStatus
}

// done notes how the API server has answered a write.
func (w *written) done(after *remedyv1.MachineHealthCheck) {
	w.note(after, lastWrite{after.UID, after.ResourceVersion, after.Status.DeepCopy()})
}

// doubtful notes a write that has failed: it may have happened all the same.
func (w *written) doubtful(check *remedyv1.MachineHealthCheck) {
	w.note(check, lastWrite{uid: check.UID})
}

func (w *written) note(check *remedyv1.MachineHealthCheck, last lastWrite) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.checks == nil {
		w.checks = map[types.NamespacedName]lastWrite{}
	}
	w.checks[client.ObjectKeyFromObject(check)] = last
}

// on puts the status that was written last on a check as the cache has it, if the cache is behind. False means that nobody knows what it is: another
// process may have written it just before this one began, or somebody else has written about a check that the cache does not have yet.
func (w *written) on(check *remedyv1.MachineHealthCheck) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := client.ObjectKeyFromObject(check)
	last, found := w.checks[name]
	switch {
	case !found, last.uid != check.UID, last.version == "", last.status != nil && check.Generation < last.status.ObservedGeneration:
		return false
	}
	if order, err := resourceversion.CompareResourceVersion(check.ResourceVersion, last.version); err != nil || order >= 0 {
		last.status = nil
		w.checks[name] = last
		return true
	}
	if last.status == nil {
		return false
	}
	last.status.DeepCopyInto(&check.Status)
	return true
}

func (w *written) forget(check types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.checks, check)
}

// upToDate is a check as the cache has it, with the status that we have written last, and its Cluster; or both as they are, where nobody knows that.
func (r *Reconciler) upToDate(ctx context.Context, check *remedyv1.MachineHealthCheck, cluster *clusterv1.Cluster) (*remedyv1.MachineHealthCheck, *clusterv1.Cluster, error) {
	if r.written.on(check) {
		return check, cluster, nil
	}
	live, at, err := r.Checks.find(ctx, r.Live, client.ObjectKeyFromObject(check))
	if err != nil {
		return nil, nil, err
	}
	r.written.done(live)
	return live, at, nil
}

// tellStatus writes the status of a check, if anything in it has changed.
func (v *visit) tellStatus(ctx context.Context, status remedyv1.MachineHealthCheckStatus) error {
	status = v.r.Checks.carries(&v.check.Status, &status)
	if equality.Semantic.DeepEqual(v.check.Status, status) {
		return nil
	}
	after := v.check.DeepCopy()
	after.Status = status
	err := v.r.Checks.writeStatus(ctx, v.r.Client, v.check, after)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		v.r.written.doubtful(v.check)
		return err
	}
	v.r.written.done(after)
	v.tellConditions(ctx, v.check.Status.Conditions, after.Status.Conditions)
	v.check = after
	return nil
}
