// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
)

func TestDeployment_GivenFlag_ReplacesThatOfDeployment(t *testing.T) {
	g := NewWithT(t)
	says := []string{"--leader-elect", "--health-addr=:9440", "--v=2"}
	g.Expect(override(says, []string{"--leader-elect=false", "--kubeconfig=here"})).
		To(Equal([]string{"--health-addr=:9440", "--v=2", "--leader-elect=false", "--kubeconfig=here"}))
	g.Expect(override(says, nil)).To(Equal(says))
}

func TestShape_Impossible_IsRejected(t *testing.T) {
	g := NewWithT(t)
	_, err := Shape{Name: "even", ControlPlanes: 2}.complete()
	g.Expect(err).To(MatchError(ContainSubstring("no majority")))
	_, err = Shape{}.complete()
	g.Expect(err).To(MatchError(ContainSubstring("needs a name")))
	whole, err := Shape{Name: "some", Workers: 2, Pools: []Pool{{Name: "more", Replicas: 3}}}.complete()
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(whole.machines()).To(Equal(6))
}

func TestShape_Manifests_AreObjects(t *testing.T) {
	for name, class := range map[string]bool{"plain": false, "of a class": true} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			shape, err := Shape{Name: "some", Workers: 2, ClusterClass: class}.complete()
			g.Expect(err).ToNot(HaveOccurred())
			objects, err := shape.objects()
			g.Expect(err).ToNot(HaveOccurred())
			for _, o := range objects {
				g.Expect(o.GetName()).ToNot(BeEmpty(), o.GetKind())
				g.Expect(o.GetNamespace()).To(Equal("default"), o.GetKind())
			}
		})
	}
}

func TestWebhooks_Service_BecomesAddressOfProcess(t *testing.T) {
	g := NewWithT(t)
	text := `spec:
  conversion:
    webhook:
      clientConfig:
        service:
          name: capi-webhook-service
          namespace: capi-system
          path: /convert
      conversionReviewVersions: [v1]
---
kind: Service
spec:
  ports: [{port: 443}]
`
	g.Expect(string(leadWebhooks([]byte(text), &controlplane.Port{Number: 12345}, []byte("who")))).To(Equal(`spec:
  conversion:
    webhook:
      clientConfig:
        caBundle: d2hv
        url: https://127.0.0.1:12345/convert
      conversionReviewVersions: [v1]
---
kind: Service
spec:
  ports: [{port: 443}]
`))
}
