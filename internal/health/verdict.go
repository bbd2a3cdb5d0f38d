// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "time"

// Kind is the result for a target.
type Kind uint8

const (
	// Undetermined means: the health is unknown. It is the zero value, and never leads to an action.
	Undetermined Kind = iota
	// Skipped means: an annotation excludes it.
	Skipped
	// Healthy means: its Node was read, and there is no finding.
	Healthy
	// Suspect means: it will be unhealthy at Until, if nothing changes.
	Suspect
	// Unhealthy means: at least one rule is met.
	Unhealthy
)

// Reason is a cause in one word. Every gate and every rule has one.
type Reason string

// Verdict is the result for one target, and why.
type Verdict struct {
	Kind Kind
	// Reason is the first cause; empty if it is healthy, unless that is the verdict of a gate.
	Reason Reason
	// Since is the earliest beginning of all causes of this kind; zero if that is not known.
	Since time.Time
	// Until is when the verdict or its causes change without a watch event; zero if they do not.
	Until time.Time
	// NodeGoneSince is to be recorded on the Machine; zero if its Node exists.
	NodeGoneSince time.Time
	// Findings are in the order of the rules; those that are met come first.
	Findings []Finding
	// OnNode: the annotation that skips the target is that of Nodes.
	OnNode bool
}

// Recovered reports whether a target is healthy by its findings and not by a gate.
func (v *Verdict) Recovered() bool {
	return v.Kind == Healthy && v.Reason == ""
}

// Finding is the result of a rule.
type Finding struct {
	Rule Reason
	// Met: it has lasted long enough. Otherwise it will have at Due.
	Met   bool
	Since time.Time
	Due   time.Time
	// Lasting is how long it must last.
	Lasting time.Duration
	// Claimed is the time of the condition, if it is before Since because another status was read then; zero otherwise.
	Claimed time.Time
	// Condition, Status and Cause are those of the condition, if there is one.
	Condition, Status, Cause string
	// OnNode: the annotation that requests remediation is that of Nodes.
	OnNode bool
}

// Assessment is the verdicts in the order of the snapshot, and their counts.
type Assessment struct {
	Verdicts []Verdict
	Counts   Counts
	// WakeUp is when a verdict changes without a watch event; zero if none does.
	WakeUp time.Time
}

// Counts are the numbers of verdicts by kind. Expected are all but the skipped ones.
type Counts struct {
	Expected, Healthy, Suspect, Unhealthy, Undetermined, Skipped int
}

func (c *Counts) add(kind Kind) {
	if kind != Skipped {
		c.Expected++
	}
	switch kind {
	case Undetermined:
		c.Undetermined++
	case Skipped:
		c.Skipped++
	case Healthy:
		c.Healthy++
	case Suspect:
		c.Suspect++
	case Unhealthy:
		c.Unhealthy++
	}
}

// NeedsNode reports whether a finding cannot be verified while the workload cluster is unreachable.
func (f *Finding) NeedsNode() bool {
	return f.Rule == NodeDeleted || f.Rule == NodeStartupTimeout || f.Rule == UnhealthyNode ||
		f.Rule == UnhealthyMachine && AboutNode(f.Condition) || f.Rule == HasRemediateAnnotation && f.OnNode
}
