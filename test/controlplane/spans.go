// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"encoding/json"
	"os"
	"strings"
	"time"

	"github.com/pkg/errors"
)

// SpansVariable names the file to which every start of a control plane appends a line: 'make profile-tests' separates set-up from tests
// with it.
const SpansVariable = "REMEDY_CONTROLPLANE_SPANS"

// Span is the time that one start took.
type Span struct {
	Begin time.Time `json:"begin"`
	End   time.Time `json:"end"`
}

// recordSpan does nothing if SpansVariable is not set.
func recordSpan(begin time.Time) error {
	path := os.Getenv(SpansVariable)
	if path == "" {
		return nil
	}
	line, err := json.Marshal(Span{Begin: begin, End: time.Now()})
	if err != nil {
		return errors.WithStack(err)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return errors.Wrap(err, "failed to record the start of a control plane")
	}
	defer func() { _ = file.Close() }()
	_, err = file.Write(append(line, '\n'))
	return errors.Wrap(err, "failed to record the start of a control plane")
}

// Spans reads what was recorded.
func Spans(path string) ([]Span, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, errors.Wrap(err, "failed to read the starts of control planes")
	}
	var spans []Span
	for line := range strings.Lines(string(text)) {
		var s Span
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			return nil, errors.Wrap(err, "failed to read the start of a control plane")
		}
		spans = append(spans, s)
	}
	return spans, nil
}
