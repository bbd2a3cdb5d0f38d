// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import "time"

// storms is what a check has seen of its limit, pass by pass.
type storms struct {
	// active: too many were unhealthy. kept is since when that is over.
	active bool
	kept   time.Time
}

// noteView writes down what a pass has seen of the limit, once what follows from it has been noted on the check.
func (w *World) noteView(r *run) {
	live := w.API.Checks[r.name]
	// A check that was stopped by a pause has recorded nothing, and a view of the past proves nothing about now.
	if w.log == nil || r.noted || r.halted || live == nil || r.view.Paused || r.check.Paused || live.Version != r.check.Version+r.written["check/"+r.name] {
		return
	}
	if r.noted = true; w.log.storms[r.name] == nil {
		w.log.storms[r.name] = &storms{}
	}
	s, l := w.log.storms[r.name], w.limits(r)
	defer func() { r.storm = s.active }()
	switch {
	case r.check.Policy.StormCooldown <= 0 || r.check.Policy.Observe:
		*s = storms{}
	case r.view.NoControlPlane || !r.conn.Up || r.conn.Breaking || w.Now.Before(r.conn.ReconnectingUntil):
		s.kept = time.Time{}
	case l.sick > l.most:
		*s = storms{active: true}
		w.premise("I4 a storm begins")
	case !s.active:
	case s.kept.IsZero():
		s.kept = w.Now
		w.premise("I4 a storm cools down")
	case !w.Now.Before(s.kept.Add(r.check.Policy.StormCooldown)):
		*s = storms{}
		w.premise("I4 a storm is over")
	}
}

func (w *World) stormy(check string) bool {
	return w.log != nil && w.log.storms[check] != nil && w.log.storms[check].active
}
