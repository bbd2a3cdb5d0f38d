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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
)

// Object names an object, and this one rather than any other that bore the name.
type Object struct {
	Name string
	UID  types.UID
}

// Target is whom a request is for. Requests bear its name.
type Target struct {
	// Machine and Node are what is known; either may be missing where the other one is the target.
	Machine, Node Object
	// OfNode: the check looks after Nodes. Otherwise it looks after Machines.
	OfNode bool
}

// OfMachine is a Machine as a target, and its Node if that is known.
func OfMachine(machine, node Object) Target { return Target{Machine: machine, Node: node} }

// OfNode is a Node as a target, and its Machine if there is one in the namespace of the request.
func OfNode(node, machine Object) Target { return Target{Machine: machine, Node: node, OfNode: true} }

// Object is the target itself.
func (t Target) Object() Object {
	if t.OfNode {
		return t.Node
	}
	return t.Machine
}

// Place is where a request lives.
type Place uint8

const (
	// InManagement is beside the check, and its Node is in another cluster.
	InManagement Place = iota
	// AtHome is beside the check, and the Node is there, too.
	AtHome
	// InWorkload is beside the Node, and the check is in another cluster.
	InWorkload
)

// Draft is everything that a request says beside what its template does.
type Draft struct {
	Check Check
	// CheckUID is that of a NodeHealthCheck, which owns its requests where it lives beside them.
	CheckUID types.UID
	Target   Target
	Template Reference
	// Order is that of the step.
	Order   int32
	Attempt int
	Started time.Time
	// ControlPlane: the Node belongs to the control plane.
	ControlPlane bool
	// Cluster is the Cluster that the check names; zero if it names none.
	Cluster client.ObjectKey
	Place   Place
}

// nodeHealthCheck is the kind that remediators look for among the owners of a request.
const nodeHealthCheck = "NodeHealthCheck"

// moveLabel lets clusterctl move what does not belong to a Cluster.
const moveLabel = "clusterctl.cluster.x-k8s.io/move"

// needsMachine are the kinds whose remediators find their target by a Machine that owns the request. Others misread such an owner.
var needsMachine = map[schema.GroupKind]bool{
	{Group: "infrastructure.cluster.x-k8s.io", Kind: "Metal3Remediation"}: true,
}

// Build makes a request from a template. Of the template it takes spec.template, with the labels and annotations in it; the kind follows from the
// kind of the template, whatever spec.template says of it, as that is what the author of the check was allowed to use.
func Build(template *unstructured.Unstructured, d *Draft) (*unstructured.Unstructured, error) {
	inner, problem := innerOf(template)
	if problem != "" {
		return nil, errors.New(problem)
	}
	content := runtime.DeepCopyJSON(inner)
	labels, annotations, problem := metadataOf(content)
	if problem != "" {
		return nil, errors.New(problem)
	}
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

// innerOf is spec.template of a template, or what is wrong with it.
func innerOf(template *unstructured.Unstructured) (inner map[string]any, problem string) {
	spec, _ := template.Object["spec"].(map[string]any)
	inner, is := spec["template"].(map[string]any)
	if !is {
		return nil, "it has no spec.template"
	}
	if _, _, problem = metadataOf(inner); problem != "" {
		return nil, problem
	}
	if given, found := inner["spec"]; found {
		if _, is := given.(map[string]any); !is {
			return nil, "spec.template.spec is no object"
		}
	}
	return inner, ""
}

// metadataOf are the labels and annotations in spec.template. Those that say something about one request alone are left out.
func metadataOf(inner map[string]any) (labels, annotations map[string]string, problem string) {
	metadata, _ := inner["metadata"].(map[string]any)
	labels, annotations = map[string]string{}, map[string]string{}
	for field, into := range map[string]map[string]string{"labels": labels, "annotations": annotations} {
		given, _ := metadata[field].(map[string]any)
		for key, value := range given {
			text, is := value.(string)
			if !is {
				return nil, nil, "spec.template.metadata." + field + " holds something else than text"
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
	if d.Place == InWorkload {
		labels[remedyv1.CheckLabel] = d.Check.Label(d.Cluster)
	}
	// What a Machine owns is moved with it.
	if d.Place == InManagement && d.Target.OfNode && d.Cluster.Name != "" {
		labels[moveLabel] = ""
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

// owners are who a request belongs to. Nobody controls it: it goes when it is withdrawn.
func owners(d *Draft) []metav1.OwnerReference {
	machine := metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: d.Target.Machine.Name, UID: d.Target.Machine.UID}
	node := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: d.Target.Node.Name, UID: d.Target.Node.UID}
	check := metav1.OwnerReference{APIVersion: remedyv1.GroupVersion.String(), Kind: nodeHealthCheck, Name: d.Check.Name, UID: d.CheckUID}
	switch {
	case !d.Target.OfNode:
		return []metav1.OwnerReference{machine}
	case d.Place == InWorkload:
		return []metav1.OwnerReference{node}
	}
	all := []metav1.OwnerReference{check}
	if d.Place == AtHome {
		all = append(all, node)
	}
	if d.Target.Machine.UID != "" && needsMachine[d.Template.RequestKind().GroupKind()] {
		all = append(all, machine)
	}
	return all
}
