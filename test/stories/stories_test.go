// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stories_test replays scenarios in a simulated cluster, and writes the decisions to files for review: testdata/*.golden.txt. Start
// reading at TestStories_Replayed_MatchGoldenFiles.
package stories_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
)

var update = flag.Bool("update", false, "write the files in testdata")

// stories are the scenarios of all files.
var stories = slices.Concat(healthStories, limitStories, ownerStories, requestStories, userStories, controlPlaneStories, preflightStories)

func TestStories_Replayed_MatchGoldenFiles(t *testing.T) {
	for i := range stories {
		s := &stories[i]
		t.Run(s.name, func(t *testing.T) {
			for file, text := range s.files(t) {
				path := filepath.Join("testdata", file)
				g := NewWithT(t)
				if *update {
					g.Expect(os.MkdirAll("testdata", 0o755)).To(Succeed())
					g.Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
					g.Expect(os.Chmod(path, 0o644)).To(Succeed())
					continue
				}
				golden, err := os.ReadFile(path)
				g.Expect(err).ToNot(HaveOccurred(), "create the file with: go test ./test/stories -update")
				g.Expect(text).To(Equal(string(golden)), "%s: review the difference, then update the file with: go test ./test/stories -update", file)
			}
		})
	}
}

// files returns the files of a story by name. The decision trace has a file of its own because it contains every reason, and the story only
// those that apply.
func (s *story) files(t *testing.T) map[string]string {
	t.Helper()
	d := s.replay(t)
	files := map[string]string{s.name + ".golden.txt": d.text.String()}
	if s.trace != "" {
		NewWithT(t).Expect(d.traces).To(HaveKey(s.trace), "the story has no such decision or verdict")
		files[s.name+".trace.txt"] = d.traces[s.trace]
	}
	return files
}

func TestStories_EachFile_BelongsToAStory(t *testing.T) {
	g := NewWithT(t)
	var expected []string
	for i := range stories {
		expected = append(expected, stories[i].name+".golden.txt")
		if stories[i].trace != "" {
			expected = append(expected, stories[i].name+".trace.txt")
		}
	}
	files, err := filepath.Glob("testdata/*")
	g.Expect(err).ToNot(HaveOccurred())
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	g.Expect(files).To(ConsistOf(expected))
}
