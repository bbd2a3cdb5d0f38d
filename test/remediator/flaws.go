// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediator

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// Flaw is one thing that a remediator does wrong. Only those of medik8s have flaws.
type Flaw uint8

const (
	// IgnoresAnnotation means that it finds the Node only by the name of the request.
	IgnoresAnnotation Flaw = iota + 1
	// IgnoresName means that it finds the Node only by the annotation.
	IgnoresName
	// IgnoresTimedOut means that it does not stop.
	IgnoresTimedOut
	// ActsTwice means that it remediates again after it has reported success.
	ActsTwice
	// KeepsFinalizer means that it never removes its finalizer.
	KeepsFinalizer
	// NeedsNode means that it removes its finalizer only while the Node exists.
	NeedsNode
	// DropsAnnotations means that it writes its request back without the annotations that it does not define.
	DropsAnnotations
	// DeletesRequest means that it deletes its request when it has remediated. Document 002 of medik8s allows that.
	DeletesRequest
)

// in returns the traits with the flaw.
func (f Flaw) in(t *traits) *traits {
	flawed := *t
	switch f {
	case IgnoresAnnotation:
		flawed.target = byName
	case IgnoresName:
		flawed.target = func(request *unstructured.Unstructured) (string, error) {
			if node := request.GetAnnotations()[remedyv1.NodeNameAnnotation]; node != "" {
				return node, nil
			}
			return "", stuck("the annotation %s is missing", remedyv1.NodeNameAnnotation)
		}
	case IgnoresTimedOut:
		flawed.ignoresTimedOut = true
	case ActsTwice, KeepsFinalizer, NeedsNode, DropsAnnotations, DeletesRequest:
	}
	return &flawed
}
