// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build houserules

package houserules_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	. "github.com/onsi/gomega"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

var (
	keyConstant = regexp.MustCompile(`\w+(?:Annotation|Label|Finalizer|Taint) += (Prefix \+ )?"([^"]+)"`)
	ofOthers    = regexp.MustCompile(`^((clusterctl\.)?cluster\.x-k8s\.io|node\.kubernetes\.io)/`)
	keyInTable  = regexp.MustCompile("(?m)^\\| `([a-z0-9./A-Z-]+/[a-zA-Z-]+)`")
)

// A key that an operator finds on an object is explained, and no two of Remedy's names can be confused by a typing error.
func TestAnnotationsPage_AllKeys_AreListed(t *testing.T) {
	g := NewWithT(t)
	code, err := os.ReadFile(filepath.Join(root, "api", "v1alpha1", "annotations.go"))
	g.Expect(err).ToNot(HaveOccurred())
	ofFences, err := os.ReadFile(filepath.Join(root, "exp", "fencing", "api", "v1alpha1", "names.go"))
	g.Expect(err).ToNot(HaveOccurred())
	page, err := os.ReadFile(filepath.Join(root, "docs", "annotations.md"))
	g.Expect(err).ToNot(HaveOccurred())
	var keys, listed []string
	for _, match := range keyConstant.FindAllStringSubmatch(string(code)+string(ofFences), -1) {
		key := match[2]
		if match[1] != "" {
			key = remedyv1.Prefix + key
		}
		if !ofOthers.MatchString(key) {
			keys = append(keys, key)
		}
	}
	for _, match := range keyInTable.FindAllStringSubmatch(string(page), -1) {
		if !ofOthers.MatchString(match[1]) {
			listed = append(listed, match[1])
		}
	}
	slices.Sort(keys)
	slices.Sort(listed)
	keys, listed = slices.Compact(keys), slices.Compact(listed)
	g.Expect(len(keys)).To(BeNumerically(">", 20), "the constants were not found")
	g.Expect(listed).To(Equal(keys))
	for i, a := range keys {
		for _, b := range keys[i+1:] {
			g.Expect(oneLetterApart(a, b)).To(BeFalse(), "%s and %s", a, b)
		}
	}
}

// oneLetterApart reports whether one typing error makes one name the other.
func oneLetterApart(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	prefix := 0
	for prefix < len(a) && a[prefix] == b[prefix] {
		prefix++
	}
	switch len(b) - len(a) {
	case 0:
		return a[prefix+1:] == b[prefix+1:]
	case 1:
		return a[prefix:] == b[prefix+1:]
	}
	return false
}
