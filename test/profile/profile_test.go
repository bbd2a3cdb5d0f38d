// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
)

// A suite exits as its command does, and its test binaries are recorded under its name.
func TestRun_FailingCommand_RecordsAndPassesItsCode(t *testing.T) {
	g := NewWithT(t)
	folder := t.TempDir()
	t.Setenv(folderVariable, folder)
	t.Setenv(suiteVariable, "outer")
	code, err := run([]string{"/bin/sh", "-c", "echo '{}' >> \"$" + controlplane.SpansVariable + "\"; exit 3"})
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(code).To(Equal(3))
	code, err = run([]string{"suite", "inner", "/bin/sh", "-c", "echo \"$GOFLAGS\" | grep -q exec= && exit 4"})
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(code).To(Equal(4))

	records, err := read(folder)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(records).To(HaveLen(2))
	g.Expect(records[0].Suite + " " + records[0].Package).To(Equal("outer sh"))
	g.Expect(records[0].Starts).To(HaveLen(1))
	g.Expect(records[1].Suite + " " + records[1].Package).To(Equal("inner "))
	g.Expect(records[1].End).To(BeTemporally(">=", records[1].Begin))
}
