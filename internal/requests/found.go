// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
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

// Found is what is read of a request, whoever made it. It is shared by all who ask, and must not be changed.
type Found struct {
	Kind            schema.GroupVersionKind
	Namespace, Name string
	UID             types.UID
	ResourceVersion string

	// Check is the check that it was made for; zero if it names none.
	Check Check
	// Order is that of its step; -1, which is no step, where it cannot be read. Template is what it was made from.
	Order    int32
	Template Reference
	// Machines are the UIDs of the Machines that own it. Node is the Node that it names.
	Machines []types.UID
	Node     Object
	// Cluster is the name of the Cluster that it is labelled with.
	Cluster string
	// Owners are all owners, as kind/name.
	Owners []string
	// Touched: it carries something of ours. ControlPlane: it says that its Node belongs to the control plane.
	Touched, ControlPlane bool

	attempt                      int
	started, deleting, recovered time.Time
	// noted: something is written where the recovery is noted, even if it cannot be read.
	timedOut, noted bool
	said            word
}

// noOrder is the order of a step that cannot be read: none has it, so that the request is withdrawn, and made anew if it is needed.
const noOrder = -1

// Read reads a request. What cannot be read means what does no harm: the step is none that there is, the attempt is the first, it was started when
// it was created, and its target has not recovered.
func Read(request *unstructured.Unstructured) *Found {
	annotations := request.GetAnnotations()
	f := &Found{
		Kind: request.GroupVersionKind(), Namespace: request.GetNamespace(), Name: request.GetName(),
		UID: request.GetUID(), ResourceVersion: request.GetResourceVersion(),
		Order: noOrder, attempt: 1,
		Node:      Object{Name: annotations[remedyv1.NodeNameAnnotation], UID: types.UID(annotations[remedyv1.NodeUIDAnnotation])},
		Cluster:   request.GetLabels()[clusterv1.ClusterNameLabel],
		recovered: notes.Time(annotations[remedyv1.HealthySinceAnnotation]),
		said:      heard(request),
	}
	f.Check, _ = ParseCheck(annotations[remedyv1.CheckAnnotation])
	if order, err := strconv.ParseInt(annotations[remedyv1.StepAnnotation], 10, 32); err == nil && order >= 0 {
		f.Order = int32(order)
	}
	if attempt, err := strconv.Atoi(annotations[remedyv1.AttemptAnnotation]); err == nil && attempt > 0 {
		f.attempt = attempt
	}
	if f.started = notes.Time(annotations[remedyv1.StartedAnnotation]); f.started.IsZero() {
		f.started = request.GetCreationTimestamp().UTC()
	}
	if deleting := request.GetDeletionTimestamp(); deleting != nil {
		f.deleting = deleting.UTC()
	}
	_, f.timedOut = annotations[remedyv1.TimedOutAnnotation]
	_, f.noted = annotations[remedyv1.HealthySinceAnnotation]
	for key := range annotations {
		f.Touched = f.Touched || strings.HasPrefix(key, remedyv1.Prefix)
	}
	_, f.ControlPlane = request.GetLabels()[remedyv1.ControlPlaneRequestLabel]
	f.Template = madeFrom(f, annotations)
	f.readOwners(request)
	return f
}

// madeFrom is the template that a request says it was made from. A name that is missing is that of no template.
func madeFrom(f *Found, annotations map[string]string) Reference {
	r := Reference{
		APIVersion: f.Kind.GroupVersion().String(), Kind: f.Kind.Kind + clusterv1.TemplateSuffix, Namespace: f.Namespace,
		Name: annotations[clusterv1.TemplateClonedFromNameAnnotation],
	}
	if r.Name == "" {
		r.Name = annotations[remedyv1.TemplateNameAnnotation]
	}
	return r
}

func (f *Found) readOwners(request *unstructured.Unstructured) {
	for _, owner := range request.GetOwnerReferences() {
		f.Owners = append(f.Owners, owner.Kind+"/"+owner.Name)
		if group, _, _ := strings.Cut(owner.APIVersion, "/"); group == clusterv1.GroupVersion.Group && owner.Kind == "Machine" && owner.UID != "" {
			f.Machines = append(f.Machines, owner.UID)
		}
	}
}

// Ref names it as status does.
func (f *Found) Ref() *remedyv1.RequestReference {
	apiVersion, kind := f.Kind.ToAPIVersionAndKind()
	return &remedyv1.RequestReference{APIVersion: apiVersion, Kind: kind, Namespace: f.Namespace, Name: f.Name}
}

// Key is its namespace and name.
func (f *Found) Key() client.ObjectKey { return client.ObjectKey{Namespace: f.Namespace, Name: f.Name} }

// Of says whether it was made for this check.
func (f *Found) Of(c Check) bool { return f.Check == c && c != Check{} }

// For says whether it is for this target: the very Machine that owns it, or the very Node that it names, and none that came later under its name.
func (f *Found) For(t Target) bool {
	if t.OfNode {
		return t.Node.UID != "" && f.Node.UID == t.Node.UID
	}
	return t.Machine.UID != "" && slices.Contains(f.Machines, t.Machine.UID)
}

// Request is what a plan has to know, in the words of the check that it was made for.
func (f *Found) Request(naming Naming) *remediation.Request {
	return &remediation.Request{
		Step: naming.StepID(f.Order, f.Template), Attempt: f.attempt, Started: f.started, DeletingSince: f.deleting,
		TimedOut: f.timedOut, Succeeded: f.said.succeeded, Failed: f.said.failed, NodeDeletionExpected: f.said.nodeDeletion,
		HealthySince: f.recovered,
	}
}

// Deleting says whether its deletion was asked for.
func (f *Found) Deleting() bool { return !f.deleting.IsZero() }

// String names it, and whose it is.
func (f *Found) String() string {
	named := f.Kind.Kind + " " + f.Namespace + "/" + f.Name
	switch {
	case f.Check != Check{}:
		return named + " of " + f.Check.text()
	case len(f.Owners) > 0:
		return named + " of " + strings.Join(f.Owners, ", ")
	}
	return named
}
