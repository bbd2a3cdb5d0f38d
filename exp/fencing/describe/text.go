// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package describe

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
)

// String returns the fence as text, in the form of the rest of an explanation.
func (f *Fence) String() string {
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-12s %s\n", name+":", value)
		}
	}
	line("Fence", f.Namespace+"/"+f.Name+" "+f.State+f.phase())
	if f.Mode == fencingv1.CheckDevices {
		line("Mode", "Check: nothing is changed")
	}
	line("Profile", f.Profile+f.level())
	for i := range f.Methods {
		line("Method", method(&f.Methods[i]))
	}
	if f.Evidence != nil {
		line("Proven", fmt.Sprintf("the Node was off at %s: every device of level %d answered OFF",
			utc(&f.Evidence.RecordedAt), f.Evidence.Level+1))
	}
	line("Missing", strings.Join(f.Missing, ", or "))
	line("Waits for", f.WaitingFor)
	line("Result", f.Result)
	if f.Result == "" {
		line("Deadline", utc(f.Deadline))
	}
	if f.Job != nil {
		line("Last Job", fmt.Sprintf("%s of %s%s: %s", f.Job.Action, f.Job.Method, ending(f.Job), f.Log))
	}
	if f.Cancel != "" {
		line("Cancel", f.Cancel)
		line("Then", f.AfterCancel)
	}
	return b.String()
}

func (f *Fence) phase() string {
	if f.Phase == "" {
		return ""
	}
	return fmt.Sprintf(" (%s/%s)", f.Phase, f.Step)
}

func (f *Fence) level() string {
	switch {
	case f.Level == 0:
		return ""
	case f.Levels == 0:
		return fmt.Sprintf(", level %d", f.Level)
	}
	return fmt.Sprintf(", level %d of %d", f.Level, f.Levels)
}

// method is what a device answered, and what was asked.
func method(m *fencingv1.MethodRecord) string {
	var facts []string
	add := func(when bool, format string, args ...any) {
		if when {
			facts = append(facts, fmt.Sprintf(format, args...))
		}
	}
	add(m.PowerBefore != "", "answered %s first", strings.ToUpper(string(m.PowerBefore)))
	add(m.OffRequested != nil, "off requested at %s", utc(m.OffRequested))
	add(m.Power == fencingv1.PowerUnknown, "did not answer last")
	add(m.Power != "" && m.Power != fencingv1.PowerUnknown, "answered %s last", strings.ToUpper(string(m.Power)))
	add(m.OffRequested != nil && m.Power == "", "no answer since then")
	add(m.OnSucceeded != nil, "switched on at %s", utc(m.OnSucceeded))
	add(m.Ran != nil, "succeeded at %s", utc(m.Ran))
	add(m.Failures == 1, "failed once in this step")
	add(m.Failures > 1, "failed %d times in this step", m.Failures)
	add(m.GivenUp, "not switched on again, so the Node may be off")
	if len(facts) == 0 {
		facts = append(facts, "not asked yet")
	}
	return fmt.Sprintf("%s (%s): %s", m.Name, m.Step, strings.Join(facts, ", "))
}

// ending is how a Job ended.
func ending(job *fencingv1.JobRecord) string {
	switch {
	case job.Result == "":
		return " runs"
	case job.ExitCode == nil:
		return " ended with " + string(job.Result)
	}
	return fmt.Sprintf(" ended with %s (exit code %d)", job.Result, *job.ExitCode)
}

func utc(t *metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
