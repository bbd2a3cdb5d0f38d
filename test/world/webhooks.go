// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"encoding/base64"
	"regexp"
	"strings"
	"time"

	"github.com/pkg/errors"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
)

// service is the reference of a provider's webhooks, for admission and for conversion.
var service = regexp.MustCompile(`(?m)^( +)service:\n +name: \S+\n +namespace: \S+\n +path: (\S+)\n`)

// leadWebhooks makes the API server call a manager where it is: there are no pods behind the services. It is done in the file that
// clusterctl installs, as to change thirty definitions afterwards takes the API server seconds.
func leadWebhooks(components []byte, to *controlplane.Port, authority []byte) []byte {
	return service.ReplaceAll(components, []byte("${1}caBundle: "+base64.StdEncoding.EncodeToString(authority)+"\n${1}url: https://"+to.Address()+"${2}\n"))
}

// leadAdmission sends the API server's questions about admission, as far as they go to one address, to another. The definitions stay as
// they are: nothing is converted while all clients use the stored version.
func (w *World) leadAdmission(ctx context.Context, from, to *controlplane.Port, authority []byte) error {
	lead := func(c *admissionregistrationv1.WebhookClientConfig) {
		if c.URL == nil {
			return
		}
		if path, ours := strings.CutPrefix(*c.URL, "https://"+from.Address()); ours {
			url := "https://" + to.Address() + path
			*c = admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: authority}
		}
	}
	validating := &admissionregistrationv1.ValidatingWebhookConfigurationList{}
	mutating := &admissionregistrationv1.MutatingWebhookConfigurationList{}
	for _, list := range []client.ObjectList{validating, mutating} {
		if err := w.Client.List(ctx, list); err != nil {
			return errors.Wrap(err, "failed to look for webhooks")
		}
	}
	for i := range validating.Items {
		c := &validating.Items[i]
		before := client.MergeFrom(c.DeepCopy())
		for j := range c.Webhooks {
			lead(&c.Webhooks[j].ClientConfig)
		}
		if err := w.Client.Patch(ctx, c, before); err != nil {
			return errors.Wrapf(err, "failed to redirect %s", c.Name)
		}
	}
	for i := range mutating.Items {
		c := &mutating.Items[i]
		before := client.MergeFrom(c.DeepCopy())
		for j := range c.Webhooks {
			lead(&c.Webhooks[j].ClientConfig)
		}
		if err := w.Client.Patch(ctx, c, before); err != nil {
			return errors.Wrapf(err, "failed to redirect %s", c.Name)
		}
	}
	return nil
}

// waitForWebhooks waits until the API server reaches the webhooks of Cluster API's core.
func (w *World) waitForWebhooks(ctx context.Context) error {
	return w.waitForAdmission(ctx, &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "webhook-test"},
		Spec:       clusterv1.ClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 1}},
	})
}

// waitForDevMachines waits until the API server reaches the webhooks of the in-memory infrastructure.
func (w *World) waitForDevMachines(ctx context.Context) error {
	machine := newDevMachine(metav1.NamespaceDefault, "webhook-test")
	if err := unstructured.SetNestedMap(machine.Object, map[string]any{"inMemory": map[string]any{}}, "spec", "backend"); err != nil {
		return errors.WithStack(err)
	}
	return w.waitForAdmission(ctx, machine)
}

// waitForAdmission asks for something that is not kept.
func (w *World) waitForAdmission(ctx context.Context, asked client.Object) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		copied, is := asked.DeepCopyObject().(client.Object)
		if !is {
			return errors.Errorf("%T is no object", asked)
		}
		err := w.Client.Create(ctx, copied, client.DryRunAll)
		// A rejection is an answer, too.
		if err == nil || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Wrapf(err, "the webhooks for %T do not answer", asked)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
