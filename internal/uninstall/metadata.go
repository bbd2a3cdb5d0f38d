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
)

// ours is what of an object's metadata is ours: the keys of annotations and labels, and the finalizers.
type ours struct {
	annotations, labels, finalizers []string
	// paused: our pause keeps Cluster API's own controller from a check.
	paused bool
}

func (o *ours) empty() bool {
	return len(o.annotations) == 0 && len(o.labels) == 0 && len(o.finalizers) == 0 && !o.paused
}

// in finds what is ours, whoever has put it there: what people have said to us has nobody to listen any more.
func in(meta *metav1.ObjectMeta) ours {
	found := ours{paused: meta.Annotations[clusterv1.PausedAnnotation] == remedyv1.Pause, annotations: ourKeys(meta.Annotations), labels: ourKeys(meta.Labels)}
	for _, finalizer := range meta.Finalizers {
		if strings.HasPrefix(finalizer, remedyv1.Prefix) {
			found.finalizers = append(found.finalizers, finalizer)
		}
	}
	return found
}

func ourKeys(all map[string]string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(key string) bool { return !strings.HasPrefix(key, remedyv1.Prefix) })
}

// keep leaves annotations where they are.
func (f *found) keep(keys ...string) {
	f.kept = append(f.kept, keys...)
	f.annotations = slices.DeleteFunc(f.annotations, func(key string) bool { return slices.Contains(keys, key) })
}

// only leaves everything where it is but these annotations.
func (f *found) only(keys ...string) {
	f.goes = keys
	f.ours = ours{annotations: slices.DeleteFunc(f.annotations, func(key string) bool { return !slices.Contains(keys, key) })}
}

// at is what is to be taken off an object as it is by now.
func (f *found) at(meta *metav1.ObjectMeta) *found {
	now := &found{listed: f.listed, ObjectMeta: *meta, ours: in(meta)}
	now.keep(f.kept...)
	if f.goes != nil {
		now.only(f.goes...)
	}
	return now
}

// patch is the JSON merge patch that takes it off the version of an object that was seen.
func (o *ours) patch(meta *metav1.ObjectMeta) map[string]any {
	removed, unlabelled := map[string]any{}, map[string]any{}
	for _, key := range o.annotations {
		removed[key] = nil
	}
	if o.paused {
		removed[clusterv1.PausedAnnotation] = nil
	}
	for _, key := range o.labels {
		unlabelled[key] = nil
	}
	changed := map[string]any{"uid": meta.UID, "resourceVersion": meta.ResourceVersion}
	if len(removed) > 0 {
		changed["annotations"] = removed
	}
	if len(unlabelled) > 0 {
		changed["labels"] = unlabelled
	}
	if len(o.finalizers) > 0 {
		changed["finalizers"] = slices.DeleteFunc(slices.Clone(meta.Finalizers), func(f string) bool { return slices.Contains(o.finalizers, f) })
	}
	return map[string]any{"metadata": changed}
}

// said is what is taken off, for people.
func (o *ours) said() string {
	var all []string
	if o.paused {
		all = append(all, "our pause")
	}
	all = append(all, o.annotations...)
	for _, label := range o.labels {
		all = append(all, "label "+label)
	}
	for _, finalizer := range o.finalizers {
		all = append(all, "finalizer "+finalizer)
	}
	return strings.Join(all, ", ")
}
