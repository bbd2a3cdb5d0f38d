// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"time"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/report"
)

// Report tells on every Machine how it is, on the check what was found, and everybody else what is new: in that order.
func (v *visit) Report(ctx context.Context, pass *explain.Pass) error {
	if pass.Situation.Check.Frozen {
		return v.tellPaused(ctx, pass)
	}
	if v.silent = v.silent || !v.speaks(); v.silent {
		return v.tellOthers(ctx, pass)
	}
	v.record.observeNodes(v.seen.machines, pass.Assessment.Verdicts)
	failed := v.tellMachines(ctx, pass)
	if v.silent {
		return utilerrors.NewAggregate(append(failed, v.tellOthers(ctx, pass)))
	}
	news, ended := v.record.reported.Learn(pass, v.now)
	if err := v.tellStatus(ctx, v.status(pass, v.record.reported.Unwritten())); err != nil {
		failed = append(failed, err)
	} else {
		v.record.reported.Written()
	}
	v.tellNews(ctx, news)
	v.count(pass, ended)
	return utilerrors.NewAggregate(failed)
}

// tellOthers tells what was done before somebody said stop, and writes to nothing: what is in the way will stand on the check when our caches show it.
func (v *visit) tellOthers(ctx context.Context, pass *explain.Pass) error {
	v.seen.askAgain(v.clock().Add(conflictTime))
	news, ended := v.record.reported.Learn(pass, v.now)
	v.tellNews(ctx, news)
	v.count(pass, ended)
	return nil
}

// tellMachines tells Machines how they are, until the time is over.
func (v *visit) tellMachines(ctx context.Context, pass *explain.Pass) (failed []error) {
	end := v.r.Clock.Now().Add(healthTime)
	order := v.record.healthOrder(pass, v.seen.machines)
	v.record.healthAfter = ""
	for _, i := range order {
		facts := pass.Facts(i)
		tried, err := v.tellHealth(ctx, i, &facts, &pass.Situation.Check)
		if err != nil {
			failed = append(failed, errors.Wrap(err, facts.Name))
		}
		if !tried || v.r.Clock.Now().Before(end) {
			continue
		}
		if len(failed) == 0 {
			v.seen.askAgain(v.clock())
		} else {
			v.record.healthAfter = v.seen.machines[i].UID
		}
		return failed
	}
	return failed
}

// tellHealth sets conditions on a Machine, and says whether it had to try that: it may have them already.
func (v *visit) tellHealth(ctx context.Context, i int, facts *explain.Facts, check *remediation.Check) (tried bool, err error) {
	wanted := explain.ForMachine(facts, check)
	m := v.latest(v.seen.machines[i])
	if v.pausedNow[m.Name] || report.MachineSays(m, &wanted) {
		return false, nil
	}
	if told, err := v.mayTell(ctx); err != nil || !told {
		return true, err
	}
	err = v.patchStatus(ctx, m, func(m *clusterv1.Machine) { report.TellMachine(m, &wanted, v.now) })
	if errors.Is(err, errGone) {
		return true, nil
	}
	return true, err
}

// speaks says whether it is our word that counts on a check and its Machines. One that is about to go is cleaned up also where Cluster API's own controller
// has not left it to us, or not any more: until it has gone, that one tells how it is.
func (v *visit) speaks() bool {
	paused, _ := pausedByTheirs(v.check.Status.Conditions)
	return kindOf(v.check) != coreKind || v.r.Core.Exclusive || paused
}

// readTime is how long it counts that a check was still the manager's.
const readTime = 3 * time.Second

// mayTell looks past the caches whether a check of Cluster API is still ours, if that was not done a moment ago: its own controller may look after the
// Machines by now, and has its own word on them. Nobody else has a word on those of our own kind.
func (v *visit) mayTell(ctx context.Context) (bool, error) {
	if kindOf(v.check) != coreKind || v.silent || v.r.Clock.Now().Sub(v.looked) < readTime {
		return !v.silent, nil
	}
	looked := v.r.Clock.Now()
	obstacle, err := v.Obstacle(ctx)
	if err != nil || obstacle != nil {
		v.silent = v.silent || err == nil
		return false, err
	}
	v.looked = looked
	return true, nil
}

// tellMachine asks the owner of a Machine to remediate it, and says why.
func (v *visit) tellMachine(ctx context.Context, target int, verdict *health.Verdict, d *remediation.Decision) error {
	facts := v.facts
	wanted := explain.ForMachine(&explain.Facts{
		Name: v.seen.machines[target].Name, Node: v.seen.machines[target].Status.NodeRef.Name,
		Verdict: verdict, Decision: d, Target: &facts.Situation.Targets[target], Policy: &facts.Policy,
	}, &facts.Situation.Check)
	return v.patchStatus(ctx, v.seen.machines[target], func(m *clusterv1.Machine) { report.TellMachine(m, &wanted, v.now) })
}

// status is what a check reports of a pass.
func (v *visit) status(pass *explain.Pass, ended []remedyv1.RecentRemediation) remedyv1.MachineHealthCheckStatus {
	before := &v.check.Status
	counted := explain.Status(pass, v.request)
	counts := &pass.Assessment.Counts
	status := remedyv1.MachineHealthCheckStatus{
		CheckStatus:      report.Status(&before.CheckStatus, &counted, ended, v.check.Generation, v.now),
		ExpectedMachines: explain.Number(counts.Expected),
		CurrentHealthy:   explain.Number(pass.Planned.Counts.Healthy),
	}
	for i := range pass.Snapshot.Targets {
		if len(status.Targets) == maxTargets {
			break
		}
		if pass.Assessment.Verdicts[i].Kind != health.Skipped {
			status.Targets = append(status.Targets, pass.Snapshot.Targets[i].Name)
		}
	}
	return status
}

// maxTargets is how many names status lists.
const maxTargets = 1000

// request names the request of a Machine; nil if there is none.
func (v *visit) request(target int) *remedyv1.RequestReference {
	m := v.seen.machines[target]
	if found := v.seen.requestFor(m); found != nil {
		return found.Ref()
	}
	return v.made[m.Name]
}

// tellPaused writes nothing but that the check is paused, and what follows for whoever looks at its conditions. All numbers stay as they were. Where it is
// not our word that counts, who has it says so.
func (v *visit) tellPaused(ctx context.Context, pass *explain.Pass) error {
	if !v.speaks() {
		v.count(pass, nil)
		return nil
	}
	after := v.check.DeepCopy()
	for _, told := range report.Conditions(after.Status.Conditions, explain.WhilePaused(pass), v.check.Generation, v.now) {
		meta.SetStatusCondition(&after.Status.Conditions, told)
	}
	err := v.tellStatus(ctx, after.Status)
	v.count(pass, nil)
	return err
}
