// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// tell says on a check that it is not to be taken over, where something else asks for that, or where our manager has to let go of it first.
func (l *Leaver) tell(ctx context.Context, one *returned, manager *manager) error {
	const no = "false"
	says := one.check.Annotations[remedyv1.TakeOverAnnotation]
	if says == no || !one.asked && (!manager.runs || says == "") {
		return nil
	}
	if !l.DryRun {
		before := one.check.DeepCopy()
		if one.check.Annotations == nil {
			one.check.Annotations = map[string]string{}
		}
		one.check.Annotations[remedyv1.TakeOverAnnotation] = no
		if err := l.Management.api.Patch(ctx, one.check, client.MergeFrom(before)); err != nil {
			return errors.Wrap(err, "failed to annotate it")
		}
	}
	if one.asked {
		l.say(l.Management, "MachineHealthCheck", one.check.Namespace, one.check.Name,
			"annotated with "+remedyv1.TakeOverAnnotation+"="+no+", as its Cluster or our manager may ask for all of them")
	}
	return nil
}

// awaitLettingGo waits until our manager has given back what it was told to. What it does not give back, as it does not act for it, or does not act at all,
// is taken off without it: whatever it still begins it begins only after having read that it must not.
func (l *Leaver) awaitLettingGo(ctx context.Context, all []*returned) {
	_ = wait.PollUntilContextTimeout(ctx, l.Look, l.LetGo, true, func(context.Context) (bool, error) {
		done := true
		for _, one := range all {
			if one.frozen || !one.held() {
				continue
			}
			// What cannot be read now is read again.
			if err := l.Management.api.Get(ctx, client.ObjectKeyFromObject(one.check), one.check); err == nil && !one.held() {
				one.back = true
			} else if !apierrors.IsNotFound(err) {
				done = false
			}
		}
		return done, nil
	})
	for _, one := range all {
		if one.back {
			l.say(l.Management, "MachineHealthCheck", one.check.Namespace, one.check.Name, "given back by our manager")
		}
	}
}
