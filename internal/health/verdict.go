// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "time"

// Kind is what was found out about a target.
type Kind uint8

const (
	// Undetermined means: nothing can be said. It is the zero value, and never acted on.
	Undetermined Kind = iota
	// Skipped means: people asked to leave it alone. It is no target.
	Skipped
	// Healthy means: its Node was read, and no rule has anything against it.
	Healthy
	// Suspect means: it will be unhealthy at Until, if nothing changes.
	Suspect
	// Unhealthy means: at least one rule is met.
	Unhealthy
)

// Reason is a cause in one word. Gates and rules have one each.
type Reason string

// Verdict is what was found out about one target, and why.
type Verdict struct {
	Kind Kind
	// Reason is the first cause; empty if it is healthy, unless a gate has called it so unseen.
	Reason Reason
	// Since is when the trouble began: the earliest of all causes of this kind. Zero where nobody knows.
	Since time.Time
	// Until is when the verdict changes by itself, be it that another cause is added to it; zero if it does not.
	Until time.Time
	// NodeGoneSince is what shall be remembered of the disappearance of a Machine's Node; zero for nothing.
	NodeGoneSince time.Time
	// Findings are what every rule had to say, in the order of the rules; those that are met come first.
	Findings []Finding
}

// Recovered says whether a target is known to be well, and not only called healthy because others are to blame.
func (v *Verdict) Recovered() bool {
	return v.Kind == Healthy && v.Reason == ""
}

// Finding is what a rule has to say about a target.
type Finding struct {
	Rule Reason
	// Met: the trouble has lasted long enough. Otherwise it will have at Due.
	Met   bool
	Since time.Time
	Due   time.Time
	// Lasting is how long it must last, by the policy.
	Lasting time.Duration
	// Condition, Status and Cause are those of the condition that the finding is about, if it is about one.
	Condition, Status, Cause string
}

// Assessment is a verdict for each target, in the order of the snapshot, and what they add up to.
type Assessment struct {
	Verdicts []Verdict
	Counts   Counts
	// WakeUp is the earliest time at which a verdict changes by itself; zero if none does.
	WakeUp time.Time
}

// Counts say how many verdicts there are of each kind. Expected are all but the skipped ones.
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

// NeedsNode says whether only the cluster of the Node can confirm a finding. Without it, a finding about the Machine still counts.
func (f *Finding) NeedsNode() bool {
	return f.Rule == NodeDeleted || f.Rule == NodeStartupTimeout || f.Rule == UnhealthyNode || f.Rule == UnhealthyMachine && aboutNode(f.Condition)
}
