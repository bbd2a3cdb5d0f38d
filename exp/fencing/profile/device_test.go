// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/profile"
)

// A workload cluster alone vouches for neither labels nor provider ID of a Node. A row is what an administrator has written.
func TestResolve_NotVouched_NeedsRow(t *testing.T) {
	g := NewWithT(t)
	forged := worker
	forged.Vouched = false
	_, problem := profile.Resolve(&nodeFenceSpec{}, "prod", forged, profiles{rack("a", selecting("compute"))})
	g.Expect(problem).To(HaveValue(HaveField("Message", ContainSubstring("a nodeSelector needs a Machine with this Node"))))
	plan, problem := profile.Resolve(&nodeFenceSpec{}, "prod", forged, profiles{rack("a", withProviderID(worker.ProviderID))})
	g.Expect(problem).To(BeNil())
	g.Expect(plan.ProviderID).To(BeEmpty())
	plan, _ = profile.Resolve(&nodeFenceSpec{}, "prod", worker, profiles{rack("a")})
	g.Expect(plan.ProviderID).To(Equal(worker.ProviderID))
	_, problem = profile.Resolve(&nodeFenceSpec{}, "prod", forged, profiles{rack("a", func(p *fenceProfile) {
		p.Spec.Methods[0].Parameters["plug"] = "$(instanceID)"
	})})
	g.Expect(problem).To(HaveValue(HaveField("Message", ContainSubstring("$(instanceID) needs a Machine"))))
}

func TestDevice_IsThatOfAgentAndParameters(t *testing.T) {
	g := NewWithT(t)
	ipmi := fencingv1.FenceMethod{Name: "ipmi", Agent: "fence_ipmilan", Parameters: fencingv1.Parameters{"ip": "10.0.0.1", "plug": "1"}}
	same, other, agent := ipmi, ipmi, ipmi
	same.SecretName, same.Image = "rotated", "agents:4.13"
	other.Parameters = fencingv1.Parameters{"ip": "10.0.0.2", "plug": "1"}
	agent.Agent = "fence_redfish"
	g.Expect(profile.Device(&same)).To(Equal(profile.Device(&ipmi)))
	g.Expect(profile.Device(&other)).ToNot(Equal(profile.Device(&ipmi)))
	g.Expect(profile.Device(&agent)).ToNot(Equal(profile.Device(&ipmi)))
	// A podTemplate switches what it names, with any image.
	pod := func(image, argument string) *fencingv1.FenceMethod {
		return &fencingv1.FenceMethod{PodTemplate: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "a", Image: image, Args: []string{argument}}},
		}}}
	}
	g.Expect(profile.Device(pod("a:1", "worker-1"))).To(Equal(profile.Device(pod("a:2", "worker-1"))))
	g.Expect(profile.Device(pod("a:1", "worker-1"))).ToNot(Equal(profile.Device(pod("a:1", "worker-2"))))
}

// dumps makes these methods the only level of power management, with the first one for a kernel dump.
func dumps(methods ...fencingv1.MethodName) func(*fenceProfile) {
	return func(p *fenceProfile) {
		p.Spec.Methods[0].Agent = profile.KernelDumpAgent
		p.Spec.PowerManagement = levels{level(methods...)}
	}
}

func TestPlan_StorageIsolation_HasMethodsWithClasses(t *testing.T) {
	g := NewWithT(t)
	from := rack("a")
	plan, _ := profile.Resolve(&nodeFenceSpec{}, "prod", worker, profiles{from})
	g.Expect(plan.StorageIsolation()).To(BeEmpty())
	from.Spec.Methods[0].StorageClasses = []fencingv1.StorageClassName{"other"}
	from.Spec.Methods[1].StorageClasses = []fencingv1.StorageClassName{"gold"}
	plan, _ = profile.Resolve(&nodeFenceSpec{}, "prod", worker, profiles{from})
	g.Expect(plan.StorageIsolation()).To(Equal(names{"fc"}))
}
