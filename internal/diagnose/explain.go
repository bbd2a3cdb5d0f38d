// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"slices"
	"strings"

	"github.com/pkg/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// Explanation is why a Machine is (not) being remediated, and when it will be.
type Explanation struct {
	Machine string `json:"machine"`
	Node    string `json:"node,omitempty"`
	Cluster string `json:"cluster"`
	// Check is the responsible check; empty if there is none.
	Check string `json:"check,omitempty"`
	// Responsible is why there is no responsible check, or which others select the Machine.
	Responsible []string `json:"responsible,omitempty"`
	// Unread is what the user is not allowed to read, and what the evaluation lacks because of that.
	Unread []string `json:"unread,omitempty"`
	// EvaluatedTime is when the check was evaluated.
	EvaluatedTime *metav1.Time `json:"evaluatedTime,omitempty"`
	// Evaluation has the results of all rules and guards; nil if no check was evaluated.
	Evaluation *explain.Trace `json:"evaluation,omitempty"`
	// NextCheckTime is when the decision changes if nothing else happens.
	NextCheckTime *metav1.Time `json:"nextCheckTime,omitempty"`
	// Request is the remediation request of the Machine.
	Request string `json:"request,omitempty"`
	// Reported is what the manager reports about the Machine in the status of the check; nil if it reports nothing.
	Reported *remedyv1.UnhealthyTarget `json:"reported,omitempty"`
	// ReportedReady is the condition Ready of the check.
	ReportedReady string `json:"reportedReady,omitempty"`
}

// Explain evaluates the checks that select a Machine.
func (c *Cluster) Explain(ctx context.Context, s Subject) (*Explanation, error) {
	m, err := c.machineOf(ctx, s)
	if err != nil {
		return nil, err
	}
	x := &Explanation{
		Machine: client.ObjectKeyFromObject(m).String(),
		Node:    m.Status.NodeRef.Name,
		Cluster: m.Namespace + "/" + m.Spec.ClusterName,
	}
	unreadable := map[string]bool{}
	all := needs(m)
	var refused []string
	for i := range all {
		lacking, err := c.missing(ctx, &all[i])
		switch {
		case err != nil:
			return nil, err
		case lacking == "":
		case all[i].without == "":
			refused = append(refused, lacking)
		default:
			unreadable[all[i].resource.String()] = true
			x.Unread = append(x.Unread, "You are not allowed to "+lacking+": "+all[i].without)
		}
	}
	if len(refused) > 0 {
		return nil, errors.Errorf("failed to evaluate Machine %s: you are not allowed to %s. Ask an administrator for these permissions",
			x.Machine, strings.Join(refused, ", or to "))
	}
	return x, c.evaluate(ctx, m, x, func(check client.Object) bool {
		switch check.(type) {
		case *clusterv1.MachineHealthCheck:
			return !unreadable[inTreeKind]
		case *remedyv1.NodeHealthCheck:
			return !unreadable["nodehealthchecks."+remedyv1.GroupVersion.Group]
		}
		return true
	})
}

func (c *Cluster) evaluate(ctx context.Context, m *clusterv1.Machine, x *Explanation, readable func(client.Object) bool) error {
	checks, err := c.checksOf(ctx, m, readable)
	if err != nil {
		return err
	}
	selecting := slices.DeleteFunc(slices.Clone(checks), func(c check) bool { return !c.selects })
	if len(selecting) == 0 {
		x.Responsible = []string{noCheck(x.Cluster, checks)}
		return nil
	}
	var e *evaluator
	for i := range selecting {
		one := &selecting[i]
		if one.kind == "" {
			x.Responsible = append(x.Responsible, one.title()+" selects this Machine, and Cluster API's controller reconciles that check")
			continue
		}
		if e == nil {
			if e, err = c.newEvaluator(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.ClusterName}, readable); err != nil {
				return err
			}
			defer e.stop()
		}
		found, err := e.reconciler(one.kind).Explain(ctx, client.ObjectKeyFromObject(one.object))
		if err != nil {
			return readError(err, one.title())
		}
		x.add(one, found, m.Name)
	}
	return nil
}

// add adds the evaluation of a check. That of the responsible check is the answer.
func (x *Explanation) add(of *check, found *healthcheck.Explained, machine string) {
	evaluation := found.Evaluation
	i := slices.IndexFunc(evaluation.Situation.Targets, func(t remediation.Target) bool { return t.Name == machine })
	if i < 0 {
		return
	}
	if by := evaluation.Situation.Targets[i].CoveredBy; by != "" {
		x.Responsible = append(x.Responsible, of.title()+" selects this Machine, too, and "+by+" is responsible")
		if x.Evaluation != nil {
			return
		}
	} else {
		x.Check = of.title()
	}
	trace := evaluation.Trace(i)
	x.Evaluation, x.Request = &trace, found.Requests[i]
	x.EvaluatedTime = &metav1.Time{Time: found.Time.UTC()}
	x.NextCheckTime = trace.Decision.Until
	if v := evaluation.Assessment.Verdicts[i]; x.NextCheckTime == nil && v.Kind == health.Suspect {
		x.NextCheckTime = trace.Verdict.Until
	}
	x.Reported, x.ReportedReady = nil, ""
	status := &found.Check.Status
	for n := range status.UnhealthyTargets {
		if t := &status.UnhealthyTargets[n]; t.Name == machine {
			x.Reported = t
		}
	}
	for n := range status.Conditions {
		if c := &status.Conditions[n]; c.Type == remedyv1.ReadyCondition && c.Status != metav1.ConditionTrue {
			x.ReportedReady = string(c.Status) + " (" + c.Reason + "): " + c.Message
		}
	}
}

// noCheck is why no check is responsible for a Machine.
func noCheck(cluster string, checks []check) string {
	if len(checks) == 0 {
		return "No MachineHealthCheck names the Cluster " + cluster + ", so nothing remediates this Machine. Create one"
	}
	titles := make([]string, len(checks))
	for i := range checks {
		titles[i] = checks[i].title()
	}
	slices.Sort(titles)
	return "No check selects this Machine by its labels, so nothing remediates it. The checks of its Cluster are: " + strings.Join(
		titles,
		", ",
	)
}
