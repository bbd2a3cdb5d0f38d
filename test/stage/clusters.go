// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
)

// CreateCluster creates a Cluster whose control plane and infrastructure have been ready for an hour.
func (s *Stage) CreateCluster(name string) {
	s.T.Helper()
	config := Workload.Admin
	if s.selfHosted {
		config = Management.Admin
	}
	if s.forwarder != nil {
		config = s.forwarder.config
	}
	if s.Proxy != nil {
		var err error
		config, err = s.Proxy.Config(Workload.Admin)
		s.Expect(err).ToNot(HaveOccurred())
	}
	s.CreateClusterAt(name, config)
}

// CreateClusterAt creates a Cluster that is reached with another configuration.
func (s *Stage) CreateClusterAt(name string, config *rest.Config) {
	s.T.Helper()
	s.Create(
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name + "-kubeconfig"},
			Data:       map[string][]byte{"value": s.Kubeconfig(config)},
		},
	)
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: "infrastructure.cluster.x-k8s.io",
		Kind:     "AnyCluster",
		Name:     name,
	}
	s.Create(cluster)
	long := metav1.NewTime(time.Now().Add(-time.Hour))
	s.ChangeStatus(cluster, func() {
		cluster.Status.Initialization = clusterv1.ClusterInitializationStatus{
			InfrastructureProvisioned: ptr.To(true),
			ControlPlaneInitialized:   ptr.To(true),
		}
		cluster.Status.Conditions = []metav1.Condition{
			{
				Type:               clusterv1.ClusterControlPlaneInitializedCondition,
				Status:             metav1.ConditionTrue,
				Reason:             "Initialized",
				LastTransitionTime: long,
			},
			{Type: clusterv1.ClusterInfrastructureReadyCondition, Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: long},
		}
	})
	if name == "prod" {
		s.Cluster = cluster
	}
}

// UseProxy connects to the workload cluster through a proxy.
func (s *Stage) UseProxy(options ...faults.ProxyOption) {
	s.T.Helper()
	var err error
	s.Proxy, err = faults.ProxyFor(Workload.Admin, options...)
	s.Expect(err).ToNot(HaveOccurred())
	s.T.Cleanup(s.Proxy.Close)
}

// Kubeconfig returns the kubeconfig of a configuration.
func (s *Stage) Kubeconfig(to *rest.Config) []byte {
	s.T.Helper()
	content, err := controlplane.Kubeconfig(to)
	s.Expect(err).ToNot(HaveOccurred())
	return content
}
