// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// Request is the relevant part of a request of any check. It is shared and must not be changed.
type Request struct {
	Kind            schema.GroupVersionKind
	Namespace, Name string
	UID             types.UID
	ResourceVersion string

	// Check is the check that it was created for; zero if it has none, or does not have the form of a request.
	Check Check
	// Order is the order of its step; -1 if that is invalid. Template is the template that it was created from.
	Order    int32
	Template Reference
	// Machines are the UIDs of the Machines that own it. Node is from its annotations.
	Machines []types.UID
	Node     Object
	// Cluster is from its label.
	Cluster string
	// Owners are all owners, as kind/name.
	Owners []string
	// HasAnnotations: it has an annotation of Remedy. ControlPlane: it has the label for Nodes of the control plane.
	HasAnnotations, ControlPlane bool

	attempt                      int
	started, deleting, recovered time.Time
	// recoveryRecorded: it has the annotation for the recovery, even if that is invalid.
	timedOut, recoveryRecorded bool
	status                     remediatorStatus
}

// noOrder is the order of no step. A request with an invalid order is withdrawn, and created again if necessary.
const noOrder = -1

// Read reads a request. Invalid annotations mean: no step, the first attempt, started when it was created, and not recovered.
func Read(request *unstructured.Unstructured) *Request {
	annotations := request.GetAnnotations()
	f := &Request{
		Kind: request.GroupVersionKind(), Namespace: request.GetNamespace(), Name: request.GetName(),
		UID: request.GetUID(), ResourceVersion: request.GetResourceVersion(),
		Order: noOrder, attempt: 1,
		Node:      Object{Name: annotations[remedyv1.NodeNameAnnotation], UID: types.UID(annotations[remedyv1.NodeUIDAnnotation])},
		Cluster:   request.GetLabels()[clusterv1.ClusterNameLabel],
		recovered: notes.Time(annotations[remedyv1.HealthySinceAnnotation]),
		status:    readStatus(request),
	}
	f.Check, _ = CheckOf(request)
	if order, err := strconv.ParseInt(annotations[remedyv1.StepAnnotation], 10, 32); err == nil && order >= 0 {
		f.Order = int32(order)
	}
	if attempt, err := strconv.ParseInt(annotations[remedyv1.AttemptAnnotation], 10, 32); err == nil && attempt > 0 {
		f.attempt = int(attempt)
	}
	if f.started = notes.Time(annotations[remedyv1.StartedAnnotation]); f.started.IsZero() {
		f.started = request.GetCreationTimestamp().UTC()
	}
	if deleting := request.GetDeletionTimestamp(); deleting != nil {
		f.deleting = deleting.UTC()
	}
	_, f.timedOut = annotations[remedyv1.TimedOutAnnotation]
	_, f.recoveryRecorded = annotations[remedyv1.HealthySinceAnnotation]
	for key := range annotations {
		f.HasAnnotations = f.HasAnnotations || strings.HasPrefix(key, remedyv1.Prefix)
	}
	_, f.ControlPlane = request.GetLabels()[remedyv1.ControlPlaneRequestLabel]
	f.Template = templateOf(f, annotations)
	f.readOwners(request)
	return f
}

// templateOf is the template in the annotations of a request. Its name is empty if they have none.
func templateOf(f *Request, annotations map[string]string) Reference {
	return Reference{
		APIVersion: f.Kind.GroupVersion().String(), Kind: f.Kind.Kind + clusterv1.TemplateSuffix, Namespace: f.Namespace,
		Name: cmp.Or(annotations[clusterv1.TemplateClonedFromNameAnnotation], annotations[remedyv1.TemplateNameAnnotation]),
	}
}

func (f *Request) readOwners(request *unstructured.Unstructured) {
	for _, owner := range request.GetOwnerReferences() {
		f.Owners = append(f.Owners, owner.Kind+"/"+owner.Name)
		group, _, _ := strings.Cut(owner.APIVersion, "/")
		if group == clusterv1.GroupVersion.Group && owner.Kind == "Machine" && owner.UID != "" {
			f.Machines = append(f.Machines, owner.UID)
		}
	}
}

// Ref is its reference in the status of a check.
func (f *Request) Ref() *remedyv1.RequestReference {
	apiVersion, kind := f.Kind.ToAPIVersionAndKind()
	return &remedyv1.RequestReference{APIVersion: apiVersion, Kind: kind, Namespace: f.Namespace, Name: f.Name}
}

// Key is its namespace and name.
func (f *Request) Key() client.ObjectKey {
	return client.ObjectKey{Namespace: f.Namespace, Name: f.Name}
}

// IsOf reports whether it was created for this check.
func (f *Request) IsOf(c Check) bool { return f.Check == c && c != Check{} }

// IsFor reports whether it is for this target: the Machine that owns it, or the Node that it names, by UID.
func (f *Request) IsFor(t Target) bool {
	if t.OfNode {
		return t.Node.UID != "" && f.Node.UID == t.Node.UID
	}
	return t.Machine.UID != "" && slices.Contains(f.Machines, t.Machine.UID)
}

// Facts is the relevant part for a plan.
func (f *Request) Facts(naming Naming) *remediation.Request {
	return &remediation.Request{
		Step: naming.StepID(f.Order, f.Template), Attempt: f.attempt, Started: f.started, DeletingSince: f.deleting,
		TimedOut: f.timedOut, Succeeded: f.status.succeeded, Failed: f.status.failed, NodeDeletionExpected: f.status.nodeDeletion,
		HealthySince: f.recovered,
	}
}

// Deleting reports whether it is being deleted.
func (f *Request) Deleting() bool { return !f.deleting.IsZero() }

// String is its name in messages, with its check or its owners.
func (f *Request) String() string {
	named := f.Kind.Kind + " " + f.Namespace + "/" + f.Name
	switch {
	case f.Check != Check{}:
		return named + " of " + f.Check.text()
	case len(f.Owners) > 0:
		return named + " of " + strings.Join(f.Owners, ", ")
	}
	return named
}
