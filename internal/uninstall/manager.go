// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"slices"
	"strings"

	"github.com/pkg/errors"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/settings"
)

// checksManager is the label of the managers of checks.
const checksManager = "remedy-controller-manager"

// managers returns the Deployments of managers with a label in all namespaces, however they were installed.
func (u *Uninstaller) managers(ctx context.Context, label string) ([]appsv1.Deployment, error) {
	list := &appsv1.DeploymentList{}
	err := u.Management.client.List(ctx, list, client.MatchingLabels{"control-plane": label})
	return list.Items, errors.Wrap(err, "failed to list the Deployments of managers")
}

func scaledUp(manager appsv1.Deployment) bool { return ptr.Deref(manager.Spec.Replicas, 1) > 0 }

// stopManagers scales the managers with a label to zero and waits until none of them can write. Without the permission for that, nothing is
// removed, because a running manager would undo it.
func (u *Uninstaller) stopManagers(ctx context.Context, label, lease string) error {
	managers, err := u.managers(ctx, label)
	if err != nil {
		return errors.WithMessage(err, "nothing was changed")
	}
	for i := range managers {
		manager := &managers[i]
		u.exclusive = u.exclusive || slices.Contains(inTreeSelections(manager), settings.Replace)
		running := scaledUp(*manager)
		if running && !u.DryRun {
			before := manager.DeepCopy()
			manager.Spec.Replicas = ptr.To[int32](0)
			if err := u.Management.client.Patch(ctx, manager, client.MergeFrom(before)); err != nil {
				return errors.Wrapf(err, "nothing was changed: failed to scale Deployment %s/%s to 0", manager.Namespace, manager.Name)
			}
		}
		if running {
			u.changed(u.Management, "Deployment", manager, "scaled to 0")
		}
		if !u.DryRun {
			if err := u.awaitPods(ctx, manager); err != nil {
				return err
			}
		}
	}
	return u.endLeaderElection(ctx, lease)
}

// awaitPods waits until no Pod of a manager runs. A Pod that has failed, for instance by an eviction, stays until it is deleted.
func (u *Uninstaller) awaitPods(ctx context.Context, manager *appsv1.Deployment) error {
	selector, err := metav1.LabelSelectorAsSelector(manager.Spec.Selector)
	if err != nil {
		return errors.WithStack(err)
	}
	running := 0
	err = wait.PollUntilContextTimeout(ctx, u.Poll, u.Stop, true, func(context.Context) (bool, error) {
		pods := &corev1.PodList{}
		err := u.Management.client.List(ctx, pods, client.InNamespace(manager.Namespace), client.MatchingLabelsSelector{Selector: selector})
		if err != nil {
			return false, err
		}
		running = len(slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool {
			return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		}))
		return running == 0, nil
	})
	if wait.Interrupted(err) && running > 0 {
		return errors.Errorf("Deployment %s/%s still has %s: find out why Pods do not terminate, and run the command again",
			manager.Namespace, manager.Name, plural(running, "Pod"))
	}
	return errors.Wrapf(err, "failed to list the Pods of Deployment %s/%s", manager.Namespace, manager.Name)
}

// findRestartedManagers reports managers that were scaled up during the uninstall.
func (u *Uninstaller) findRestartedManagers(ctx context.Context) error {
	managers, err := u.managers(ctx, checksManager)
	if err != nil || u.DryRun {
		return err
	}
	ofFencing, err := u.managers(ctx, fencingManager)
	if err != nil {
		return err
	}
	managers = append(managers, ofFencing...)
	for _, manager := range slices.DeleteFunc(managers, func(d appsv1.Deployment) bool { return !scaledUp(d) }) {
		u.leave("Deployment %s/%s was scaled up again and may have written annotations and conditions again: keep it at 0 "+
			"replicas where it is managed, for instance in a GitOps repository, or uninstall it", manager.Namespace, manager.Name)
	}
	return nil
}

// managerState returns whether a manager is running, and whether its flag adopts checks without an annotation. Without the permission to
// list managers, both are assumed.
func (u *Uninstaller) managerState(ctx context.Context) (running, adoptsAll bool) {
	managers, err := u.managers(ctx, checksManager)
	for i := range managers {
		adoptsAll = adoptsAll || slices.ContainsFunc(inTreeSelections(&managers[i]), func(value settings.InTreeChecks) bool {
			// The value can be a variable that is only known in the Pod.
			return value != settings.Ignore && value != settings.OptIn
		})
	}
	return err != nil || slices.ContainsFunc(managers, scaledUp), err != nil || adoptsAll
}

// inTreeSelections returns the value of --in-tree-machinehealthchecks in each container that sets it. As in the manager, an underscore
// counts as a dash, and the last value counts. A single dash counts, too: such a manager does not start until its flag is fixed.
func inTreeSelections(manager *appsv1.Deployment) (values []settings.InTreeChecks) {
	for i := range manager.Spec.Template.Spec.Containers {
		container := &manager.Spec.Template.Spec.Containers[i]
		args, last := slices.Concat(container.Command, container.Args), ""
		for i, arg := range args {
			name, value, inline := strings.Cut(arg, "=")
			flag := strings.ReplaceAll(strings.TrimLeft(name, "-"), "_", "-")
			if !strings.HasPrefix(name, "-") || flag != "in-tree-machinehealthchecks" {
				continue
			}
			if last = value; !inline && i+1 < len(args) {
				last = args[i+1]
			}
		}
		if last != "" {
			values = append(values, settings.InTreeChecks(last))
		}
	}
	return values
}
