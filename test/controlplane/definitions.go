// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"time"

	"github.com/pkg/errors"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// InstallCRDs installs every CustomResourceDefinition found in the folder or file and waits until they are served.
func (c *ControlPlane) InstallCRDs(paths ...string) error {
	return c.install(envtest.CRDInstallOptions{Paths: paths, ErrorIfPathMissing: true})
}

// InstallCRDObjects is InstallCRDs for definitions that a test has changed.
func (c *ControlPlane) InstallCRDObjects(crds ...*apiextensionsv1.CustomResourceDefinition) error {
	return c.install(envtest.CRDInstallOptions{CRDs: crds})
}

// installBackoff has more steps than there are definitions: each step gets past at least one of them.
var installBackoff = wait.Backoff{Steps: 100, Duration: 10 * time.Millisecond}

func (c *ControlPlane) install(options envtest.CRDInstallOptions) error {
	options.MaxTime, options.PollInterval = startLimit, 50*time.Millisecond
	var installed []*apiextensionsv1.CustomResourceDefinition
	// Another package may create the same definition between the moments when envtest does not find it and creates it. The next attempt
	// updates it.
	err := retry.OnError(installBackoff, apierrors.IsAlreadyExists, func() (err error) {
		installed, err = envtest.InstallCRDs(c.Admin, options)
		return err
	})
	if err == nil {
		err = c.backdate(installed)
	}
	return errors.Wrap(err, "failed to install the CustomResourceDefinitions")
}

// backdate sets the time since when definitions are established to an hour ago. The API server answers each creation of an object two
// seconds late while its definition is younger than that, because other API servers may not serve it yet. Here are no others.
func (c *ControlPlane) backdate(crds []*apiextensionsv1.CustomResourceDefinition) error {
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		return errors.WithStack(err)
	}
	// This mapper needs no discovery.
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), meta.RESTScopeRoot)
	admin, err := client.New(c.Admin, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return errors.WithStack(err)
	}
	ctx, old := context.Background(), metav1.NewTime(time.Now().Add(-time.Hour))
	for _, crd := range crds {
		err := retry.RetryOnConflict(installBackoff, func() error {
			current := &apiextensionsv1.CustomResourceDefinition{}
			if err := admin.Get(ctx, client.ObjectKeyFromObject(crd), current); err != nil {
				return err
			}
			for i := range current.Status.Conditions {
				if is := &current.Status.Conditions[i]; is.Type == apiextensionsv1.Established && is.LastTransitionTime.After(old.Time) {
					is.LastTransitionTime = old
					return admin.Status().Update(ctx, current)
				}
			}
			return nil
		})
		// Another test may have deleted it.
		if client.IgnoreNotFound(err) != nil {
			return errors.Wrapf(err, "failed to update CustomResourceDefinition %s", crd.Name)
		}
	}
	return nil
}
