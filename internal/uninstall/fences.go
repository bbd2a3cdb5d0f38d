// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/settings"
)

// Names of exp/fencing, which this package cannot import.
const (
	fencingManager        = "remedy-fencing-controller-manager"
	fenceFinalizer        = remedyv1.Prefix + "fence"
	fencingTaint          = remedyv1.Prefix + "fencing"
	cancelFenceAnnotation = remedyv1.Prefix + "cancel"
)

// nodeFences is the kind of the requests of the fencing manager.
var nodeFences = apiResource{resource: remedyv1.GroupVersion.WithResource("nodefences"), kind: requests.NodeFence.Kind}

// endFences lets a running fencing manager end all fences, stops it, and deletes the NodeFences. Until they have ended, nothing is removed,
// because a machine can be off.
func (u *Uninstaller) endFences(ctx context.Context) error {
	fences, err := u.fences(ctx)
	if err != nil {
		return err
	}
	for i := range fences {
		if begun(&fences[i]) {
			u.println("NodeFence " + fenceText(&fences[i]) + " has not ended")
		}
	}
	managers, err := u.managers(ctx, fencingManager)
	if err != nil {
		return err
	}
	if !u.DryRun && slices.ContainsFunc(managers, scaledUp) {
		if err := u.awaitFences(ctx); err != nil {
			return err
		}
	}
	if err := u.stopManagers(ctx, fencingManager, settings.FencingLeaseName); err != nil {
		return err
	}
	if fences, err = u.fences(ctx); err != nil {
		return err
	}
	for i := range fences {
		if added, _, _ := unstructured.NestedBool(fences[i].Object, "status", "release", "outOfServiceTaint"); added {
			u.outOfService = append(u.outOfService, string(fences[i].GetUID()))
		}
		if err := u.deleteFence(ctx, &fences[i]); err != nil {
			u.leave("%s: %s", u.Management.name, err)
		}
	}
	return ctx.Err()
}

// fences returns all NodeFences; none if they are not served.
func (u *Uninstaller) fences(ctx context.Context) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(remedyv1.GroupVersion.WithKind(nodeFences.kind + "List"))
	err := u.Management.client.List(ctx, list)
	if notServed(err) {
		return nil, nil
	}
	return list.Items, errors.Wrap(err, "failed to list NodeFences")
}

// awaitFences cancels all NodeFences, also those that are created meanwhile, until the fencing manager has ended them.
func (u *Uninstaller) awaitFences(ctx context.Context) error {
	var left []string
	// A call may end after the wait does: its error would hide which fences are left.
	err := wait.PollUntilContextTimeout(ctx, u.Poll, u.Stop, true, func(context.Context) (bool, error) {
		fences, err := u.fences(ctx)
		if err != nil {
			return false, err
		}
		left = nil
		for i := range fences {
			if err := u.cancelFence(ctx, &fences[i]); err != nil {
				return false, err
			}
			if begun(&fences[i]) {
				left = append(left, fenceText(&fences[i]))
			}
		}
		return len(left) == 0, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return errors.Errorf("nothing was removed: the fencing manager has not ended NodeFence %s: run the command again. To remove fences that "+
			"it cannot end, scale Deployment %s to 0 before, and switch the machines on", strings.Join(left, ", "), fencingManager)
	}
	return err
}

func (u *Uninstaller) cancelFence(ctx context.Context, fence *unstructured.Unstructured) error {
	if _, canceled := fence.GetAnnotations()[cancelFenceAnnotation]; canceled {
		return nil
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+cancelFenceAnnotation+`":"uninstall"}}}`))
	if err := u.Management.client.Patch(ctx, fence, patch); err != nil {
		return errors.Wrapf(client.IgnoreNotFound(err), "failed to cancel NodeFence %s/%s", fence.GetNamespace(), fence.GetName())
	}
	u.changed(u.Management, nodeFences.kind, fence, "canceled")
	return nil
}

// deleteFence deletes a NodeFence and removes its finalizer. It reports if a machine can be off.
func (u *Uninstaller) deleteFence(ctx context.Context, fence *unstructured.Unstructured) error {
	for _, method := range switchedOff(fence) {
		u.leave("the machine of NodeFence %s may be off: method %s was used to switch it off, and not to switch it on again. Switch it on",
			fenceText(fence), method)
	}
	if !u.DryRun {
		if err := u.Management.client.Delete(ctx, fence); client.IgnoreNotFound(err) != nil {
			return errors.Wrapf(err, "failed to delete NodeFence %s/%s", fence.GetNamespace(), fence.GetName())
		}
		o := newObject(nodeFences, &metav1.ObjectMeta{
			Namespace: fence.GetNamespace(), Name: fence.GetName(), UID: fence.GetUID(), ResourceVersion: fence.GetResourceVersion(),
			Annotations: fence.GetAnnotations(), Finalizers: fence.GetFinalizers(),
		})
		if err := u.Management.removeTraces(ctx, &o); err != nil {
			return err
		}
	}
	u.changed(u.Management, nodeFences.kind, fence, "deleted")
	return nil
}

// begun returns true if a fence may have changed something that is not undone.
func begun(fence *unstructured.Unstructured) bool {
	return slices.Contains(fence.GetFinalizers(), fenceFinalizer)
}

// switchedOff returns the methods that were used to switch a machine off, and not to switch it on again.
func switchedOff(fence *unstructured.Unstructured) (names []string) {
	methods, _, _ := unstructured.NestedSlice(fence.Object, "status", "methods")
	for _, method := range methods {
		record, _ := method.(map[string]any)
		if record["offRequested"] != nil && record["onSucceeded"] == nil {
			names = append(names, fmt.Sprint(record["name"]))
		}
	}
	return names
}

// fenceText is the name of a NodeFence with its Node and its state.
func fenceText(fence *unstructured.Unstructured) string {
	field := func(path ...string) string {
		text, _, _ := unstructured.NestedString(fence.Object, append([]string{"status"}, path...)...)
		return text
	}
	text := fence.GetNamespace() + "/" + fence.GetName()
	if node := field("node", "name"); node != "" {
		text += " (Node " + node + ", " + field("phase") + "/" + field("step") + ")"
	}
	return text
}

// withoutFences returns the taints that fences have not added. A taint out-of-service is of a fence if its record has it.
func (u *Uninstaller) withoutFences(taints []corev1.Taint) []corev1.Taint {
	added := slices.ContainsFunc(taints, func(taint corev1.Taint) bool {
		return taint.Key == fencingTaint && slices.Contains(u.outOfService, taint.Value)
	})
	return slices.DeleteFunc(slices.Clone(taints), func(taint corev1.Taint) bool {
		return taint.Key == fencingTaint || added && taint.Key == corev1.TaintNodeOutOfService && taint.Value == "nodeshutdown" &&
			taint.Effect == corev1.TaintEffectNoExecute
	})
}

// removeFencingTaints removes the taints of fences from the Nodes of a cluster.
func (u *Uninstaller) removeFencingTaints(ctx context.Context, c *Cluster) error {
	nodes := &corev1.NodeList{}
	for page := true; page; page = nodes.Continue != "" {
		if err := c.client.List(ctx, nodes, client.Limit(pageSize), client.Continue(nodes.Continue)); err != nil {
			return errors.Wrap(err, "failed to list Nodes")
		}
		for i := range nodes.Items {
			node := &nodes.Items[i]
			if len(u.withoutFences(node.Spec.Taints)) == len(node.Spec.Taints) {
				continue
			}
			err := retry.RetryOnConflict(conflicts, func() error {
				if err := c.client.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil || u.DryRun {
					return err
				}
				before := node.DeepCopy()
				node.Spec.Taints = u.withoutFences(node.Spec.Taints)
				return c.client.Patch(ctx, node, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
			})
			if err != nil {
				return errors.Wrapf(err, "failed to remove the taint %s of Node %s", fencingTaint, node.Name)
			}
			u.changed(c, "Node", node, "removed the taint "+fencingTaint)
			outOfService := func(taint corev1.Taint) bool { return taint.Key == corev1.TaintNodeOutOfService }
			if !u.DryRun && slices.ContainsFunc(node.Spec.Taints, outOfService) {
				u.leave("%s: Node %s has the taint %s, and no NodeFence has added it: remove it if the Node runs",
					c.name, node.Name, corev1.TaintNodeOutOfService)
			}
		}
	}
	return nil
}
