// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// leftBehind says what keeps a check that is being deleted, since when, and what a person can do; empty if nothing does, or nothing is done at all.
func leftBehind(p *Pass) string {
	if !p.Situation.Check.Deleting || p.Situation.Check.Frozen || !p.Planned.Finalizer && p.Around.Unseen == "" {
		return ""
	}
	var requests, marks []string
	note := func(name string, r *remediation.Request, marked, paused bool) {
		why := ""
		if paused {
			why = " (it is paused)"
		}
		switch {
		case r != nil && !r.DeletingSince.IsZero():
			requests = append(requests, foreign(name)+" (its deletion was asked for"+when("at", r.DeletingSince)+")")
		case r != nil:
			requests = append(requests, foreign(name)+why)
		case marked:
			marks = append(marks, foreign(name)+why)
		}
	}
	for i := range p.Situation.Targets {
		t := &p.Situation.Targets[i]
		note(t.Name, t.Request, t.Mark.Ours, p.Assessment.Verdicts[i].Reason == health.Paused)
	}
	for i := range p.Situation.Strays {
		s := &p.Situation.Strays[i]
		note(s.Name, s.Request, s.Marked, s.Frozen)
	}
	said := []string{"The check is being deleted, and goes when nothing of it is left"}
	// What a person has to do comes first: the end of a long text may be cut off.
	if why := foreign(p.Around.Unseen); why != "" {
		said = append(said, "There may be requests that cannot be seen: "+why,
			"Mend that; or, if you know that there are none, take the finalizer "+remedyv1.CleanupFinalizer+" off the check")
	}
	if len(requests) > 0 {
		slices.Sort(requests)
		said = append(said, "There are requests for "+listed(requests, ", ", maxCauses), "They go when whoever has a finalizer on them takes it off")
	}
	if len(marks) > 0 {
		slices.Sort(marks)
		said = append(said, "There is what it wrote on "+listed(marks, ", ", maxCauses))
	}
	return sentences(said...)
}
