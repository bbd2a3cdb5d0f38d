// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
)

// object is the metadata of an object, with the traces to remove.
type object struct {
	apiResource
	metav1.ObjectMeta
	traces
	// kept and only limit the traces, also those that are found after a conflict. An empty only means all keys.
	kept, only []string
}

// limit sets which keys stay on an object, or which keys are the only ones to be removed.
func (o *object) limit(kept, only []string) {
	o.kept, o.only = kept, only
	o.traces = o.tracesIn(&o.ObjectMeta)
}

// traces are the keys and finalizers in an object's metadata that belong to Remedy.
type traces struct{ annotations, labels, finalizers []string }

func (t *traces) empty() bool { return len(t.annotations)+len(t.labels)+len(t.finalizers) == 0 }

// tracesIn returns the traces to remove from one version of the object's metadata.
func (o *object) tracesIn(meta *metav1.ObjectMeta) traces {
	removed := func(key string) bool {
		remedys := strings.HasPrefix(key, remedyv1.Prefix) || key == clusterv1.PausedAnnotation && meta.Annotations[key] == remedyv1.Pause
		return remedys && !slices.Contains(o.kept, key) && (len(o.only) == 0 || slices.Contains(o.only, key))
	}
	stays := func(key string) bool { return !removed(key) }
	// The manager sets this label of clusterctl on a NodeHealthCheck of a workload cluster.
	labelStays := func(key string) bool { return !removed(key) && (key != requests.MoveLabel || !o.isNodeHealthCheck()) }
	return traces{
		annotations: slices.DeleteFunc(slices.Sorted(maps.Keys(meta.Annotations)), stays),
		labels:      slices.DeleteFunc(slices.Sorted(maps.Keys(meta.Labels)), labelStays),
		finalizers:  slices.DeleteFunc(slices.Clone(meta.Finalizers), stays),
	}
}

// patch returns the JSON merge patch that removes the traces from the version of the metadata in which they were found.
func (t *traces) patch(meta *metav1.ObjectMeta) map[string]any {
	changed := map[string]any{"uid": meta.UID, "resourceVersion": meta.ResourceVersion}
	for field, keys := range map[string][]string{"annotations": t.annotations, "labels": t.labels} {
		removed := map[string]any{}
		for _, key := range keys {
			removed[key] = nil
		}
		changed[field] = removed
	}
	if len(t.finalizers) > 0 {
		changed["finalizers"] = slices.DeleteFunc(slices.Clone(meta.Finalizers), func(f string) bool { return slices.Contains(t.finalizers, f) })
	}
	return map[string]any{"metadata": changed}
}

// String lists the traces.
func (t *traces) String() string {
	all := slices.Clone(t.annotations)
	for _, label := range t.labels {
		all = append(all, "label "+label)
	}
	for _, finalizer := range t.finalizers {
		all = append(all, "finalizer "+finalizer)
	}
	return strings.Join(all, ", ")
}
