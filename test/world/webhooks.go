// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"

	"github.com/pkg/errors"
	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// redirectWebhooks makes the API server call the managers where they are: there are no pods behind the services.
func (w *World) redirectWebhooks(ctx context.Context) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(8)
	validating := &admissionregistrationv1.ValidatingWebhookConfigurationList{}
	mutating := &admissionregistrationv1.MutatingWebhookConfigurationList{}
	definitions := &apiextensionsv1.CustomResourceDefinitionList{}
	for _, list := range []client.ObjectList{validating, mutating, definitions} {
		if err := w.Client.List(ctx, list); err != nil {
			return errors.Wrap(err, "failed to look for webhooks")
		}
	}
	for _, c := range validating.Items {
		before := client.MergeFrom(c.DeepCopy())
		for i := range c.Webhooks {
			w.redirectAdmission(&c.Webhooks[i].ClientConfig)
		}
		work.Go(func() error { return errors.Wrapf(w.Client.Patch(ctx, &c, before), "failed to redirect %s", c.Name) })
	}
	for _, c := range mutating.Items {
		before := client.MergeFrom(c.DeepCopy())
		for i := range c.Webhooks {
			w.redirectAdmission(&c.Webhooks[i].ClientConfig)
		}
		work.Go(func() error { return errors.Wrapf(w.Client.Patch(ctx, &c, before), "failed to redirect %s", c.Name) })
	}
	for _, d := range definitions.Items {
		if d.Spec.Conversion == nil || d.Spec.Conversion.Webhook == nil || d.Spec.Conversion.Webhook.ClientConfig == nil {
			continue
		}
		before := client.MergeFrom(d.DeepCopy())
		w.redirectConversion(d.Spec.Conversion.Webhook.ClientConfig)
		work.Go(func() error { return errors.Wrapf(w.Client.Patch(ctx, &d, before), "failed to redirect %s", d.Name) })
	}
	return work.Wait()
}

func (w *World) redirectAdmission(c *admissionregistrationv1.WebhookClientConfig) {
	if c.Service == nil {
		return
	}
	if url, ours := w.webhookURL(c.Service.Namespace, c.Service.Path); ours {
		*c = admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: w.certificate.PEM}
	}
}

func (w *World) redirectConversion(c *apiextensionsv1.WebhookClientConfig) {
	if c.Service == nil {
		return
	}
	if url, ours := w.webhookURL(c.Service.Namespace, c.Service.Path); ours {
		*c = apiextensionsv1.WebhookClientConfig{URL: &url, CABundle: w.certificate.PEM}
	}
}

// webhookURL is where the manager of this namespace serves its webhooks.
func (w *World) webhookURL(namespace string, path *string) (string, bool) {
	for process, in := range w.namespaces {
		if port := w.webhookPorts[process]; in == namespace && port != nil {
			return "https://" + port.Address() + ptr.Deref(path, ""), true
		}
	}
	return "", false
}
