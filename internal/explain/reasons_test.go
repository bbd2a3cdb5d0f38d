// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"testing"

	. "github.com/onsi/gomega"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// The core does not know the API, and users read the API's words: they are the same.
func TestTheReasonsOfTheCoreAreThoseOfTheAPI(t *testing.T) {
	for core, api := range map[health.Reason]remedyv1.TargetReason{
		health.HasRemediateAnnotation: remedyv1.HasRemediateAnnotation,
		health.MachineFailed:          remedyv1.MachineFailed,
		health.UnhealthyMachine:       remedyv1.UnhealthyMachine,
		health.NodeDeleted:            remedyv1.NodeDeleted,
		health.NodeStartupTimeout:     remedyv1.NodeStartupTimeout,
		health.UnhealthyNode:          remedyv1.UnhealthyNode,
	} {
		NewWithT(t).Expect(string(core)).To(Equal(string(api)))
	}
}
