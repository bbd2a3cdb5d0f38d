// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package medik8s

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/manifests"
)

// Kind is the kind that is converted.
var Kind = schema.GroupVersionKind{Group: "remediation.medik8s.io", Version: "v1alpha1", Kind: "NodeHealthCheck"}

// spec is that of a NodeHealthCheck of medik8s. Fields that are not here have no counterpart.
type spec struct {
	Selector              metav1.LabelSelector    `json:"selector"`
	UnhealthyConditions   []condition             `json:"unhealthyConditions"`
	MinHealthy            *intstr.IntOrString     `json:"minHealthy"`
	MaxUnhealthy          *intstr.IntOrString     `json:"maxUnhealthy"`
	StormCooldownDuration *metav1.Duration        `json:"stormCooldownDuration"`
	RemediationTemplate   *corev1.ObjectReference `json:"remediationTemplate"`
	Escalating            []step                  `json:"escalatingRemediations"`
	PauseRequests         []string                `json:"pauseRequests"`
	HealthyDelay          *metav1.Duration        `json:"healthyDelay"`
}

type condition struct {
	Type     string          `json:"type"`
	Status   string          `json:"status"`
	Duration metav1.Duration `json:"duration"`
}

type step struct {
	RemediationTemplate corev1.ObjectReference `json:"remediationTemplate"`
	Order               int                    `json:"order"`
	Timeout             metav1.Duration        `json:"timeout"`
}

// known are the fields of spec.
var known = []string{
	"selector", "unhealthyConditions", "minHealthy", "maxUnhealthy", "stormCooldownDuration", "remediationTemplate", "escalatingRemediations",
	"pauseRequests", "healthyDelay",
}

// Converted is a check of Remedy, and what differs from the check of medik8s.
type Converted struct {
	Check *remedyv1.NodeHealthCheck
	Notes manifests.Notes
}

// conversion is one in progress.
type conversion struct {
	*Converted
	mapper meta.RESTMapper
}

func (c *conversion) note(format string, args ...any) {
	c.Notes.Add(format, args...)
}

// Convert converts a check. With a mapper, which may be nil, the plurals of requests are those of the cluster.
func Convert(check *unstructured.Unstructured, mapper meta.RESTMapper) (*Converted, error) {
	if err := Expected(check.GroupVersionKind()); err != nil {
		return nil, err
	}
	from := spec{}
	fields, _, err := unstructured.NestedMap(check.Object, "spec")
	if err == nil {
		var content []byte
		if content, err = json.Marshal(fields); err == nil {
			err = json.Unmarshal(content, &from)
		}
	}
	if err != nil {
		return nil, errors.Wrapf(err, "failed to convert NodeHealthCheck %s: its spec is invalid", check.GetName())
	}
	c := &conversion{Converted: &Converted{Check: &remedyv1.NodeHealthCheck{
		TypeMeta:   metav1.TypeMeta{APIVersion: remedyv1.GroupVersion.String(), Kind: "NodeHealthCheck"},
		ObjectMeta: metav1.ObjectMeta{Name: check.GetName()},
		Spec:       remedyv1.NodeHealthCheckSpec{Pace: remedyv1.Pace{Mode: remedyv1.ObserveMode}},
	}}, mapper: mapper}
	if check.GetName() == "" {
		return nil, errors.New("failed to convert a NodeHealthCheck: metadata.name is missing")
	}
	c.metadata(check, fields)
	for _, convert := range []func(*spec) error{c.selector, c.conditions, c.limits, c.templates, c.pace} {
		if err := convert(&from); err != nil {
			return nil, errors.WithMessagef(err, "failed to convert NodeHealthCheck %s", check.GetName())
		}
	}
	return c.Converted, nil
}

// Expected returns an error for another kind.
func Expected(gvk schema.GroupVersionKind) error {
	switch {
	case gvk.Group == remedyv1.GroupVersion.Group:
		return errors.Errorf("the file has a %s of %s, which Remedy reconciles already: expected a NodeHealthCheck of %s",
			gvk.Kind, gvk.Group, Kind.Group)
	case gvk.GroupKind() != Kind.GroupKind():
		return errors.Errorf("unexpected kind %q of apiVersion %q: expected a NodeHealthCheck of %s",
			gvk.Kind, gvk.GroupVersion(), Kind.GroupVersion())
	}
	return nil
}

// metadata notes what is not copied.
func (c *conversion) metadata(check *unstructured.Unstructured, fields map[string]any) {
	c.note("It monitors the Nodes of the cluster in which it is applied. In a management cluster, set clusterRef to the Cluster of the " +
		"Nodes, and templateLocation: Workload if the remediators stay in the cluster of the Nodes")
	annotations := maps.Clone(check.GetAnnotations())
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	if len(check.GetLabels())+len(annotations) > 0 {
		c.note("Labels and annotations of the check are not copied")
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(known, field) {
			c.note("spec.%s has no counterpart and is omitted", field)
		}
	}
	status, _, _ := unstructured.NestedMap(check.Object, "status")
	if len(status) == 0 {
		return
	}
	c.note("The status is not converted")
	if all, _, _ := unstructured.NestedSlice(status, "unhealthyNodes"); len(all) > 0 {
		c.note("medik8s reports %s as unhealthy: Remedy does not continue its remediations. Wait until they have ended",
			plural(len(all), "Node", "Nodes"))
	}
}

func plural(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}

// selector converts the selector. An empty one selects every Node, in older versions of medik8s.
func (c *conversion) selector(from *spec) error {
	if _, err := metav1.LabelSelectorAsSelector(&from.Selector); err != nil {
		return errors.WithMessage(err, "spec.selector is invalid")
	}
	c.Check.Spec.Selector = manifests.Selector(&from.Selector)
	if len(from.Selector.MatchLabels)+len(from.Selector.MatchExpressions) == 0 {
		c.note("spec.selector is empty: it selects every Node, also those of the control plane. Remove selector: {} to select only workers")
	}
	return nil
}

// templates converts the template or the steps.
func (c *conversion) templates(from *spec) error {
	switch {
	case from.RemediationTemplate != nil && len(from.Escalating) > 0:
		return errors.New("it has remediationTemplate and escalatingRemediations: keep one of them")
	case from.RemediationTemplate != nil:
		template, err := c.template("spec.remediationTemplate", from.RemediationTemplate)
		if err != nil {
			return err
		}
		c.Check.Spec.RemediationTemplate = template
		c.note("medik8s stops the remediation after 30m. Remedy waits for its end: for a timeout, use escalatingRemediations with one step")
		return nil
	case len(from.Escalating) == 0:
		return errors.New("it has neither remediationTemplate nor escalatingRemediations: set one of them")
	}
	return c.steps(from.Escalating)
}
