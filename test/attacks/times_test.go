// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package attacks_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// The token of a kubelet may write every time into the conditions of its own Node. The API server accepts these times, and rejects them in
// the status of a check. The status has to report the other targets, and the check must not be kept from its deletion.
func TestTimes_OutsideOfAPI_HideNothing(t *testing.T) {
	t.Parallel()
	for name, transition := range map[string]string{"year -1": "0000-01-01T00:00:00+14:00", "year 10000": "9999-12-31T23:59:59-14:00"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t)
			s.CreateMachine("m-1")
			s.CreateUnhealthyMachine("m-2")
			node := s.Node("m-1")
			conditions := fmt.Sprintf(
				`{"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"Attack","lastTransitionTime":%q}]}}`, transition)
			s.Expect(s.Workload.Status().Patch(s.Ctx, node, client.RawPatch(types.StrategicMergePatchType, []byte(conditions)))).To(Succeed())

			check := s.CreateCheck("workers")
			s.Start()
			targets := func() []string {
				names := make([]string, 0, 2)
				for _, target := range stage.Get(s, check)().Status.UnhealthyTargets {
					names = append(names, target.Name)
				}
				return names
			}
			s.Eventually(targets).Should(Equal([]string{"m-1", "m-2"}))
			s.Expect(check.Status.UnhealthyTargets).To(HaveEach(HaveField("Reason", remedyv1.TargetReason("UnhealthyNode"))))
			s.Expect(s.Admin.Delete(s.Ctx, check)).To(Succeed())
			s.Eventually(s.Checks).Should(BeEmpty())
			t.Logf("a Node with lastTransitionTime %s: the status lists both unhealthy Machines, and the check was deleted", transition)
		})
	}
}
