// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package noderemedy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
)

// prune deletes the objects of a NodeRemedy that are not kept, and returns what it waits for; empty when they no longer exist. The check
// comes first, because it deletes its requests.
func (r *Reconciler) prune(ctx context.Context, remedy *fencingv1.NodeRemedy, kept map[string]bool) (waits string, _ error) {
	for _, list := range []client.ObjectList{
		&remedyv1.NodeHealthCheckList{}, &fencingv1.NodeFenceTemplateList{}, &fencingv1.FenceProfileList{},
	} {
		ofRemedy := client.MatchingLabels{fencingv1.NodeRemedyLabel: remedy.Name}
		if err := r.Live.List(ctx, list, ofRemedy, client.InNamespace(remedy.Spec.Namespace)); err != nil {
			return "", errors.Wrapf(err, "failed to list the objects of NodeRemedy %s", remedy.Name)
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			return "", errors.WithStack(err)
		}
		for _, item := range items {
			object := item.(client.Object) //nolint:forcetypeassert // Every item of these lists is one.
			if !metav1.IsControlledBy(object, remedy) || kept[nameOf(object)] && object.GetDeletionTimestamp().IsZero() {
				continue
			}
			if waits, err = r.remove(ctx, remedy, object); err != nil || waits != "" {
				return waits, err
			}
		}
	}
	return "", nil
}

// remove deletes an object, and returns what its deletion waits for.
func (r *Reconciler) remove(ctx context.Context, remedy *fencingv1.NodeRemedy, object client.Object) (waits string, _ error) {
	if object.GetDeletionTimestamp().IsZero() {
		if err := r.Client.Delete(ctx, object, client.Preconditions{UID: ptr.To(object.GetUID())}); client.IgnoreNotFound(err) != nil {
			return "", errors.Wrapf(err, "failed to delete %s", nameOf(object))
		}
	}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return "", errors.Wrapf(client.IgnoreNotFound(err), "failed to read %s", nameOf(object))
	}
	if _, isProfile := object.(*fencingv1.FenceProfile); !isProfile {
		return fmt.Sprintf("%s is being deleted, and ends its remediation requests first", nameOf(object)), nil
	}
	fences, err := r.fencesOf(ctx, remedy)
	if err != nil {
		return "", err
	}
	if len(fences) > 0 {
		return fmt.Sprintf("%s is deleted when %s has ended: without it, a machine could stay off", nameOf(object), namesOf(fences)), nil
	}
	before := object.DeepCopyObject().(client.Object) //nolint:forcetypeassert // It is a copy of one.
	controllerutil.RemoveFinalizer(object, fencingv1.NodeRemedyFinalizer)
	err = r.Client.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	return "", errors.Wrapf(client.IgnoreNotFound(err), "failed to remove the finalizer of %s", nameOf(object))
}

// fencesOf returns the NodeFences that have not ended and need the FenceProfile of a NodeRemedy.
func (r *Reconciler) fencesOf(ctx context.Context, remedy *fencingv1.NodeRemedy) ([]fencingv1.NodeFence, error) {
	fences := &fencingv1.NodeFenceList{}
	if err := r.Live.List(ctx, fences, client.InNamespace(remedy.Spec.Namespace)); err != nil {
		return nil, errors.Wrapf(err, "failed to list the NodeFences in namespace %s", remedy.Spec.Namespace)
	}
	return slices.DeleteFunc(fences.Items, func(fence fencingv1.NodeFence) bool {
		uses := fence.Spec.ProfileName == remedy.Name || fence.Status.Node != nil && fence.Status.Node.ProfileName == remedy.Name
		return !uses || fence.Status.Phase == fencingv1.PhaseFinal
	}), nil
}

// keepMethods lets a FenceProfile keep the methods that fences have begun with, and adds to what is waited for.
func (r *Reconciler) keepMethods(
	ctx context.Context, remedy *fencingv1.NodeRemedy, object, found client.Object, waits string,
) (string, error) {
	profile, is := object.(*fencingv1.FenceProfile)
	if !is {
		return waits, nil
	}
	fences, err := r.fencesOf(ctx, remedy)
	for _, method := range found.(*fencingv1.FenceProfile).Spec.Methods { //nolint:forcetypeassert // Both have the same type.
		used := slices.DeleteFunc(slices.Clone(fences), func(fence fencingv1.NodeFence) bool {
			return !slices.Contains(methodsOf(&fence.Spec), method.Name)
		})
		at := slices.IndexFunc(profile.Spec.Methods, func(m fencingv1.FenceMethod) bool { return m.Name == method.Name })
		switch {
		case len(used) == 0 || at >= 0 && equality.Semantic.DeepEqual(profile.Spec.Methods[at].PodTemplate, method.PodTemplate):
			continue
		case at < 0:
			profile.Spec.Methods = append(profile.Spec.Methods, method)
		default:
			profile.Spec.Methods[at].PodTemplate = method.PodTemplate
		}
		waits = fmt.Sprintf("%s keeps method %s until %s has ended", nameOf(profile), method.Name, namesOf(used))
	}
	return waits, err
}

// namesOf names the first NodeFences of a list.
func namesOf(fences []fencingv1.NodeFence) string {
	names := make([]string, 0, len(fences))
	for i := range fences[:min(len(fences), 3)] {
		names = append(names, nameOf(&fences[i]))
	}
	return strings.Join(names, ", ")
}
