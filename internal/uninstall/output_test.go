// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"bytes"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The API server of a workload cluster chooses names, kinds, annotations and errors. They must neither control the terminal nor look like
// other lines.
func TestOutput_ControlCharacters_AreRemoved(t *testing.T) {
	g := NewWithT(t)
	const hostile = "a\x1b[2J\nleft: b\r\x07\u202e\u0000"
	out := &bytes.Buffer{}
	u := &Uninstaller{Management: &Cluster{name: "management cluster"}, Out: out}
	u.changed(&Cluster{name: "Cluster a/b"}, "Node"+hostile, &metav1.ObjectMeta{Name: hostile}, "removed annotation "+hostile)
	u.leave("Cluster a/b: %s", errors.New(hostile+strings.Repeat("x", 1<<20)))
	g.Expect(u.finish(t.Context(), nil)).ToNot(Succeed())
	g.Expect(out.Len()).To(BeNumerically("<", 3*maxLine))
	g.Expect(strings.Split(strings.TrimSpace(out.String()), "\n")).To(And(HaveLen(3), HaveEach(MatchRegexp(`^[[:print:]]+$`))))
}
