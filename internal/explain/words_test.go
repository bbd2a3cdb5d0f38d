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

// root is the checkout.
const root = "../.."

// constants are the values of all string constants of a type in the sources of a package. With no type, they are those whose name ends in Reason.
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

// worded are the reasons of some kinds that there are words for.
func worded(kinds ...Kind) []string {
	found := map[string]bool{}
	for _, word := range Vocabulary() {
		if slices.Contains(kinds, word.Kind) {
			found[word.Reason] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func texts[T ~string](all []T) []string {
	said := make([]string, 0, len(all))
	for _, one := range all {
		said = append(said, string(one))
	}
	return said
}

func TestEveryReasonHasWords(t *testing.T) {
	g := NewWithT(t)
	g.Expect(worded(Gate, Rule, Unknown)).To(Equal(constants(g, "internal/health", "Reason")))
	g.Expect(worded(Guard, LastLook, Hold, Ending)).To(Equal(constants(g, "internal/remediation", "Reason")))
	g.Expect(worded(Condition)).To(Equal(constants(g, "api/v1alpha1", "")))
}

// The core does not know the API, and users read the API's words: they are the same, and each has a cause.
func TestTheReasonsOfTheCoreAreThoseOfTheAPI(t *testing.T) {
	g := NewWithT(t)
	g.Expect(worded(Rule)).To(Equal(constants(g, "api/v1alpha1", "TargetReason")))
	g.Expect(worded(Guard, LastLook, Hold)).To(Equal(constants(g, "api/v1alpha1", "HoldReason")))
}

func TestWordsAreInTheOrderOfEvaluation(t *testing.T) {
	g := NewWithT(t)
	order := map[Kind][]string{}
	for _, word := range Vocabulary() {
		order[word.Kind] = append(order[word.Kind], word.Reason)
	}
	g.Expect(order[Gate]).To(Equal(texts(health.Gates())))
	g.Expect(order[Rule]).To(Equal(texts(health.Rules())))
	g.Expect(order[Guard]).To(Equal(texts(remediation.Guards())))
	// A guard that is asked once more has its words already.
	looks := slices.DeleteFunc(texts(remediation.LastLooks()), func(name string) bool {
		return slices.Contains(order[Guard], name) && !slices.Contains(order[LastLook], name)
	})
	g.Expect(order[LastLook]).To(Equal(looks))
}

func TestNoReasonHasTwoMeanings(t *testing.T) {
	g := NewWithT(t)
	seen := map[string]bool{}
	for _, word := range Vocabulary() {
		key := string(word.Kind) + " " + word.Reason
		g.Expect(seen).ToNot(HaveKey(key))
		seen[key] = true
		for _, text := range []string{word.Means, word.Remedy} {
			g.Expect(text).To(HaveSuffix("."), key)
			g.Expect(text).To(Equal(capital(text)), key)
		}
		g.Expect(strings.Count(word.Means, ". ")).To(BeNumerically("<=", 1), "%s: a meaning is short", key)
		if word.Kind != Condition && word.Kind != Happening {
			g.Expect(word.LooksAt).To(HaveSuffix("."), key)
		}
	}
}

func TestEveryHoldHasASentenceOfItsOwn(t *testing.T) {
	g := NewWithT(t)
	sentences := map[string]string{}
	for _, table := range holdTables {
		for _, word := range table.words {
			said := word.held(&saw{})
			g.Expect(said).ToNot(BeEmpty(), string(word.reason))
			g.Expect(sentences).ToNot(HaveKey(said), "%s and %s say the same", word.reason, sentences[said])
			sentences[said] = string(word.reason)
		}
	}
	for _, word := range endingWords {
		g.Expect(because(word.reason)).To(Equal(word.because))
		g.Expect(word.because).ToNot(BeEmpty())
	}
}

// Conditions of a check name reasons that the API lists for them, and every reason is one of some condition.
func TestEveryConditionReasonBelongsToACondition(t *testing.T) {
	g := NewWithT(t)
	of := map[string]bool{}
	for _, word := range conditionWords {
		g.Expect(word.conditions).ToNot(BeEmpty(), word.reason)
		for _, name := range word.conditions {
			of[name] = true
		}
	}
	g.Expect(slices.Sorted(maps.Keys(of))).To(ConsistOf(
		remedyv1.ReadyCondition, remedyv1.RemediationAllowedCondition, remedyv1.PausedCondition,
		remedyv1.ClusterReachableCondition, remedyv1.TemplatesResolvedCondition, remedyv1.SelectorsDisjointCondition, remedyv1.TakenOverCondition,
	))
}
