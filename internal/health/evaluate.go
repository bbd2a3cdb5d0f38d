// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "time"

// Evaluate judges every target by the facts of the snapshot and the policy, as of now. It changes neither.
func Evaluate(snapshot *Snapshot, policy *Policy, now time.Time) Assessment {
	a := Assessment{Verdicts: make([]Verdict, len(snapshot.Targets))}
	for i := range snapshot.Targets {
		verdict := judge(&snapshot.Targets[i], &snapshot.Cluster, policy, now)
		if t := &snapshot.Targets[i]; t.Machine != nil {
			verdict.NodeGoneSince = t.goneSince(now)
		}
		a.Verdicts[i] = verdict
		a.Counts.add(verdict.Kind)
		a.WakeUp = earliest(a.WakeUp, verdict.Until)
	}
	return a
}

// judge: gates first, the first that matches wins; then all rules speak; then what they said is summed up.
func judge(t *Target, c *ClusterFacts, p *Policy, now time.Time) Verdict {
	for i := range gates {
		verdict, answer := gates[i].asks(t, c, now)
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

// findings lets every rule speak. It allocates nothing for a target that none of them has anything against.
func findings(t *Target, c *ClusterFacts, p *Policy, now time.Time) []Finding {
	var all []Finding
	for i := range rules {
		all = rules[i].speak(all, t, c, p, now)
	}
	return all
}

// sumUp is the verdict that follows from what the rules said. What is met outweighs what is only due; a target about which nobody
// has said anything is healthy only if its Node was read and it is here to stay.
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

// verdictOf makes a verdict of the findings that are met, or of those that are not; false if there are none.
func verdictOf(all []Finding, kind Kind, met bool) (Verdict, bool) {
	v := Verdict{Kind: kind}
	found := false
	for i := range all {
		f := &all[i]
		if !f.Met {
			// What is only about to become a cause changes the verdict as well, even where there is one already.
			v.Until = earliest(v.Until, f.Due)
		}
		if f.Met != met {
			continue
		}
		if !found {
			v.Reason = f.Rule
		}
		found = true
		v.Since = earliest(v.Since, f.Since)
	}
	if !found {
		return Verdict{}, false
	}
	v.Findings = metFirst(all)
	return v, true
}

// metFirst puts the causes before what is only about to become one, and keeps the order of the rules otherwise.
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

// Reasons of a target that no gate and no rule speaks of, and which is not known to be healthy.
const (
	// Deleting means: the Machine is on its way out.
	Deleting Reason = "Deleting"
	// NodeNotJoined means: the Machine has no Node yet, and may take as long as it likes.
	NodeNotJoined Reason = "NodeNotJoined"
	// NodeUnreadable means: the Node could not be read.
	NodeUnreadable Reason = "NodeUnreadable"
)
