// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// root is the repository.
const root = "../.."

// constants returns the values of all string constants of a type in a package; without a type, those whose name ends in Reason.
func constants(g *WithT, folder, typed string) []string {
	files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(files).ToNot(BeEmpty())
	found := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		g.Expect(err).ToNot(HaveOccurred())
		parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.SkipObjectResolution)
		g.Expect(err).ToNot(HaveOccurred())
		ast.Inspect(parsed, func(node ast.Node) bool {
			spec, is := node.(*ast.ValueSpec)
			if !is || len(spec.Names) != len(spec.Values) {
				return true
			}
			name, _ := spec.Type.(*ast.Ident)
			of := name != nil && name.Name == typed || name == nil && typed == "" && strings.HasSuffix(spec.Names[0].Name, "Reason")
			if literal, is := spec.Values[0].(*ast.BasicLit); of && is && literal.Kind == token.STRING {
				value, err := strconv.Unquote(literal.Value)
				g.Expect(err).ToNot(HaveOccurred())
				found[value] = true
			}
			return true
		})
	}
	return slices.Sorted(maps.Keys(found))
}

// worded returns the reasons of some kinds in the vocabulary.
func worded(kinds ...Kind) []string {
	found := map[string]bool{}
	for _, word := range Reasons() {
		if slices.Contains(kinds, word.Kind) {
			found[word.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func texts[T ~string](all []T) []string {
	result := make([]string, 0, len(all))
	for _, one := range all {
		result = append(result, string(one))
	}
	return result
}

func TestVocabulary_Constants_AreComplete(t *testing.T) {
	g := NewWithT(t)
	g.Expect(worded(Gate, Rule, Unknown)).To(Equal(constants(g, "internal/health", "Reason")))
	g.Expect(worded(Guard, Preflight, Unfinished, Ending)).To(Equal(constants(g, "internal/remediation", "Reason")))
	g.Expect(worded(Condition)).To(Equal(constants(g, "api/v1alpha1", "")))
}

// The packages health and remediation do not import the API: their reasons have to be those of the API.
func TestVocabulary_CoreReasons_EqualAPIReasons(t *testing.T) {
	g := NewWithT(t)
	g.Expect(worded(Rule)).To(Equal(constants(g, "api/v1alpha1", "TargetReason")))
	g.Expect(constants(g, "api/v1alpha1", "BlockedReason")).To(Equal(worded(Guard, Preflight, Unfinished)))
}

func TestVocabulary_Order_IsOrderOfEvaluation(t *testing.T) {
	g := NewWithT(t)
	order := map[Kind][]string{}
	for _, word := range Reasons() {
		order[word.Kind] = append(order[word.Kind], word.Name)
	}
	g.Expect(order[Gate]).To(Equal(texts(health.Gates())))
	g.Expect(order[Rule]).To(Equal(texts(health.Rules())))
	g.Expect(order[Guard]).To(Equal(texts(remediation.Guards())))
	// A guard that the preflight check evaluates again has its sentence already.
	looks := slices.DeleteFunc(texts(remediation.PreflightGuards()), func(name string) bool {
		return slices.Contains(order[Guard], name) && !slices.Contains(order[Preflight], name)
	})
	g.Expect(order[Preflight]).To(Equal(looks))
}

func TestVocabulary_Reasons_AreDocumentedOnce(t *testing.T) {
	g := NewWithT(t)
	seen := map[string]bool{}
	for _, word := range Reasons() {
		key := strings.Join(append(word.Conditions, string(word.Kind), word.Name), " ")
		g.Expect(seen).ToNot(HaveKey(key))
		seen[key] = true
		for _, text := range []string{word.Means, word.Remedy} {
			g.Expect(text).To(HaveSuffix("."), key)
			g.Expect(text).To(Equal(capital(text)), key)
		}
		g.Expect(strings.Count(word.Means, ". ")).To(BeNumerically("<=", 1), "%s: a meaning is short", key)
		if word.Kind != Condition && word.Kind != EventOnly {
			g.Expect(word.BasedOn).To(HaveSuffix("."), key)
		}
	}
}

func TestVocabulary_Holds_HaveDistinctSentences(t *testing.T) {
	g := NewWithT(t)
	sentences := map[string]string{}
	for _, word := range slices.Concat(guards, preflightReasons, unfinished) {
		message := word.sentence(&subject{})
		g.Expect(message).ToNot(BeEmpty(), word.Name)
		g.Expect(sentences).ToNot(HaveKey(message), "%s and %s have the same sentence", word.Name, sentences[message])
		sentences[message] = word.Name
	}
	for _, word := range endings {
		g.Expect(sentence(word.Name, nil, Ending)).To(And(Equal(word.sentence(nil)), Not(BeEmpty())))
	}
}

// Every reason belongs to a condition, and every condition has reasons.
func TestVocabulary_ConditionReasons_HaveCondition(t *testing.T) {
	g := NewWithT(t)
	of := map[string]bool{}
	for _, word := range conditionReasons {
		g.Expect(word.Conditions).To(HaveLen(1), word.Name)
		of[word.Conditions[0]] = true
	}
	g.Expect(slices.Sorted(maps.Keys(of))).To(ConsistOf(
		remedyv1.ReadyCondition, remedyv1.RemediationAllowedCondition, remedyv1.PausedCondition,
		remedyv1.ClusterReachableCondition, remedyv1.TemplatesResolvedCondition, remedyv1.SelectorsDisjointCondition, remedyv1.AdoptedCondition,
	))
}

// A host that its remediator has left can be given to the next Machine.
func TestReady_RequestKept_NamesHost(t *testing.T) {
	p := fleet(3, 1)
	p.Planned.Kept = []string{"m-003"}
	at := slices.IndexFunc(p.Situation.Targets, func(t remediation.Target) bool { return t.Name == "m-003" })
	p.Situation.Targets[at].Request = &remediation.Request{UID: "u", Step: remediation.StepID{Template: "Metal3RemediationTemplate reboot"}}
	p.Snapshot.Targets[at].Machine = &health.MachineFacts{ProviderID: "metal3://metal/host-7/uid"}
	NewWithT(t).Expect(Conditions(p)[0].Message).To(Equal("Finalizers keep deleted requests for these targets: m-003 (BareMetalHost " +
		"metal/host-7 with the annotation reboot.metal3.io/metal3-remediation-u). The next Machine may get the same BareMetalHost: set the " +
		"annotation capm3.metal3.io/unhealthy on it, and remove its reboot annotation and the finalizer of the request"))
}

// Other clients delete the requests of a target, again and again.
func TestReady_RequestsDeletedThreeTimes_IsFalse(t *testing.T) {
	for times, reason := range map[int]string{2: remedyv1.ReadyReason, 3: remedyv1.RequestsDeletedReason} {
		p := fleet(3, 1)
		p.Situation.Targets[0].DeletedRequests.Times = times
		NewWithT(t).Expect(Conditions(p)[0].Reason).To(Equal(reason))
	}
}

// Ready is False while something unfinished waits for an administrator.
func TestReady_UnfinishedNeedsAction_IsFalse(t *testing.T) {
	for _, w := range unfinished {
		p := fleet(3, 1)
		if remediation.Reason(w.Name) == remediation.PreviousStepNotReleased {
			p.Planned.Kept = []string{"m-003"}
		} else {
			p.Planned.Decisions[0] = remediation.Decision{Block: remediation.Block{Reason: remediation.Reason(w.Name)}}
		}
		ready := Conditions(p)[0]
		NewWithT(t).Expect([]string{string(ready.Status), ready.Reason}).To(Equal([]string{"False", w.Name}))
		NewWithT(t).Expect(ready.Message).To(HaveSuffix(": m-003"))
	}
}
