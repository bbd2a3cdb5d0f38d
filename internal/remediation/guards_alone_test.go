// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// answer is a row about one guard, asked as if there were no others.
type answer struct {
	why     string
	guard   Reason
	options []option
	held    bool
	until   time.Time
	seen    Details
}

func deletingFor(d time.Duration) option { return target(func(t *Target) { t.DeletingSince = ago(d) }) }

func nodeDeletingFor(d time.Duration) option {
	return target(func(t *Target) { t.NodeDeletingSince = ago(d) })
}

func leaving(since time.Time) option {
	return target(func(t *Target) { t.Terminating = Departure{Sign: "ToBeDeletedByClusterAutoscaler", Since: since} })
}

func remembers(failures int, notBefore time.Time) option {
	return target(func(t *Target) { t.History = History{Failures: failures, NotBefore: notBefore} })
}

var wholeCheck = []answer{
	{why: "a check that is not paused acts", guard: Paused},
	{
		why: "one that is, or whose Cluster is, does nothing", guard: Paused, options: []option{check(func(c *Check) { c.Paused = true })},
		held: true,
	},
	{why: "a check that is to stay acts", guard: CheckDeleting},
	{
		why: "one that is about to go starts nothing", guard: CheckDeleting, options: []option{check(func(c *Check) { c.Deleting = true })},
		held: true,
	},
	{why: "mode Enforce acts", guard: ObserveMode},
	{why: "mode Observe does nothing", guard: ObserveMode, options: []option{policy(func(p *Policy) { p.Observe = true })}, held: true},
	{why: "a Cluster that is there is no objection", guard: ClusterNotFound},
	{
		why: "one that is not holds everything", guard: ClusterNotFound,
		options: []option{check(func(c *Check) { c.Cluster = ClusterIsMissing })}, held: true,
	},
	{
		why: "one that is being taken down is still there", guard: ClusterNotFound,
		options: []option{check(func(c *Check) { c.Cluster = ClusterIsDeleting })},
	},
	{why: "a Cluster that is to stay is no objection", guard: ClusterDeleting},
	{
		why: "one that is being taken down takes its Machines with it", guard: ClusterDeleting,
		options: []option{check(func(c *Check) { c.Cluster = ClusterIsDeleting })}, held: true,
	},
	{
		why: "one that does not exist is another story", guard: ClusterDeleting,
		options: []option{check(func(c *Check) { c.Cluster = ClusterIsMissing })},
	},
	{why: "no pause request", guard: PauseRequested},
	{why: "empty list", guard: PauseRequested, options: []option{check(func(c *Check) { c.PauseRequests = []string{} })}},
	{
		why: "two requests: the first by name is reported", guard: PauseRequested, options: []option{check(func(c *Check) { c.PauseRequests = []string{"b: upgrade", "a: holiday"} })},
		held: true, seen: Details{Cause: "a: holiday", Count: 2},
	},
}

var wholeCluster = []answer{
	{why: "a cluster that can be read is no objection", guard: ClusterUnreachable},
	{
		why: "one that cannot holds what only it could confirm: a bad Node", guard: ClusterUnreachable, options: []option{unreachable},
		held: true,
	},
	{why: "Node deleted", guard: ClusterUnreachable, options: []option{unreachable, because(health.NodeDeleted)}, held: true},
	{
		why: "a Node that has not come", guard: ClusterUnreachable, options: []option{unreachable, because(health.NodeStartupTimeout)},
		held: true,
	},
	{
		why: "E6: a person's request counts all the same", guard: ClusterUnreachable, options: []option{unreachable, is(wished)},
		seen: Details{Cause: "HasRemediateAnnotation"},
	},
	{
		why: "but not one that may no longer be on the Node", guard: ClusterUnreachable,
		options: []option{unreachable, func(x *scene) {
			x.verdicts[0].Reason = health.HasRemediateAnnotation
			x.verdicts[0].Findings = []health.Finding{{Rule: health.HasRemediateAnnotation, Met: true, OnNode: true}}
		}},
		held: true,
	},
	{
		why: "E6: so does a condition of the Machine", guard: ClusterUnreachable,
		options: []option{unreachable, because(health.UnhealthyMachine)}, seen: Details{Cause: "UnhealthyMachine"},
	},
	{
		why: "and a Machine that has given up", guard: ClusterUnreachable, options: []option{unreachable, because(health.MachineFailed)},
		seen: Details{Cause: "MachineFailed"},
	},
	{
		why: "one such cause among others", guard: ClusterUnreachable,
		options: []option{unreachable, func(x *scene) {
			x.verdicts[0].Findings = append(x.verdicts[0].Findings, health.Finding{Rule: health.UnhealthyMachine, Met: true})
		}},
		seen: Details{Cause: "UnhealthyMachine"},
	},
	{
		why: "but not one that has not lasted long enough", guard: ClusterUnreachable,
		options: []option{unreachable, func(x *scene) {
			x.verdicts[0].Findings = append(x.verdicts[0].Findings, health.Finding{Rule: health.UnhealthyMachine})
		}},
		held: true,
	},
	{
		why: "as many unhealthy as the limit allows, to the last one", guard: TooManyUnhealthy, options: []option{
			limited(2), also(Target{Name: "m2"}, sickFor(time.Hour)),
		},
		seen: Details{Cause: "maxUnhealthy=2", Count: 2, Max: 2},
	},
	{
		why: "one more is too many", guard: TooManyUnhealthy, options: []option{limited(1), also(Target{Name: "m2"}, sickFor(time.Hour))},
		held: true, seen: Details{Cause: "maxUnhealthy=1", Count: 2, Max: 1},
	},
	{
		why: "too few for a range are not too many", guard: TooManyUnhealthy, options: []option{policy(func(p *Policy) { p.Limits.Range = &Range{3, 5} })},
		seen: Details{Cause: "unhealthyRange=[3-5]", Count: 1, Min: 3, Max: 5},
	},
	{
		why: "but not within it, either", guard: TooFewUnhealthy, options: []option{policy(func(p *Policy) { p.Limits.Range = &Range{2, 5} })},
		held: true, seen: Details{Cause: "unhealthyRange=[2-5]", Count: 1, Min: 2, Max: 5},
	},
	{
		why: "as many as the range begins with are enough", guard: TooFewUnhealthy, options: []option{policy(func(p *Policy) { p.Limits.Range = &Range{1, 5} })},
		seen: Details{Cause: "unhealthyRange=[1-5]", Count: 1, Min: 1, Max: 5},
	},
	{why: "no storm", guard: InStorm, options: []option{cooldown}},
	{
		why: "a storm lasts until it has cooled down", guard: InStorm, options: []option{cooldown, stormy(5*time.Minute - moment)},
		held: true, until: ago(-moment), seen: Details{Since: ago(time.Hour)},
	},
	{why: "to the moment", guard: InStorm, options: []option{cooldown, stormy(5 * time.Minute)}},
	{
		why: "too many unhealthy: no end is known", guard: InStorm, options: []option{cooldown, stormy(0), limited(0)},
		held: true, seen: Details{Since: ago(time.Hour)},
	},
}

func unreachable(x *scene)   { x.situation.Check.Unreachable = true }
func cooldown(x *scene)      { x.policy.StormCooldown = 5 * time.Minute }
func limited(n int32) option { return func(x *scene) { x.policy.Limits.MaxUnhealthy = number(n) } }

// stormy is a storm that began an hour ago, and has been cooling down for so long.
func stormy(cooling time.Duration) option {
	return check(func(c *Check) { c.Storm = Storm{Since: ago(time.Hour), CooldownSince: ago(cooling)} })
}

func because(rule health.Reason) option {
	return func(x *scene) {
		x.verdicts[0].Reason, x.verdicts[0].Findings = rule, []health.Finding{{Rule: rule, Met: true}}
	}
}

func TestGuard_Alone_BlocksAsListed(t *testing.T) {
	for _, rows := range [][]answer{wholeCheck, wholeCluster, oneTarget, controlPlane, places} {
		for _, test := range rows {
			t.Run(string(test.guard)+": "+test.why, func(t *testing.T) {
				g := NewWithT(t)
				g.Expect(usual(test.options...).alone(test.guard)).To(
					Equal([]Answer{{Guard: test.guard, Blocks: test.held, Until: test.until, Details: test.seen}}),
				)
			})
		}
	}
}
