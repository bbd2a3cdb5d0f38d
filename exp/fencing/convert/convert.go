// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package convert converts the Configuration and the ConfigMaps of the Node remedy document into NodeRemedies and FenceProfiles, for
// kubectl remedy convert. It writes nothing to a cluster, and is not for the manager.
//
// Start at Convert.
package convert

import (
	"strings"

	"github.com/pkg/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/manifests"
)

const (
	// Expected is what is converted, for messages.
	Expected = "a Configuration of node-remedy/v1alpha, or ConfigMaps fence-config-NODE with their fence-method-template-NAME"

	configPrefix   = "fence-config-"
	methodPrefix   = "fence-method-"
	templatePrefix = methodPrefix + "template-"
	// namespace is the default namespace of the fencing manager, which fences the Nodes of its own cluster only from there.
	namespace = "remedy-system"
	// image is the placeholder of the document.
	image = "IMAGE:VERSION"
)

// Converted is a manifest, and what differs from its sources.
type Converted struct {
	Object  client.Object
	Sources []string
	Notes   manifests.Notes
}

// Kind is the kind of the object.
func (c *Converted) Kind() string { return c.Object.GetObjectKind().GroupVersionKind().Kind }

// YAML returns the manifest, with the notes as comments.
func (c *Converted) YAML() ([]byte, error) {
	does := "A FenceProfile alone does nothing: a NodeFence, or a check with a NodeFenceTemplate, uses it."
	if _, is := c.Object.(*fencingv1.NodeRemedy); is {
		does = "With mode: Observe, Remedy only reports. Remove mode: Observe when the reports are correct."
	}
	return manifests.YAML(c.Object, []string{
		"Converted from " + strings.Join(c.Sources, ", ") + ", in the form of the Node remedy document.", does,
	}, c.Notes)
}

// Documents returns the objects of the Node remedy document, and the others.
func Documents(all []unstructured.Unstructured) (own, others []unstructured.Unstructured) {
	for _, one := range all {
		name := one.GetName()
		if isConfiguration(&one) || one.GetKind() == "ConfigMap" && one.GetAPIVersion() == "v1" &&
			(strings.HasPrefix(name, configPrefix) || strings.HasPrefix(name, templatePrefix)) {
			own = append(own, one)
		} else {
			others = append(others, one)
		}
	}
	return own, others
}

func isConfiguration(one *unstructured.Unstructured) bool {
	return one.GetKind() == "Configuration" && strings.HasPrefix(one.GetAPIVersion(), "node-remedy/")
}

// Convert converts the objects of Documents. Each error is about one of them, and does not keep the others from being converted.
func Convert(all []unstructured.Unstructured) (converted []*Converted, failures []error) {
	names := map[string]bool{}
	var maps []*unstructured.Unstructured
	for i := range all {
		// What is read is removed from the copy.
		one := all[i].DeepCopy()
		if !isConfiguration(one) {
			maps = append(maps, one)
			continue
		}
		remedy, err := convertRemedy(one)
		if err == nil && names[remedy.Object.GetName()] {
			err = errors.Errorf("two Configurations become the NodeRemedy %s: set metadata.name of each", remedy.Object.GetName())
		}
		if err != nil {
			failures = append(failures, errors.WithMessagef(err, "failed to convert Configuration %q", one.GetName()))
			continue
		}
		names[remedy.Object.GetName()] = true
		converted = append(converted, remedy)
	}
	profiles, errs := convertProfiles(maps)
	return append(converted, profiles...), append(failures, errs...)
}

// metadata returns the metadata of an object, and notes what is not copied.
func (r *reader) metadata(from fields) metav1.ObjectMeta {
	meta := from.object("metadata")
	name := meta.text("name")
	if len(meta.values) > 0 {
		r.Add("Of metadata, only the name is used. The namespace is %s", namespace)
	}
	return metav1.ObjectMeta{Name: name}
}
