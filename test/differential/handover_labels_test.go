// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package differential_test

import (
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/intree"
)

// A check was never adopted, because the in-tree controller has not acknowledged the pause, and reports that. When it gets the label of another
// instance, that report is removed.
func TestWatchFilter_NeverAdopted_ConditionIsRemoved(t *testing.T) {
	for when, away := range map[string]bool{"while Remedy runs": false, "while Remedy is down": true} {
		t.Run(when, func(t *testing.T) {
			a := newEnvironment(t)
			a.takesOver, a.watchFilter = intree.AdoptionPolicy{All: true}, "mine"
			c := &inTreeCheck{environment: a, check: a.coreCheck("check")}
			c.check.Labels = map[string]string{clusterv1.WatchLabel: a.watchFilter}
			a.create(c.check)
			remedyEnv := a.goes()
			a.Eventually(c.condition(remedyv1.AdoptedCondition)).Should(Equal("False " + remedyv1.WaitingForHandoverReason))
			if away {
				remedyEnv.stop()
			}
			c.isFor("others")
			if away {
				a.goes()
			}
			a.Eventually(c.traces).Should(BeEmpty())
		})
	}
}

// A check is released because it has the label of another instance, and another writer writes to it just before its report is removed.
func TestWatchFilter_ConcurrentWrite_ConditionIsRemoved(t *testing.T) {
	a := newEnvironment(t)
	a.takesOver, a.watchFilter = intree.AdoptionPolicy{All: true}, "mine"
	c, _ := a.pool("check")
	c.isFor(a.watchFilter)
	tap, first, goes, other := newTap(), sync.Once{}, atomic.Bool{}, c.byAnother()
	tap.meddle = func(at place, status bool) {
		if at == (place{"machinehealthchecks", "check"}) && status && goes.Load() {
			first.Do(func() { other.annotate("example.org/note", "by hand") })
		}
	}
	a.start(tap.of(ourProcesses, server.Admin), &shifted{})
	c.isOurs()
	a.Eventually(c.condition(remedyv1.ReadyCondition)).Should(HavePrefix("True"))
	goes.Store(true)
	c.isFor("others")
	a.Eventually(c.traces).Should(BeEmpty())
}
