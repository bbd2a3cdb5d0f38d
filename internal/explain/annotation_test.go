// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// A Node has another annotation than a Machine. Every sentence about it has the name that a person can search for on the object.
func TestRemediateAnnotation_NodeTarget_IsNamed(t *testing.T) {
	for annotation, machine := range map[string]*health.MachineFacts{
		"cluster.x-k8s.io/remediate-machine":     {},
		"remedy.cluster.x-k8s.io/remediate-node": nil,
	} {
		g := NewWithT(t)
		target := health.Target{Name: "a", Machine: machine, Annotations: health.Annotations{Remediate: true}}
		assessed := health.Evaluate(&health.Snapshot{Targets: []health.Target{target}}, &health.Policy{}, noon)
		verdict := &assessed.Verdicts[0]
		g.Expect(verdict.Kind).To(Equal(health.Unhealthy))
		f := &Facts{Verdict: verdict, Decision: &remediation.Decision{Block: remediation.Block{Reason: remediation.AnnotationNotRemoved}}}
		blocks := []remediation.Answer{{Guard: remediation.AnnotationNotRemoved, Blocks: true}}

		texts := []string{verdictSentence(verdict, ""), decisionSentence(f)}
		for _, lines := range [][]Line{gateLines(verdict), ruleLines(verdict, f), answerLines(f, remediation.Guards(), blocks, Guard)} {
			for _, line := range lines {
				if line.Message != "" {
					texts = append(texts, line.Message)
				}
			}
		}
		g.Expect(texts).To(HaveLen(5))
		g.Expect(texts).To(HaveEach(MatchRegexp(`(^| )` + annotation + ` `)))
	}
}
