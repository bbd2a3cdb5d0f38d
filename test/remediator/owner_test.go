// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediator_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// Metal3 needs a Machine as an owner. Remediators of medik8s look for such a Machine among those of OpenShift, and do not find it. What
// else they do is verified by package conform, and with the manager in controllers/nodehealthcheck.
func TestRemediator_OwnedByMachine_OnlyMetal3Remediates(t *testing.T) {
	for _, test := range []struct {
		kind         remediator.Kind
		owned, works bool
	}{
		{remediator.Metal3, true, true},
		{remediator.Metal3, false, false},
		{remediator.SelfNode, true, false},
		{remediator.SelfNode, false, true},
		{remediator.MachineDeletion, true, false},
		{remediator.MachineDeletion, false, true},
	} {
		name := test.kind.Kind
		if test.owned {
			name += " with owner"
		}
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
				Name: "n-1", Annotations: map[string]string{remediator.MachineAnnotation: "openshift-machine-api/any"},
			}}
			request := test.kind.NewRequest("default", node.Name)
			request.Object["status"] = map[string]any{}
			request.SetAnnotations(map[string]string{remedyv1.NodeNameAnnotation: node.Name})
			if test.owned {
				request.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Machine", Name: "m-1", UID: "u"}})
			}
			worked := 0
			player := &remediator.Remediator{
				Kind:   test.kind,
				Client: fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(node, request).WithStatusSubresource(request).Build(),
				Worked: func(context.Context, string) error {
					worked++
					return nil
				},
			}
			for range 10 {
				_, err := player.Act(t.Context())
				g.Expect(err).ToNot(HaveOccurred())
			}
			g.Expect(worked == 1).To(Equal(test.works))
		})
	}
}
