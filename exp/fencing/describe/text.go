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
	line("Proven", f.Proven)
	line("Release", Release(f.Release))
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

// facts are parts of a sentence.
type facts []string

func (f *facts) add(when bool, format string, args ...any) {
	if when {
		*f = append(*f, fmt.Sprintf(format, args...))
	}
}

func (f *facts) String() string { return strings.Join(*f, ", ") }

// Release returns what is known of a release; empty if it has not begun.
func Release(r *fencingv1.ReleaseRecord) string {
	if r == nil {
		return ""
	}
	known, terminating, ended := facts{}, r.TerminatingAt != nil, r.EndedAt != nil
	known.add(!terminating && !ended, "Pods are deleted since %s", utc(&r.StartedAt))
	known.add(!terminating && ended, "no Pod had to be removed")
	known.add(terminating && r.Pods == 1, "1 Pod terminating since %s", utc(r.TerminatingAt))
	known.add(terminating && r.Pods != 1, "%d Pods terminating since %s", r.Pods, utc(r.TerminatingAt))
	known.add(r.ProvenAt != nil, "proven again at %s", utc(r.ProvenAt))
	known.add(terminating && ended && len(r.Left) == 0, "removed at %s", utc(r.EndedAt))
	known.add(len(r.Left) > 0, "not removed in time: %s", strings.Join(r.Left, ", "))
	return known.String()
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
	known := facts{}
	known.add(m.PowerBefore != "", "answered %s first", strings.ToUpper(string(m.PowerBefore)))
	known.add(m.OffRequested != nil, "off requested at %s", utc(m.OffRequested))
	known.add(m.Power == fencingv1.PowerUnknown, "did not answer last")
	known.add(m.Power != "" && m.Power != fencingv1.PowerUnknown, "answered %s last", strings.ToUpper(string(m.Power)))
	known.add(m.OffRequested != nil && m.Power == "", "no answer since then")
	known.add(m.OnSucceeded != nil, "switched on at %s", utc(m.OnSucceeded))
	known.add(m.Ran != nil, "succeeded at %s", utc(m.Ran))
	known.add(m.Failures == 1, "failed once in this step")
	known.add(m.Failures > 1, "failed %d times in this step", m.Failures)
	known.add(m.GivenUp, "not switched on again, so the Node may be off")
	known.add(len(known) == 0, "not asked yet")
	return fmt.Sprintf("%s (%s): %s", m.Name, m.Step, known.String())
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
