// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package noderemedy

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
)

// The author of a check needs permission to create its requests, and this manager is the author of generated ones.
//
// +kubebuilder:rbac:groups=remedy.cluster.x-k8s.io,resources=noderemedies,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=remedy.cluster.x-k8s.io,resources=noderemedies/status,verbs=update
// +kubebuilder:rbac:groups=remedy.cluster.x-k8s.io,resources=nodehealthchecks;nodefencetemplates,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=remedy.cluster.x-k8s.io,resources=fenceprofiles,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=remedy.cluster.x-k8s.io,resources=nodefences,verbs=list;create

// Reasons of the condition Valid, besides those of a Problem.
const (
	// ReasonValid: everything is applied.
	ReasonValid = "Valid"
	// ReasonNameConflict: an object of another owner has the name of a generated one.
	ReasonNameConflict = "NameConflict"
	// ReasonNotApplied: the API server rejects a generated object.
	ReasonNotApplied = "NotApplied"
	// ReasonWrongNamespace: NodeFences in this namespace cannot fence Nodes of the cluster of the manager.
	ReasonWrongNamespace = "WrongNamespace"
)

const (
	fieldOwner = client.FieldOwner("remedy-node-remedy")
	// retryInterval is the time until something that no watch reports is read again: the end of a fence, a namespace, a permission.
	retryInterval = 10 * time.Second
	// maxMessage is the maximum length of the message of a condition.
	maxMessage = 32768
)

// Reconciler reconciles NodeRemedies.
type Reconciler struct {
	Client client.Client
	// Live reads without a cache: podTemplates would fill it.
	Live  client.Reader
	Clock clock.PassiveClock
	// WatchFilter is the value of the watch label of the NodeRemedies to reconcile; empty for all.
	WatchFilter string
	// OwnNodesNamespace is the namespace whose NodeFences can fence Nodes of the cluster of the manager.
	OwnNodesNamespace string
}

// SetupWithManager adds the reconciler to a manager. It caches only metadata, so a podTemplate that cannot be read affects one object.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	changed := predicate.Or[client.Object](
		predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{},
	)
	err := ctrl.NewControllerManagedBy(mgr).For(&fencingv1.NodeRemedy{}, builder.OnlyMetadata, builder.WithPredicates(changed)).
		Owns(&remedyv1.NodeHealthCheck{}, builder.OnlyMetadata).Owns(&fencingv1.NodeFenceTemplate{}, builder.OnlyMetadata).
		Owns(&fencingv1.FenceProfile{}, builder.OnlyMetadata).Complete(r)
	return errors.Wrap(err, "failed to set up the reconciler of NodeRemedies")
}

// Reconcile applies what is generated, deletes what is not needed any more, and writes the status.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	remedy := &fencingv1.NodeRemedy{}
	if err := r.Live.Get(ctx, request.NamespacedName, remedy); err != nil {
		return ctrl.Result{}, errors.Wrapf(client.IgnoreNotFound(err), "failed to read NodeRemedy %s", request.Name)
	}
	if r.WatchFilter != "" && remedy.Labels[clusterv1.WatchLabel] != r.WatchFilter {
		return ctrl.Result{}, nil
	}
	waits, problems, err := r.reconcile(ctx, remedy)
	if err == nil && (remedy.DeletionTimestamp.IsZero() || waits != "") {
		err = r.writeStatus(ctx, remedy, waits, problems)
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	if waits != "" || len(problems) > 0 {
		return ctrl.Result{RequeueAfter: retryInterval}, err
	}
	return ctrl.Result{}, err
}

func (r *Reconciler) reconcile(ctx context.Context, remedy *fencingv1.NodeRemedy) (waits string, problems []Problem, err error) {
	before := remedy.DeepCopy()
	if !remedy.DeletionTimestamp.IsZero() {
		waits, err = r.prune(ctx, remedy, nil)
		if err != nil || waits != "" || !controllerutil.RemoveFinalizer(remedy, fencingv1.NodeRemedyFinalizer) {
			return waits, nil, err
		}
		return "", nil, r.patch(ctx, remedy, before)
	}
	if controllerutil.AddFinalizer(remedy, fencingv1.NodeRemedyFinalizer) {
		if err := r.patch(ctx, remedy, before); err != nil {
			return "", nil, err
		}
	}
	objects, problems := Objects(remedy)
	if remedy.Spec.ClusterRef == nil && remedy.Spec.Namespace != r.OwnNodesNamespace {
		objects, problems = nil, append(problems, Problem{Reason: ReasonWrongNamespace, Message: fmt.Sprintf(
			"NodeFences in namespace %s cannot fence Nodes of this cluster: create another NodeRemedy with namespace: %s, or with a clusterRef",
			remedy.Spec.Namespace, r.OwnNodesNamespace)})
	}
	waits, rejected, err := r.apply(ctx, remedy, objects)
	problems = append(problems, rejected...)
	if err != nil || len(objects) == 0 || len(rejected) > 0 {
		return waits, problems, err
	}
	kept := map[string]bool{}
	for _, object := range objects {
		kept[nameOf(object)] = true
	}
	pruning, err := r.prune(ctx, remedy, kept)
	return strings.Trim(waits+"; "+pruning, "; "), problems, err
}

func (r *Reconciler) patch(ctx context.Context, remedy, before *fencingv1.NodeRemedy) error {
	err := r.Client.Patch(ctx, remedy, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	return errors.Wrapf(err, "failed to write the finalizer of NodeRemedy %s", remedy.Name)
}

// apply applies the objects, if none of them belongs to another owner, and the API server accepts all of them.
func (r *Reconciler) apply(
	ctx context.Context, remedy *fencingv1.NodeRemedy, objects []client.Object,
) (waits string, _ []Problem, _ error) {
	contents, problems := make([]*unstructured.Unstructured, len(objects)), []Problem{}
	for i, object := range objects {
		found := object.DeepCopyObject().(client.Object) //nolint:forcetypeassert // It is a copy of one.
		err := r.Live.Get(ctx, client.ObjectKeyFromObject(object), found)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return "", nil, errors.Wrapf(err, "failed to read %s", nameOf(object))
		case !metav1.IsControlledBy(found, remedy):
			problems = append(problems, Problem{Reason: ReasonNameConflict, Message: fmt.Sprintf(
				"%s exists, and NodeRemedy %s does not own it: delete it, or use another name for the NodeRemedy", nameOf(found), remedy.Name)})
		default:
			object.SetUID(found.GetUID())
			if waits, err = r.keepMethods(ctx, remedy, object, found, waits); err != nil {
				return "", nil, err
			}
		}
		if contents[i], err = r.content(remedy, object); err != nil {
			return "", nil, errors.WithStack(err)
		}
	}
	if len(problems) > 0 {
		return "", problems, nil
	}
	for _, options := range [][]client.ApplyOption{{fieldOwner, client.DryRunAll}, {fieldOwner}} {
		for _, content := range contents {
			with := slices.Clone(options)
			// An object of this name that was created meanwhile is not changed: it conflicts.
			if content.GetUID() != "" {
				with = append(with, client.ForceOwnership)
			}
			err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(content.DeepCopy()), with...)
			err = errors.Wrapf(err, "failed to apply %s %s", content.GetKind(), content.GetName())
			if isRejection(err) {
				return "", []Problem{{Reason: ReasonNotApplied, Message: err.Error()}}, nil
			}
			if err != nil {
				return "", nil, err
			}
		}
	}
	return waits, nil, nil
}

// isRejection reports whether the API server rejects an object, so that an administrator has to act.
func isRejection(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError && !apierrors.IsConflict(err)
}

// content returns an object as it is applied. Its deletion does not block that of the NodeRemedy: the finalizer does.
func (r *Reconciler) content(remedy *fencingv1.NodeRemedy, object client.Object) (*unstructured.Unstructured, error) {
	err := controllerutil.SetControllerReference(remedy, object, r.Client.Scheme(), controllerutil.WithBlockOwnerDeletion(false))
	if err != nil {
		return nil, err
	}
	gvk, err := r.Client.GroupVersionKindFor(object)
	if err != nil {
		return nil, err
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	content := &unstructured.Unstructured{Object: fields}
	content.SetGroupVersionKind(gvk)
	return content, err
}

// writeStatus writes the conditions and the counts of the check.
func (r *Reconciler) writeStatus(ctx context.Context, remedy *fencingv1.NodeRemedy, waits string, problems []Problem) error {
	before, check := remedy.Status.DeepCopy(), &remedyv1.NodeHealthCheck{}
	err := r.Live.Get(ctx, client.ObjectKey{Name: remedy.Name}, check)
	if client.IgnoreNotFound(err) != nil {
		return errors.Wrapf(err, "failed to read %s", nameOf(check))
	}
	valid := metav1.Condition{Type: fencingv1.NodeRemedyValidCondition, Status: metav1.ConditionTrue, Reason: ReasonValid, Message: waits}
	if len(problems) > 0 {
		messages := make([]string, 0, len(problems))
		for _, problem := range problems {
			messages = append(messages, problem.Message)
		}
		valid.Status, valid.Reason, valid.Message = metav1.ConditionFalse, problems[0].Reason, strings.Join(messages, "; ")
		valid.Message = strings.ToValidUTF8(valid.Message[:min(len(valid.Message), maxMessage)], "")
	}
	ready := metav1.Condition{
		Type: fencingv1.NodeRemedyReadyCondition, Status: metav1.ConditionUnknown, Reason: remedyv1.NotReconciledReason,
		Message: "The manager of checks has not reconciled NodeHealthCheck " + remedy.Name,
	}
	status := &remedy.Status
	status.ObservedNodes, status.HealthyNodes, status.Remediating, status.Blocked = nil, nil, nil, nil
	switch c := meta.FindStatusCondition(check.Status.Conditions, remedyv1.ReadyCondition); {
	case !remedy.DeletionTimestamp.IsZero():
		ready.Reason, ready.Message = remedyv1.CleaningUpReason, waits
	case !metav1.IsControlledBy(check, remedy):
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, valid.Reason, "No Node is monitored: see the condition Valid"
	case c != nil:
		ready.Status, ready.Reason, ready.Message = c.Status, c.Reason, c.Message
	}
	if metav1.IsControlledBy(check, remedy) {
		status.ObservedNodes, status.HealthyNodes = check.Status.ObservedNodes, check.Status.HealthyNodes
		status.Remediating, status.Blocked = check.Status.Remediating, check.Status.Blocked
	}
	status.ObservedGeneration = remedy.Generation
	for _, c := range []metav1.Condition{ready, valid} {
		c.ObservedGeneration, c.LastTransitionTime = remedy.Generation, metav1.NewTime(r.Clock.Now())
		meta.SetStatusCondition(&status.Conditions, c)
	}
	if equality.Semantic.DeepEqual(before, status) {
		return nil
	}
	return errors.Wrapf(r.Client.Status().Update(ctx, remedy), "failed to write the status of NodeRemedy %s", remedy.Name)
}

// nameOf names an object in a message: its kind, its namespace and its name.
func nameOf(object client.Object) string {
	name := strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/")
	return reflect.TypeOf(object).Elem().Name() + " " + name
}
