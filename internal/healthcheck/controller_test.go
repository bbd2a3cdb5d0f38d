// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/config"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// The two kinds of MachineHealthChecks have the same name in different groups.
func TestWorkers_PerGroupKind_AreThoseOfTheManager(t *testing.T) {
	g := NewWithT(t)
	scheme := runtime.NewScheme()
	g.Expect(clusterv1.AddToScheme(scheme)).To(Succeed())
	g.Expect(remedyv1.AddToScheme(scheme)).To(Succeed())
	options := config.Controller{GroupKindConcurrency: map[string]int{"MachineHealthCheck.remedy.cluster.x-k8s.io": 50}}
	n, err := workers(options, scheme, &remedyv1.MachineHealthCheck{})
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(n).To(Equal(50))
	n, err = workers(options, scheme, &clusterv1.MachineHealthCheck{})
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(n).To(BeZero(), "the default of the manager")
	_, err = workers(options, runtime.NewScheme(), &remedyv1.MachineHealthCheck{})
	g.Expect(err).To(HaveOccurred())
}
