// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stories_test tells what the core decides, turn by turn, in files that a person can review: testdata/*.golden.txt.
// Write them anew with: go test ./test/stories -update.
package stories_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
)

var update = flag.Bool("update", false, "write testdata anew")

// stories are all of them.
var stories = slices.Concat(aboutHealth, aboutLimits, aboutOwners, aboutRequests, aboutPeople, aboutControlPlanes, aboutLooking)

func TestStories(t *testing.T) {
	for i := range stories {
		s := &stories[i]
		t.Run(s.name, func(t *testing.T) {
			for file, text := range s.files(t) {
				path := filepath.Join("testdata", file)
				g := NewWithT(t)
				if *update {
					g.Expect(os.MkdirAll("testdata", 0o755)).To(Succeed())
					g.Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
					g.Expect(os.Chmod(path, 0o644)).To(Succeed()) // a story is for everybody
					continue
				}
				golden, err := os.ReadFile(path)
				g.Expect(err).ToNot(HaveOccurred(), "write it with: go test ./test/stories -update")
				g.Expect(text).To(Equal(string(golden)), "%s: look at what has changed, and write it anew with: go test ./test/stories -update", file)
			}
		})
	}
}

// files are what a story is written down in. The decision trace is a file of its own: every reason stands in it, and in the story only
// those that it tells of.
func (s *story) files(t *testing.T) map[string]string {
	t.Helper()
	d := s.play(t)
	files := map[string]string{s.name + ".golden.txt": d.text.String()}
	if s.trace != "" {
		NewWithT(t).Expect(d.traces).To(HaveKey(s.trace), "that was never told of")
		files[s.name+".trace.txt"] = d.traces[s.trace]
	}
	return files
}

func TestEveryFileBelongsToAStory(t *testing.T) {
	g := NewWithT(t)
	var told []string
	for i := range stories {
		told = append(told, stories[i].name+".golden.txt")
		if stories[i].trace != "" {
			told = append(told, stories[i].name+".trace.txt")
		}
	}
	files, err := filepath.Glob("testdata/*")
	g.Expect(err).ToNot(HaveOccurred())
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	g.Expect(files).To(ConsistOf(told))
}
