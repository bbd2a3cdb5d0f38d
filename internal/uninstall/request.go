// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
)

// withdrawn says whether an object is a request that goes with its check.
func (l *Leaver) withdrawn(f *found) bool { return l.spent(f) && f.isRequest() }

// spent says whether an object calls itself one that goes with its check. What was made for a check of Cluster API stays: its own controller goes on with
// it, as with one of its own. Where that does not run, nobody would; and one that was told to stop does nothing any more, and would keep that
// controller from doing anything.
func (l *Leaver) spent(f *found) bool {
	check, is := requests.ParseCheck(f.Annotations[remedyv1.CheckAnnotation])
	_, stopped := f.Annotations[remedyv1.TimedOutAnnotation]
	return is && (l.alone || stopped || check.Kind != string(metrics.CoreMachineHealthCheck))
}

// isRequest says whether an object has the form in which our checks make and adopt requests, whatever its annotations say: anybody may write these on what
// they must not delete, and nothing that is no request must ever be deleted for them. A request bears the name of its Machine or its Node and belongs to it,
// or it belongs to a check of Nodes; and nobody controls it, while the machines of an infrastructure are controlled by their Machines.
func (f *found) isRequest() bool {
	if !f.ofRequests() || metav1.GetControllerOfNoCopy(f) != nil {
		return false
	}
	return slices.ContainsFunc(f.OwnerReferences, func(owner metav1.OwnerReference) bool {
		group, _, versioned := strings.Cut(owner.APIVersion, "/")
		switch owner.Kind {
		case "Machine":
			return group == clusterv1.GroupVersion.Group && owner.Name == f.Name
		case "Node":
			return !versioned && owner.Name == f.Name
		}
		return owner.Kind == string(metrics.NodeHealthCheck) && group == remedyv1.GroupVersion.Group
	})
}

// fate is what is said of an object that is dealt with.
func (l *Leaver) fate(f *found) string {
	switch {
	case l.withdrawn(f):
		return "withdrawn"
	case l.spent(f) && slices.Contains(f.annotations, remedyv1.CheckAnnotation):
		return "without " + f.said() + ": it stays, as nothing shows that it is a remediation request"
	}
	return "without " + f.said()
}

// withdraw tells a remediator to stop, and asks for the deletion of its request. When that has come to its end is its own affair.
func (c *Cluster) withdraw(ctx context.Context, f *found, now time.Time) error {
	if err := c.tellToStop(ctx, f, now); err != nil {
		return errors.Wrapf(err, "failed to tell the remediator of %s %s/%s to stop", f.kind, f.Namespace, f.Name)
	}
	api := c.metadata.Resource(f.resource).Namespace(f.Namespace)
	err := api.Delete(ctx, f.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(f.UID)}})
	return errors.Wrapf(client.IgnoreNotFound(err), "failed to withdraw %s %s/%s", f.kind, f.Namespace, f.Name)
}

// tellToStop tells the remediator of a request that its time is up. One that has succeeded has nothing to stop, and must not take it for a failure.
func (c *Cluster) tellToStop(ctx context.Context, f *found, now time.Time) error {
	request := &unstructured.Unstructured{}
	request.SetGroupVersionKind(f.resource.GroupVersion().WithKind(f.kind))
	err := retry.RetryOnConflict(busy, func() error {
		if err := c.api.Get(ctx, client.ObjectKey{Namespace: f.Namespace, Name: f.Name}, request); err != nil {
			return err
		}
		said := requests.Read(request).Request(requests.Naming{})
		if request.GetUID() != f.UID || said.Succeeded || said.TimedOut {
			return nil
		}
		before := request.DeepCopy()
		annotations := request.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[remedyv1.TimedOutAnnotation] = now.UTC().Format(time.RFC3339)
		request.SetAnnotations(annotations)
		return c.api.Patch(ctx, request, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
	return errors.WithStack(client.IgnoreNotFound(err))
}
