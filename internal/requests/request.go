// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
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
	// Machines are the UIDs of the Machines that own it. Node is from its annotations. The target of a request OfNode is its Node, which the
	// owner and the name of the request identify, too.
	Machines []types.UID
	Node     Object
	OfNode   bool
	// Cluster is from its label, and checkLabel is the label of a request in a workload cluster.
	Cluster, checkLabel string
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
		Node:    Object{Name: annotations[remedyv1.NodeNameAnnotation], UID: types.UID(annotations[remedyv1.NodeUIDAnnotation])},
		Cluster: request.GetLabels()[clusterv1.ClusterNameLabel], checkLabel: request.GetLabels()[remedyv1.CheckLabel],
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
		f.started = knownTime(request.GetCreationTimestamp())
	}
	if deleting := request.GetDeletionTimestamp(); deleting != nil {
		f.deleting = knownTime(*deleting)
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

// knownTime returns a time of the API server; the earliest one that a status can have, if no API server accepts it: a workload cluster can
// return any time.
func knownTime(t metav1.Time) time.Time {
	if known := health.KnownTime(t.UTC(), time.Time{}); !known.IsZero() || t.IsZero() {
		return known
	}
	return time.Unix(0, 0).UTC()
}

// templateOf is the template in the annotations of a request. Its name is empty if they have none.
func templateOf(f *Request, annotations map[string]string) Reference {
	return Reference{
		APIVersion: f.Kind.GroupVersion().String(), Kind: f.Kind.Kind + clusterv1.TemplateSuffix, Namespace: f.Namespace,
		Name: cmp.Or(annotations[clusterv1.TemplateClonedFromNameAnnotation], annotations[remedyv1.TemplateNameAnnotation]),
	}
}

// readOwners reads the owners. A remediator may have removed annotations that it does not define, but the owners stay.
func (f *Request) readOwners(request *unstructured.Unstructured) {
	for _, owner := range request.GetOwnerReferences() {
		f.Owners = append(f.Owners, owner.Kind+"/"+owner.Name)
		group, _, versioned := strings.Cut(owner.APIVersion, "/")
		switch {
		case group == clusterv1.GroupVersion.Group && owner.Kind == "Machine" && owner.UID != "":
			f.Machines = append(f.Machines, owner.UID)
		case owner.Kind == "Node" && !versioned && owner.Name == f.Name:
			f.OfNode, f.Node.UID = true, cmp.Or(f.Node.UID, owner.UID)
		case owner.Kind == nodeHealthCheck && group == remedyv1.GroupVersion.Group:
			f.OfNode = true
		}
	}
	if f.OfNode {
		f.Node.Name = cmp.Or(f.Node.Name, f.Name)
	}
}

// Subjects identify the targets of the request: its Machines and its Node.
func (f *Request) Subjects() []types.UID {
	if !f.OfNode {
		return f.Machines
	}
	return append(slices.Clip(f.Machines), f.Node.Identity())
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

// IsOf reports whether it was created for this check, or for one of its name in another cluster.
func (f *Request) IsOf(c Check) bool { return f.Check == c && c != Check{} }

// CreatedBy reports whether it was created for this check, whose requests have this label. A cluster can have requests of two managers: of
// its own, and of one in the management cluster. Their checks can have the same name.
func (f *Request) CreatedBy(c Check, label string) bool { return f.IsOf(c) && f.checkLabel == label }

// IsFor reports whether it is for this target: the Machine that owns it, or the Node that it names, by UID. Without a UID, the name decides.
// A remediator may delete the Node and restore it. If the Machine owns the request, that is still the same server.
func (f *Request) IsFor(t Target) bool {
	ofMachine := t.Machine.UID != "" && slices.Contains(f.Machines, t.Machine.UID)
	if t.OfNode {
		id := f.Node.Identity()
		return f.OfNode && id != "" && (slices.Contains(t.Identities(), id) || ofMachine && f.Node.Name == t.Node.Name)
	}
	return ofMachine
}

// OfEarlierNode reports whether a target, whose Machine owns the request, has another Node than that of the request: a remediator may delete
// the Node, and restores its labels only when the kubelet has registered it again.
func (f *Request) OfEarlierNode(t Target) bool {
	return f.OfNode && !slices.Contains(t.Identities(), f.Node.Identity())
}

// Facts is the relevant part for a plan.
func (f *Request) Facts(naming Naming) *remediation.Request {
	return &remediation.Request{
		UID: string(f.UID), Step: naming.StepID(f.Order, f.Template), Attempt: f.attempt, Started: f.started, DeletingSince: f.deleting,
		TimedOut: f.timedOut, Succeeded: f.status.succeeded, Failed: f.status.failed, NodeDeletionExpected: f.status.nodeDeletion,
		HealthySince: f.recovered, Acted: f.status.acted, Problem: f.status.problem,
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

// CheckOf returns the check in the annotation of an object, if that check can have created the object as a request. The annotation alone is
// not enough: every user who can annotate an object could have it deleted, or have it counted for a check of another namespace.
//
// A request for a Machine is in the namespace of its check. It has the name of the Machine, its only Machine among the owners; a request
// for a Node has the name of the Node that owns it, or is owned by its NodeHealthCheck. It has no controller, unlike the infrastructure of a
// Machine.
func CheckOf(object metav1.Object) (Check, bool) {
	check, valid := ParseCheck(object.GetAnnotations()[remedyv1.CheckAnnotation])
	if !valid || metav1.GetControllerOfNoCopy(object) != nil {
		return Check{}, false
	}
	machines, owned := 0, false
	for _, owner := range object.GetOwnerReferences() {
		group, _, versioned := strings.Cut(owner.APIVersion, "/")
		ofTarget := owner.Name == object.GetName()
		switch {
		case owner.Kind == "Machine" && group == clusterv1.GroupVersion.Group:
			machines++
			owned = owned || ofTarget && check.Namespace != ""
		case check.Namespace != "":
		case owner.Kind == "Node" && !versioned:
			owned = owned || ofTarget
		case owner.Kind == nodeHealthCheck && group == remedyv1.GroupVersion.Group:
			owned = owned || owner.Name == check.Name
		}
	}
	if !owned || machines > 1 || check.Namespace != "" && check.Namespace != object.GetNamespace() {
		return Check{}, false
	}
	return check, true
}

// remediatorStatus is what a remediator reports in the status of a request.
type remediatorStatus struct {
	succeeded, failed, nodeDeletion bool
	// acted: it has written a status or a finalizer. problem is the error that it reports.
	acted   bool
	problem string
}

// maxProblem is the maximum length of the error of a remediator, of which messages quote less.
const maxProblem = 1024

// readStatus reads the status of a request. Invalid parts are ignored.
func readStatus(request *unstructured.Unstructured) remediatorStatus {
	status, _ := request.Object["status"].(map[string]any)
	conditions := conditionsOf(status)
	s := remediatorStatus{
		succeeded:    conditions[remedyv1.SucceededCondition] == "True",
		failed:       conditions[remedyv1.SucceededCondition] == "False",
		nodeDeletion: conditions[remedyv1.PermanentNodeDeletionExpectedCondition] == "True",
		acted:        len(status) > 0 || slices.ContainsFunc(request.GetFinalizers(), ofRemediator),
	}
	problem, _ := status["lastError"].(string)
	s.problem = strings.Clone(problem[:min(len(problem), maxProblem)])
	kind := request.GroupVersionKind().GroupKind()
	known := traitsOf(kind)
	if known.failed != nil && !s.succeeded {
		s.failed = s.failed || known.failed(status, conditions)
	}
	if kind.Group == infrastructure {
		phase, _ := status["phase"].(string)
		s.failed = s.failed || !s.succeeded && (phase == "Failed" || phase == "Deleting machine")
		s.nodeDeletion = s.nodeDeletion || known.deletesNodes && (phase == "Running" || phase == "Waiting")
	}
	return s
}

// conditionsOf are the statuses of conditions by type. A type that is there twice with different statuses is ignored.
func conditionsOf(status map[string]any) map[string]string {
	list, _ := status["conditions"].([]any)
	conditions := make(map[string]string, len(list))
	for _, item := range list {
		condition, _ := item.(map[string]any)
		kind, _ := condition["type"].(string)
		value, _ := condition["status"].(string)
		if before, found := conditions[kind]; found && before != value {
			value = ""
		}
		conditions[kind] = value
	}
	return conditions
}

// ofRemediator reports whether a finalizer is that of a remediator, and not of the garbage collector. Remedy sets none.
func ofRemediator(finalizer string) bool {
	return finalizer != metav1.FinalizerDeleteDependents && finalizer != metav1.FinalizerOrphanDependents
}
