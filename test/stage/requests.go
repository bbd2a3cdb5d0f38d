// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// CreateTemplate creates a template and returns the reference of a check to it.
func (s *Stage) CreateTemplate(kind remediator.Kind, name string) *remedyv1.MachineTemplateReference {
	s.T.Helper()
	s.Create(kind.NewTemplate(s.Namespace, name, map[string]any{"strategy": map[string]any{"type": "Reboot", "retryLimit": int64(2)}}))
	return TemplateReference(kind, name)
}

// TemplateReference is the reference of a check to a template.
func TemplateReference(kind remediator.Kind, name string) *remedyv1.MachineTemplateReference {
	return &remedyv1.MachineTemplateReference{TemplateKind: remedyv1.TemplateKind{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Template().Kind, Name: name,
	}}
}

// Requests are all requests of a kind.
func (s *Stage) Requests(kind remediator.Kind) []unstructured.Unstructured {
	s.T.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := s.Admin.List(s.Ctx, list, client.InNamespace(s.Namespace))
	s.Expect(err == nil || meta.IsNoMatchError(err)).To(BeTrue())
	return list.Items
}

// Request returns a function that reads the request of a Machine; nil if there is none.
func (s *Stage) Request(kind remediator.Kind, machine string) func() *unstructured.Unstructured {
	return func() *unstructured.Unstructured {
		s.T.Helper()
		request := kind.NewRequest(s.Namespace, machine)
		err := s.Admin.Get(s.Ctx, client.ObjectKeyFromObject(request), request)
		if apierrors.IsNotFound(err) {
			return nil
		}
		s.Expect(err).ToNot(HaveOccurred())
		return request
	}
}

// WaitRequest waits for the request of a Machine.
func (s *Stage) WaitRequest(kind remediator.Kind, machine string) *unstructured.Unstructured {
	s.T.Helper()
	var request *unstructured.Unstructured
	s.Eventually(func() *unstructured.Unstructured {
		request = s.Request(kind, machine)()
		return request
	}).ShouldNot(BeNil())
	return request
}

// Remediator plays the remediator of a kind.
func (s *Stage) Remediator(kind remediator.Kind, outcome remediator.Outcome) *remediator.Remediator {
	return &remediator.Remediator{
		Kind: kind, Client: client.NewNamespacedClient(s.Admin, s.Namespace), Nodes: s.Nodes(),
		Outcome: func(*unstructured.Unstructured) remediator.Outcome { return outcome },
		Memory:  &s.Remediators, NodeDeletion: s.NodeDeletion,
	}
}

// Remediate lets the remediator of a kind do all it can, and returns the requests that it retries for ever.
func (s *Stage) Remediate(kind remediator.Kind, outcome remediator.Outcome) map[string]string {
	s.T.Helper()
	player := s.Remediator(kind, outcome)
	for acted := true; acted; {
		var err error
		acted, err = player.Act(s.Ctx)
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			acted, err = true, nil
		}
		s.Expect(err).ToNot(HaveOccurred())
	}
	return player.Stuck
}

// SetRequestFinalizers sets the finalizers of a request.
func (s *Stage) SetRequestFinalizers(request *unstructured.Unstructured, finalizers ...string) {
	s.T.Helper()
	s.Change(request, func() { request.SetFinalizers(finalizers) })
}
