// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/pkg/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
)

// Object is the name and the UID of an object.
type Object struct {
	Name string
	UID  types.UID
}

// Identity is the UID of an object. Nodes of a simulated cluster have none, and a remediator may have removed it from a request: then it is
// the name.
func (o Object) Identity() types.UID {
	if o.UID == "" && o.Name != "" {
		return types.UID("name/" + o.Name)
	}
	return o.UID
}

// Target is the Machine or Node that a request is for. The request has its name.
type Target struct {
	// Machine and Node: the one that is not the target may be empty.
	Machine, Node Object
	// OfNode: the target is the Node. Otherwise it is the Machine.
	OfNode bool
	// MachineNamespace is that of the Machine of a Node; empty for that of the request.
	MachineNamespace string
}

// OfMachine is a Machine as a target, with its Node if it has one.
func OfMachine(machine, node Object) Target { return Target{Machine: machine, Node: node} }

// OfNode is a Node as a target, with its Machine if there is one in the namespace of the request.
func OfNode(node, machine Object) Target { return Target{Machine: machine, Node: node, OfNode: true} }

// Object is the Machine or the Node.
func (t Target) Object() Object {
	if t.OfNode {
		return t.Node
	}
	return t.Machine
}

// Identities are the identities that its requests can have. The Machine of a Node may own them.
func (t Target) Identities() []types.UID {
	all := make([]types.UID, 0, 3)
	if t.OfNode {
		all = append(all, t.Node.Identity(), Object{Name: t.Node.Name}.Identity())
	}
	if !t.OfNode || t.Machine.UID != "" {
		all = append(all, t.Machine.UID)
	}
	return all
}

// Place is where a request is.
type Place uint8

const (
	// InManagement is in the cluster of the check. Its Node is in another one.
	InManagement Place = iota
	// InOneCluster is in the cluster of the check and of the Node.
	InOneCluster
	// InWorkload is in the cluster of the Node. The check is in another one.
	InWorkload
)

// Draft is everything in a request that is not from its template.
type Draft struct {
	Check Check
	// CheckUID is that of a NodeHealthCheck, which owns its requests in its own cluster.
	CheckUID types.UID
	Target   Target
	Template Reference
	// Order is the order of the step.
	Order   int32
	Attempt int
	Started time.Time
	// ControlPlane: the Node belongs to the control plane.
	ControlPlane bool
	// Cluster is the Cluster that the check names; zero if it names none.
	Cluster client.ObjectKey
	Place   Place
}

// nodeHealthCheck is the kind of owner that medik8s remediators require.
const nodeHealthCheck = "NodeHealthCheck"

// MoveLabel makes clusterctl move an object that no Cluster owns.
const MoveLabel = "clusterctl.cluster.x-k8s.io/move"

// Build creates a request from spec.template of a template, including labels and annotations. A kind in spec.template is ignored: the kind
// follows from the kind of the template, for which the permission of the author of the check was verified.
func Build(template *unstructured.Unstructured, d *Draft) (*unstructured.Unstructured, error) {
	inner, problem := innerOf(template)
	if problem != "" {
		return nil, errors.New(problem)
	}
	content := runtime.DeepCopyJSON(inner)
	labels, annotations, _ := metadataOf(content)
	for _, field := range []string{"apiVersion", "kind", "metadata", "status"} {
		delete(content, field)
	}
	request := &unstructured.Unstructured{Object: content}
	request.SetGroupVersionKind(d.Template.RequestKind())
	request.SetNamespace(d.Template.Namespace)
	request.SetName(d.Target.Object().Name)
	request.SetOwnerReferences(owners(d))
	maps.Copy(labels, d.labels())
	maps.Copy(annotations, d.annotations())
	if len(labels) > 0 {
		request.SetLabels(labels)
	}
	request.SetAnnotations(annotations)
	return request, nil
}

// innerOf is spec.template of a valid template; otherwise problem is why it is invalid.
func innerOf(template *unstructured.Unstructured) (inner map[string]any, problem string) {
	spec, _ := template.Object["spec"].(map[string]any)
	inner, _ = spec["template"].(map[string]any)
	if _, is := inner["spec"].(map[string]any); !is {
		return nil, "spec.template.spec must be an object, for example spec: {template: {spec: {}}}; Remedy copies it to spec of the request"
	}
	_, _, problem = metadataOf(inner)
	return inner, problem
}

// metadataOf are the labels and annotations in spec.template without those that Remedy sets.
func metadataOf(inner map[string]any) (labels, annotations map[string]string, problem string) {
	metadata, _ := inner["metadata"].(map[string]any)
	labels, annotations = map[string]string{}, map[string]string{}
	for field, into := range map[string]map[string]string{"labels": labels, "annotations": annotations} {
		given, _ := metadata[field].(map[string]any)
		for key, value := range given {
			text, is := value.(string)
			if !is {
				return nil, nil, "spec.template.metadata." + field + " has a value that is not a string: set strings only"
			}
			if !strings.HasPrefix(key, remedyv1.Prefix) && key != remedyv1.TimedOutAnnotation && key != remedyv1.ControlPlaneRequestLabel {
				into[key] = text
			}
		}
	}
	return labels, annotations, ""
}

func (d *Draft) labels() map[string]string {
	labels := map[string]string{}
	if d.Cluster.Name != "" {
		labels[clusterv1.ClusterNameLabel] = d.Cluster.Name
	}
	if d.ControlPlane {
		labels[remedyv1.ControlPlaneRequestLabel] = ""
	}
	if label := d.Check.LabelIn(d.Place, d.Cluster); label != "" {
		labels[remedyv1.CheckLabel] = label
	}
	// A request that a Machine owns is moved with the Machine.
	if d.Place == InManagement && d.Target.OfNode && d.Cluster.Name != "" {
		labels[MoveLabel] = ""
	}
	return labels
}

func (d *Draft) annotations() map[string]string {
	annotations := map[string]string{
		clusterv1.TemplateClonedFromNameAnnotation:      d.Template.Name,
		clusterv1.TemplateClonedFromGroupKindAnnotation: d.Template.TemplateKind().GroupKind().String(),
		remedyv1.TemplateNameAnnotation:                 d.Template.Name,
		remedyv1.CheckAnnotation:                        d.Check.String(),
		remedyv1.StepAnnotation:                         strconv.Itoa(int(d.Order)),
		remedyv1.AttemptAnnotation:                      strconv.Itoa(d.Attempt),
		remedyv1.StartedAnnotation:                      notes.Text(d.Started),
	}
	if d.Target.Node.Name != "" {
		annotations[remedyv1.NodeNameAnnotation] = d.Target.Node.Name
	}
	if d.Target.Node.UID != "" {
		annotations[remedyv1.NodeUIDAnnotation] = string(d.Target.Node.UID)
	}
	return annotations
}

// owners are the owner references of a request. None of them is a controller.
func owners(d *Draft) []metav1.OwnerReference {
	t := &d.Target
	machine := metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: t.Machine.Name, UID: t.Machine.UID}
	node := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: t.Node.Name, UID: t.Node.UID}
	check := metav1.OwnerReference{APIVersion: remedyv1.GroupVersion.String(), Kind: nodeHealthCheck, Name: d.Check.Name, UID: d.CheckUID}
	switch {
	case !d.Target.OfNode:
		return []metav1.OwnerReference{machine}
	case d.Place == InWorkload:
		return []metav1.OwnerReference{node}
	}
	all := []metav1.OwnerReference{check}
	if d.Place == InOneCluster {
		all = append(all, node)
	}
	// An owner in another namespace would have the request deleted.
	inNamespace := d.Target.MachineNamespace == "" || d.Target.MachineNamespace == d.Template.Namespace
	if d.Target.Machine.UID != "" && inNamespace && d.Template.NeedsMachine() {
		all = append(all, machine)
	}
	return all
}
