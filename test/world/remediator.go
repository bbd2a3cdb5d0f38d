// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"os"
	"time"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/manifests"
)

// The kinds of a remediator that does nothing by itself: the test decides what it does. A request has a status subresource.
var (
	RemediationTemplate = schema.GroupVersionKind{Group: "remediation.example.com", Version: "v1", Kind: "PuppetRemediationTemplate"}
	Remediation         = schema.GroupVersionKind{Group: "remediation.example.com", Version: "v1", Kind: "PuppetRemediation"}
)

// InstallRemediations installs the kinds in the management cluster, and allows the in-tree controller and Remedy to create requests
// there.
func (w *World) InstallRemediations(ctx context.Context) error {
	return w.installRemediations(ctx, w.Plane, w.Client)
}

// InstallRemediations makes the kinds known in the workload cluster, where a remediator would live that looks for its Node locally.
// No garbage collection runs there: what an owner leaves behind stays.
func (l *Workload) InstallRemediations(ctx context.Context) error {
	c, err := l.Client(ctx)
	if err != nil {
		return err
	}
	return l.world.installRemediations(ctx, l.Plane, c)
}

func (w *World) installRemediations(ctx context.Context, plane *controlplane.ControlPlane, c client.Client) error {
	file := w.put("remediations.yaml")
	if err := plane.InstallCRDs(file); err != nil {
		return err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return errors.WithStack(err)
	}
	objects, err := manifests.Parse(content)
	if err != nil {
		return err
	}
	for _, object := range objects {
		// The definitions are there already, and served.
		if err := client.IgnoreAlreadyExists(c.Create(ctx, object)); err != nil {
			return errors.Wrapf(err, "failed to make %s %s", object.GetKind(), object.GetName())
		}
	}
	// A client finds a kind only when the document of all groups has it, which is later than that of its own group.
	for _, kind := range []schema.GroupVersionKind{Remediation, RemediationTemplate} {
		err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
			_, err := c.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
			return err == nil, nil
		})
		if err != nil {
			return errors.Wrapf(err, "failed to find %s", kind.Kind)
		}
	}
	return nil
}

// NewRemediation is an object of one of the two kinds.
func NewRemediation(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}
