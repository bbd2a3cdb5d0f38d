// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "time"

// Evaluate returns the verdict about every target at this time. It does not change its arguments.
func Evaluate(snapshot *Snapshot, policy *Policy, now time.Time) Assessment {
	a := Assessment{Verdicts: make([]Verdict, len(snapshot.Targets))}
	for i := range snapshot.Targets {
		verdict := judge(&snapshot.Targets[i], &snapshot.Cluster, policy, now)
		if t := &snapshot.Targets[i]; t.Machine != nil {
			verdict.NodeGoneSince = t.goneSince(now)
		}
		a.Verdicts[i] = verdict
		a.Counts.add(verdict.Kind)
		a.WakeUp = Earliest(a.WakeUp, verdict.Until)
	}
	return a
}

// judge runs the gates, of which the first that matches wins, and then all rules.
func judge(t *Target, c *ClusterFacts, p *Policy, now time.Time) Verdict {
	for i := range gates {
		verdict, answer := gates[i].match(t, c, now)
		switch answer {
		case closed:
			verdict.Reason = gates[i].reason
			return verdict
		case through:
			return sumUp(t, findings(t, c, p, now))
		case next:
		}
	}
	return sumUp(t, findings(t, c, p, now))
}

// findings runs every rule. It allocates nothing for a healthy target.
func findings(t *Target, c *ClusterFacts, p *Policy, now time.Time) []Finding {
	var all []Finding
	for i := range rules {
		all = rules[i].find(all, t, c, p, now)
	}
	return all
}

// sumUp is the verdict that follows from the findings. Findings that are met win over those that are not. Without findings, a target is
// healthy only if its Node was read and it is not being deleted.
func sumUp(t *Target, all []Finding) Verdict {
	if v, found := verdictOf(all, Unhealthy, true); found {
		return v
	}
	if v, found := verdictOf(all, Suspect, false); found {
		return v
	}
	switch {
	case t.Machine != nil && t.Machine.Deleting:
		return Verdict{Kind: Undetermined, Reason: Deleting}
	case t.nodeState() == Present:
		return Verdict{Kind: Healthy}
	case t.nodeState() == NotJoined:
		return Verdict{Kind: Undetermined, Reason: NodeNotJoined}
	default:
		return Verdict{Kind: Undetermined, Reason: NodeUnreadable}
	}
}

// verdictOf is the verdict of the findings that are met, or of those that are not; false if there are none.
func verdictOf(all []Finding, kind Kind, met bool) (Verdict, bool) {
	v := Verdict{Kind: kind}
	found := false
	for i := range all {
		f := &all[i]
		if !f.Met {
			// Another cause changes the verdict, too.
			v.Until = Earliest(v.Until, f.Due)
		}
		if f.Met != met {
			continue
		}
		if !found {
			v.Reason = f.Rule
		}
		found = true
		v.Since = Earliest(v.Since, f.Since)
	}
	if !found {
		return Verdict{}, false
	}
	v.Findings = metFirst(all)
	return v, true
}

// metFirst puts the findings that are met first, and otherwise keeps the order of the rules.
func metFirst(all []Finding) []Finding {
	ordered := make([]Finding, 0, len(all))
	for _, met := range []bool{true, false} {
		for i := range all {
			if all[i].Met == met {
				ordered = append(ordered, all[i])
			}
		}
	}
	return ordered
}

// Reasons of a target without findings that is not known to be healthy.
const (
	// Deleting means: the Machine is being deleted.
	Deleting Reason = "Deleting"
	// NodeNotJoined means: the Machine has no Node yet, and nodeStartupTimeout is 0.
	NodeNotJoined Reason = "NodeNotJoined"
	// NodeUnreadable means: the Node could not be read.
	NodeUnreadable Reason = "NodeUnreadable"
)
