// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"slices"
	"time"

	"github.com/pkg/errors"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ourManager is the label of our manager, by whatever means it was installed.
var ourManager = client.MatchingLabels{"control-plane": "remedy-controller-manager"}

// Patience is how long others are waited for. What is asked meanwhile has a time of its own: if a last answer were cut off at the end, that would be told
// instead of what was waited for.
type Patience struct {
	// Stop is how long managers may take to stop, LetGo how long they may take to give a check back.
	Stop, LetGo time.Duration
	// Look is how often it is looked in between.
	Look time.Duration
}

// Patient is what people have.
var Patient = Patience{Stop: 2 * time.Minute, LetGo: 30 * time.Second, Look: time.Second}

// managers are our own, in whichever namespace they were installed.
func (c *Cluster) managers(ctx context.Context) ([]appsv1.Deployment, error) {
	list := &appsv1.DeploymentList{}
	if err := c.api.List(ctx, list, ourManager); err != nil {
		return nil, errors.Wrap(err, "failed to look for our managers")
	}
	return list.Items, nil
}

func wanted(manager *appsv1.Deployment) bool { return ptr.Deref(manager.Spec.Replicas, 1) > 0 }

// stopManagers scales our managers to zero, and waits until nothing can come from them any more. Whoever may not do that must not clean, either: a manager
// that runs would undo it.
func (l *Leaver) stopManagers(ctx context.Context) error {
	managers, err := l.Management.managers(ctx)
	if err != nil {
		return errors.WithMessage(err, "nothing was done")
	}
	l.alone = slices.ContainsFunc(managers, alone)
	for i := range managers {
		manager := &managers[i]
		if wanted(manager) {
			if err := l.scale(ctx, manager); err != nil {
				return errors.WithMessage(err, "nothing was done")
			}
			l.say(l.Management, "Deployment", manager.Namespace, manager.Name, "scaled to zero")
		}
		if !l.DryRun {
			if err := l.awaitPods(ctx, manager); err != nil {
				return err
			}
		}
	}
	return l.awaitLeads(ctx)
}

func (l *Leaver) scale(ctx context.Context, manager *appsv1.Deployment) error {
	if l.DryRun {
		return nil
	}
	before := manager.DeepCopy()
	manager.Spec.Replicas = ptr.To[int32](0)
	err := l.Management.api.Patch(ctx, manager, client.MergeFrom(before))
	return errors.Wrapf(err, "failed to scale Deployment %s/%s to zero", manager.Namespace, manager.Name)
}

// ended says whether none of a pod's containers runs or will run again. Such a pod is not waited for: one that was evicted stays until somebody deletes it.
func ended(pod corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// awaitPods waits until none of a manager's pods is left that may still do anything.
func (l *Leaver) awaitPods(ctx context.Context, manager *appsv1.Deployment) error {
	selector, err := metav1.LabelSelectorAsSelector(manager.Spec.Selector)
	if err != nil {
		return errors.WithStack(err)
	}
	left := 0
	err = wait.PollUntilContextTimeout(ctx, l.Look, l.Stop, true, func(context.Context) (bool, error) {
		pods := &corev1.PodList{}
		err := l.Management.api.List(ctx, pods, client.InNamespace(manager.Namespace), client.MatchingLabelsSelector{Selector: selector})
		if err != nil {
			return false, err
		}
		left = len(slices.DeleteFunc(pods.Items, ended))
		return left == 0, nil
	})
	if wait.Interrupted(err) && left > 0 {
		return errors.Errorf("%d pods of Deployment %s/%s are still there: see why they do not end, and run this again", left, manager.Namespace, manager.Name)
	}
	return errors.Wrapf(err, "failed to see whether the pods of Deployment %s/%s have ended", manager.Namespace, manager.Name)
}

// stayStopped looks whether somebody has started a manager again: what was cleaned may come back then.
func (l *Leaver) stayStopped(ctx context.Context) error {
	managers, err := l.Management.managers(ctx)
	if err != nil {
		return err
	}
	for i := range managers {
		if wanted(&managers[i]) && !l.DryRun {
			l.miss("Deployment %s/%s was scaled up again meanwhile, so that what was cleaned may come back: let whoever manages it, as a rule a GitOps tool, leave it at zero, or uninstall it",
				managers[i].Namespace, managers[i].Name)
		}
	}
	return nil
}
