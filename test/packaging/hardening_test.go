// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"os/exec"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/repository"
)

// A workload cluster can make the manager use memory, and can have it connect to addresses. The limits protect the Node and the credentials
// that clouds serve at link-local addresses.
func TestDeployment_Hardening_IsInRelease(t *testing.T) {
	g := NewWithT(t)
	objects := components(t, infrastructure, repository.ComponentsOptions{}).Objs()
	pod := deployment(g, objects).Spec.Template.Spec
	container := pod.Containers[0]
	limit := container.Resources.Limits[corev1.ResourceMemory]
	g.Expect(limit.Value()).To(BeNumerically(">", 0))
	soft := ""
	for _, variable := range container.Env {
		if variable.Name == "GOMEMLIMIT" {
			soft = variable.Value
		}
	}
	// Go writes MiB, Kubernetes Mi.
	quantity, err := resource.ParseQuantity(soft[:max(len(soft)-1, 0)])
	g.Expect(err).ToNot(HaveOccurred(), "GOMEMLIMIT=%q", soft)
	g.Expect(quantity.Value()).To(And(BeNumerically(">", limit.Value()*8/10), BeNumerically("<", limit.Value()*19/20)))

	g.Expect(pod.AutomountServiceAccountToken).To(HaveValue(BeTrue()), "the manager is a client of the API server")
	g.Expect(container.TerminationMessagePolicy).To(Equal(corev1.TerminationMessageFallbackToLogsOnError))
	g.Expect(pod.SecurityContext.RunAsNonRoot).To(HaveValue(BeTrue()))
	g.Expect(pod.SecurityContext.SeccompProfile).To(HaveValue(HaveField("Type", corev1.SeccompProfileTypeRuntimeDefault)))
	g.Expect(container.SecurityContext).To(HaveValue(And(
		HaveField("ReadOnlyRootFilesystem", HaveValue(BeTrue())), HaveField("AllowPrivilegeEscalation", HaveValue(BeFalse())),
		HaveField("Capabilities.Drop", ConsistOf(corev1.Capability("ALL"))))))

	// Without the quota, some clouds admit no Pod of this priority class.
	quotas := ofKind(objects, "ResourceQuota")
	g.Expect(quotas).To(HaveLen(1))
	quota := &corev1.ResourceQuota{}
	g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(quotas[0].Object, quota)).To(Succeed())
	g.Expect(quota.Spec.ScopeSelector.MatchExpressions).To(ConsistOf(corev1.ScopedResourceSelectorRequirement{
		ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{pod.PriorityClassName},
	}))
	g.Expect(quota.Spec.Hard.Pods().Value()).To(BeNumerically(">", 2), "a rollout has more Pods than replicas")

	policies := ofKind(objects, "NetworkPolicy")
	g.Expect(policies).To(HaveLen(1))
	policy := &networkingv1.NetworkPolicy{}
	g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(policies[0].Object, policy)).To(Succeed())
	g.Expect(policy.Spec.PodSelector.MatchLabels).To(Equal(deployment(g, objects).Spec.Selector.MatchLabels))
	g.Expect(policy.Spec.PolicyTypes).To(ConsistOf(networkingv1.PolicyTypeEgress))
	excluded := make([]string, 0, len(policy.Spec.Egress[0].To))
	for _, to := range policy.Spec.Egress[0].To {
		excluded = append(excluded, ptr.Deref(to.IPBlock, networkingv1.IPBlock{}).Except...)
	}
	g.Expect(excluded).To(ContainElements("169.254.0.0/16", "fe80::/10"))
}

// A tag of a base image can be moved to another image. A release names the base image by its digest.
func TestImage_BaseWithoutDigest_IsRefused(t *testing.T) {
	g := NewWithT(t)
	for _, base := range []string{"", "gcr.io/distroless/static:nonroot", "gcr.io/distroless/static@sha256:"} {
		// Without the recipe of bin/ko, which takes minutes.
		command := exec.CommandContext(t.Context(), "make", "-C", "../..", "-o", "bin/ko", "image", "VERSION=v0.1.0", "BASE="+base)
		output, err := command.CombinedOutput()
		g.Expect(err).To(HaveOccurred(), "BASE=%q", base)
		g.Expect(string(output)).To(ContainSubstring("set the base image with its digest"), "BASE=%q", base)
	}
}
