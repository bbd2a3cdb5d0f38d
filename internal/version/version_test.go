// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package version

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestModuleVersion_InstalledByGo_IsItsVersion(t *testing.T) {
	g := NewWithT(t)
	g.Expect(moduleVersion("v0.1.0")).To(Equal("v0.1.0"))
	g.Expect(moduleVersion("(devel)")).To(Equal("development"))
	g.Expect(moduleVersion("")).To(Equal("development"))
}
