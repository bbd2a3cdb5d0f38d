// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"strings"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// deleteObjects deletes at the end of a test what the managers of later tests would read: those that watch all namespaces connect to each
// Cluster of the API server.
func (s *Stage) deleteObjects() {
	checks := s.NodeChecks()
	for i := range checks {
		s.delete(s.Admin, &checks[i])
	}
	for _, list := range []client.ObjectList{&clusterv1.ClusterList{}, &clusterv1.MachineList{}} {
		s.Expect(s.Admin.List(s.Ctx, list, client.InNamespace(s.Namespace))).To(Succeed())
		s.Expect(meta.EachListItem(list, func(o runtime.Object) error {
			s.delete(s.Admin, o.(client.Object))
			return nil
		})).To(Succeed())
	}
	for _, api := range []client.Client{s.Admin, s.Workload} {
		nodes := &corev1.NodeList{}
		s.Expect(api.List(s.Ctx, nodes)).To(Succeed())
		for i := range nodes.Items {
			if strings.HasPrefix(nodes.Items[i].Name, s.NodeName("")) {
				s.delete(api, &nodes.Items[i])
			}
		}
	}
}

// delete deletes an object, also if it has finalizers.
func (s *Stage) delete(api client.Client, o client.Object) {
	if len(o.GetFinalizers()) > 0 {
		before := o.DeepCopyObject().(client.Object)
		o.SetFinalizers(nil)
		s.Expect(client.IgnoreNotFound(api.Patch(s.Ctx, o, client.MergeFrom(before)))).To(Succeed())
	}
	s.Expect(client.IgnoreNotFound(api.Delete(s.Ctx, o, client.GracePeriodSeconds(0)))).To(Succeed())
}
