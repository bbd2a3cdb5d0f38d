// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

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

func passes(guard Reason, why string, seen Details, options ...option) answer {
	return answer{why: why, guard: guard, options: options, seen: seen}
}

func blocks(guard Reason, why string, until time.Time, seen Details, options ...option) answer {
	return answer{why: why, guard: guard, options: options, held: true, until: until, seen: seen}
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
	passes(Paused, "a check that is not paused acts", Details{}),
	blocks(Paused, "one that is, or whose Cluster is, does nothing", never, Details{}, pausedCheck),
	passes(CheckDeleting, "a check that is to stay acts", Details{}),
	blocks(CheckDeleting, "one that is about to go starts nothing", never, Details{}, goes),
	passes(ObserveMode, "mode Enforce acts", Details{}),
	blocks(ObserveMode, "mode Observe does nothing", never, Details{}, observes),
	passes(ClusterNotFound, "a Cluster that is there is no objection", Details{}),
	blocks(ClusterNotFound, "one that is not holds everything", never, Details{}, clusterIs(ClusterIsMissing)),
	passes(ClusterNotFound, "one that is being taken down is still there", Details{}, clusterIs(ClusterIsDeleting)),
	passes(ClusterDeleting, "a Cluster that is to stay is no objection", Details{}),
	blocks(ClusterDeleting, "one that is being taken down takes its Machines with it", never, Details{}, clusterIs(ClusterIsDeleting)),
	passes(ClusterDeleting, "one that does not exist is another story", Details{}, clusterIs(ClusterIsMissing)),
	passes(PauseRequested, "no pause request", Details{}),
	passes(PauseRequested, "empty list", Details{}, check(func(c *Check) { c.PauseRequests = []string{} })),
	blocks(PauseRequested, "two requests: the first by name is reported", never, Details{Cause: "a: holiday", Count: 2},
		check(func(c *Check) { c.PauseRequests = []string{"b: upgrade", "a: holiday"} })),
}

func kubeletsHave(d time.Duration) option {
	return check(func(c *Check) { c.KubeletsUntil = noon.Add(d) })
}

func clockIsAhead(d time.Duration) option { return check(func(c *Check) { c.ClockOffset = d }) }

var wholeCluster = []answer{
	passes(ClockSkew, "clocks differ a little", Details{Cause: "30s"}, clockIsAhead(30*time.Second)),
	blocks(ClockSkew, "a clock that is ahead makes every deadline early", never, Details{Cause: "10m0s"}, clockIsAhead(10*time.Minute)),
	blocks(ClockSkew, "one that is behind, too, at another time", never, Details{Cause: "31s"}, clockIsAhead(-31*time.Second)),
	blocks(ReconnectGracePeriod, "the manager has just started, and a kubelet has not reported", ago(-moment), Details{}, kubeletsHave(moment)),
	passes(ReconnectGracePeriod, "to the moment", Details{}, kubeletsHave(0)),
	passes(ReconnectGracePeriod, "a kubelet has reported that", Details{}, kubeletsHave(moment),
		finding(func(f *health.Finding) { f.Status = string(corev1.ConditionFalse) })),
	blocks(ReconnectGracePeriod, "one that has not joined could not", ago(-moment), Details{}, kubeletsHave(moment), because(health.NodeStartupTimeout)),
	blocks(ReconnectGracePeriod, "Cluster API copies what the node controller reports", ago(-moment), Details{}, kubeletsHave(moment),
		finding(func(f *health.Finding) { f.Rule, f.Condition = health.UnhealthyMachine, "NodeReady" })),
	passes(ReconnectGracePeriod, "nor has a Machine a kubelet", Details{}, kubeletsHave(moment), because(health.MachineFailed)),
	passes(ClusterUnreachable, "a cluster that can be read is no objection", Details{}),
	blocks(ClusterUnreachable, "one that cannot holds what only it could confirm: a bad Node", never, Details{}, unreachable),
	blocks(ClusterUnreachable, "Node deleted", never, Details{}, unreachable, because(health.NodeDeleted)),
	blocks(ClusterUnreachable, "a Node that has not come", never, Details{}, unreachable, because(health.NodeStartupTimeout)),
	passes(ClusterUnreachable, "E6: a person's request counts all the same", Details{Cause: "HasRemediateAnnotation"}, unreachable,
		is(wished)),
	blocks(ClusterUnreachable, "but not one that may no longer be on the Node", never, Details{}, unreachable, func(x *scene) {
		x.verdicts[0].Reason = health.HasRemediateAnnotation
		x.verdicts[0].Findings = []health.Finding{{Rule: health.HasRemediateAnnotation, Met: true, OnNode: true}}
	}),
	passes(ClusterUnreachable, "E6: so does a condition of the Machine", Details{Cause: "UnhealthyMachine"}, unreachable,
		because(health.UnhealthyMachine)),
	passes(ClusterUnreachable, "and a Machine that has given up", Details{Cause: "MachineFailed"}, unreachable, because(health.MachineFailed)),
	passes(ClusterUnreachable, "one such cause among others", Details{Cause: "UnhealthyMachine"}, unreachable,
		func(x *scene) {
			x.verdicts[0].Findings = append(x.verdicts[0].Findings, health.Finding{Rule: health.UnhealthyMachine, Met: true})
		}),
	blocks(ClusterUnreachable, "but not one that has not lasted long enough", never, Details{}, unreachable,
		func(x *scene) {
			x.verdicts[0].Findings = append(x.verdicts[0].Findings, health.Finding{Rule: health.UnhealthyMachine})
		}),
	passes(TooManyUnhealthy, "as many unhealthy as the limit allows, to the last one", Details{Cause: "maxUnhealthy=2", Count: 2, Max: 2},
		limited(2), also(Target{Name: "m2"}, sickFor(time.Hour))),
	blocks(TooManyUnhealthy, "one more is too many", never, Details{Cause: "maxUnhealthy=1", Count: 2, Max: 1}, limited(1),
		also(Target{Name: "m2"}, sickFor(time.Hour))),
	passes(TooManyUnhealthy, "too few for a range are not too many", Details{Cause: "unhealthyRange=[3-5]", Count: 1, Min: 3, Max: 5},
		limitedTo(&Range{3, 5})),
	blocks(TooFewUnhealthy, "but not within it, either", never, Details{Cause: "unhealthyRange=[2-5]", Count: 1, Min: 2, Max: 5},
		limitedTo(&Range{2, 5})),
	passes(TooFewUnhealthy, "as many as the range begins with are enough", Details{Cause: "unhealthyRange=[1-5]", Count: 1, Min: 1, Max: 5},
		limitedTo(&Range{1, 5})),
	passes(InStorm, "no storm", Details{}, cooldown),
	blocks(InStorm, "a storm lasts until it has cooled down", ago(-moment), Details{Since: ago(time.Hour)}, cooldown,
		stormy(5*time.Minute-moment)),
	passes(InStorm, "to the moment", Details{}, cooldown, stormy(5*time.Minute)),
	blocks(InStorm, "too many unhealthy: no end is known", never, Details{Since: ago(time.Hour)}, cooldown, stormy(0), limited(0)),
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
