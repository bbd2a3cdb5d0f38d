// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package medik8s

import (
	"context"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/manifests"
)

// Documents returns the checks, and the other objects, such as those in the output of kustomize. A NodeHealthCheck of another group is an
// error.
func Documents(all []unstructured.Unstructured) (checks, others []unstructured.Unstructured, err error) {
	for i := range all {
		switch err := Expected(all[i].GroupVersionKind()); {
		case err == nil:
			checks = append(checks, all[i])
		case all[i].GetKind() == Kind.Kind:
			return nil, nil, err
		default:
			others = append(others, all[i])
		}
	}
	return checks, others, nil
}

// InCluster reads the checks of a cluster, with the mapper of its kinds.
func InCluster(ctx context.Context, config *rest.Config) ([]unstructured.Unstructured, meta.RESTMapper, error) {
	api, err := client.New(config, client.Options{})
	if err != nil {
		return nil, nil, errors.Wrap(err, "failed to connect to the cluster")
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(Kind.GroupVersion().WithKind(Kind.Kind + "List"))
	resource := "nodehealthchecks." + Kind.Group
	switch err := api.List(ctx, list); {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return nil, nil, errors.Errorf("this cluster does not serve %s: use --filename for manifests", resource)
	case apierrors.IsForbidden(err):
		return nil, nil, errors.Errorf("failed to list %s: you are not allowed to. Ask an administrator for the permission", resource)
	case err != nil:
		return nil, nil, errors.Wrapf(err, "failed to list %s", resource)
	}
	return list.Items, api.RESTMapper(), nil
}

// YAML returns the manifest, with the notes as comments.
func (c *Converted) YAML() ([]byte, error) {
	return manifests.YAML(c.Check, []string{
		"Converted from the NodeHealthCheck " + c.Check.Name + " of " + Kind.Group + ".",
		"With mode: Observe, Remedy only reports. Delete or pause the check of medik8s before you remove mode: Observe, because both would",
		"act on the same Nodes.",
	}, c.Notes)
}
