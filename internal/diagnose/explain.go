// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// Explanation is why a Machine or Node is (not) being remediated, and when it will be.
type Explanation struct {
	// Machine is empty for a Node without one, and Cluster for a Node of the cluster that the kubeconfig selects.
	Machine string `json:"machine,omitempty"`
	Node    string `json:"node,omitempty"`
	Cluster string `json:"cluster,omitempty"`
	// Check is the responsible check; empty if there is none.
	Check string `json:"check,omitempty"`
	// Responsible is why there is no responsible check, or which others select the target.
	Responsible []string `json:"responsible,omitempty"`
	// Unread is what the user is not allowed to read, and what the evaluation lacks because of that.
	Unread []string `json:"unread,omitempty"`
	// EvaluatedTime is when the check was evaluated.
	EvaluatedTime *metav1.Time `json:"evaluatedTime,omitempty"`
	// Evaluation has the results of all rules and guards; nil if no check was evaluated.
	Evaluation *explain.Trace `json:"evaluation,omitempty"`
	// NextCheckTime is when the decision changes if nothing else happens.
	NextCheckTime *metav1.Time `json:"nextCheckTime,omitempty"`
	// Advice is what a person can do.
	Advice string `json:"advice,omitempty"`
	// CountedUnhealthy are the targets that the limit of the check counts as unhealthy, if it blocks this one.
	CountedUnhealthy []string `json:"countedUnhealthy,omitempty"`
	// Mode is Observe if the check starts no remediation.
	Mode remedyv1.Mode `json:"mode,omitempty"`
	// Request is the remediation request of the target.
	Request string `json:"request,omitempty"`
	// Reported is what the manager reports about the target in the status of the check; nil if it reports nothing.
	Reported *remedyv1.UnhealthyTarget `json:"reported,omitempty"`
	// ReportedReady is the condition Ready of the check.
	ReportedReady string `json:"reportedReady,omitempty"`
}

// Explain evaluates the checks that select a Machine or a Node.
func (c *Cluster) Explain(ctx context.Context, s Subject) (*Explanation, error) {
	t, err := c.targetOf(ctx, s)
	if err != nil {
		return nil, err
	}
	x := &Explanation{Node: t.node}
	if t.machine != nil {
		x.Machine = client.ObjectKeyFromObject(t.machine).String()
	}
	if t.cluster != workload.ManagementCluster {
		x.Cluster = t.cluster.String()
	}
	p, err := c.permissions(ctx, t)
	if err != nil {
		return nil, err
	}
	err = c.evaluate(ctx, t, x, p)
	x.Unread = p.lines()
	return x, err
}

// evaluate evaluates the checks that select a target. Of those that the in-tree controller reconciles, it only notes that they select it.
func (c *Cluster) evaluate(ctx context.Context, t *target, x *Explanation, p *permitted) error {
	checks, err := c.machineChecks(ctx, t, p)
	if err != nil {
		return err
	}
	ofNodes, err := c.nodeChecks(ctx, t, p)
	if err != nil {
		return err
	}
	checks = append(checks, ofNodes...)
	needed := len(ofNodes) > 0 || slices.ContainsFunc(checks, func(one check) bool { return one.selects && one.kind != "" })
	var e *evaluator
	if needed {
		if e, err = c.newEvaluator(ctx, t, p); err != nil {
			return err
		}
		defer e.stop()
		if err := e.selectNode(ctx, t, checks, p); err != nil {
			return err
		}
	}
	selecting := slices.DeleteFunc(slices.Clone(checks), func(one check) bool { return !one.selects })
	if len(selecting) == 0 {
		x.Responsible = []string{noCheck(t, checks)}
		return nil
	}
	for i := range selecting {
		one := &selecting[i]
		if one.kind == "" {
			x.Responsible = append(x.Responsible,
				one.title()+" selects this "+t.kind()+", and Cluster API's controller reconciles that check")
			continue
		}
		if err := c.evaluateOne(ctx, e, one, t, x, p); err != nil {
			return err
		}
	}
	return nil
}

// evaluateOne evaluates a check that selects a target.
func (c *Cluster) evaluateOne(ctx context.Context, e *evaluator, one *check, t *target, x *Explanation, p *permitted) error {
	r, key := e.reconciler(one.kind), client.ObjectKeyFromObject(one.object)
	found, _, err := r.Store.Find(ctx, e.Cache, key)
	if err != nil {
		return readError(err, one.title())
	}
	namespace := requestNamespace(found)
	if err := c.permit(ctx, p, c.needsOfTemplates(found, namespace)...); err != nil {
		return err
	}
	if err := e.readRequests(namespace); err != nil {
		return err
	}
	explained, err := r.Explain(ctx, key)
	if err != nil {
		return readError(err, one.title())
	}
	name := t.node
	if one.kind != nodeKind {
		name = t.machine.Name
	}
	if !x.add(one, explained, t, name) && one.kind == nodeKind {
		x.addReported(one, &explained.Check.Status, name)
	}
	return nil
}

// selectNode sets which NodeHealthChecks select a target: by its Node, or by their status if the Node cannot be read.
func (e *evaluator) selectNode(ctx context.Context, t *target, checks []check, p *permitted) error {
	ofNodes := func(one check) bool { return one.kind == nodeKind }
	if t.node == "" || !slices.ContainsFunc(checks, ofNodes) {
		return nil
	}
	var node *corev1.Node
	if t.cluster == workload.ManagementCluster || !p.unread["secrets"] {
		all, err := e.nodesOf(ctx, t.cluster)
		at := slices.IndexFunc(all, func(n *corev1.Node) bool { return n.Name == t.node })
		switch {
		case err != nil:
			p.failed = append(p.failed, "The Nodes of "+t.clusterName()+" were not read: "+err.Error())
		case at >= 0:
			node = all[at]
		case t.machine == nil:
			return &notFoundError{"Node " + t.node + " of " + t.clusterName()}
		}
	}
	for i := range checks {
		if one, is := checks[i].object.(*remedyv1.NodeHealthCheck); is {
			checks[i].selects = selectsNode(one, node, t.node)
		}
	}
	if t.self.Name == "" {
		return nil
	}
	// The claims of checks depend on the Nodes of this cluster, too.
	_, err := e.nodesOf(ctx, workload.ManagementCluster)
	return err
}

// add adds the evaluation of a check, unless it does not have the target. That of the responsible check is the answer.
func (x *Explanation) add(of *check, found *healthcheck.Explained, t *target, name string) bool {
	evaluation := found.Evaluation
	i := slices.IndexFunc(evaluation.Situation.Targets, func(t remediation.Target) bool { return t.Name == name })
	if i < 0 {
		return false
	}
	if by := evaluation.Situation.Targets[i].CoveredBy; by != "" {
		x.Responsible = append(x.Responsible, of.title()+" selects this "+t.kind()+", too, and "+by+" is responsible")
		if x.Evaluation != nil {
			return true
		}
	} else {
		x.Check = of.title()
	}
	trace := evaluation.Trace(i)
	x.Evaluation, x.Request = &trace, found.Requests[i]
	x.EvaluatedTime = &metav1.Time{Time: found.Time.UTC()}
	x.NextCheckTime = trace.Decision.Until
	x.Advice, x.CountedUnhealthy, x.Mode = strings.ReplaceAll(explain.Advice(trace.Decision.BlockedReason), "`", ""), nil, ""
	if evaluation.Policy.Observe {
		x.Mode = remedyv1.ObserveMode
	}
	if slices.Contains(limitReasons, trace.Decision.BlockedReason) {
		x.CountedUnhealthy = countedUnhealthy(evaluation)
	}
	if v := evaluation.Assessment.Verdicts[i]; x.NextCheckTime == nil && v.Kind == health.Suspect {
		x.NextCheckTime = trace.Verdict.Until
	}
	x.report(&found.Check.Status, name)
	return true
}

// limitReasons are the reasons of the limit of a check.
var limitReasons = []remedyv1.BlockedReason{remedyv1.BlockedTooManyUnhealthy, remedyv1.BlockedTooFewUnhealthy}

// countedUnhealthy are the names of the targets that the limit of a check counts as unhealthy.
func countedUnhealthy(evaluation *explain.Evaluation) (names []string) {
	for i := range evaluation.Situation.Targets {
		if remediation.CountsUnhealthy(evaluation.Situation, evaluation.Assessment, evaluation.Policy, i) {
			names = append(names, evaluation.Situation.Targets[i].Name)
		}
	}
	return names
}

// addReported adds what a check reports about a Node that could not be read, unless there is another answer.
func (x *Explanation) addReported(of *check, status *remedyv1.CheckStatus, name string) {
	if x.Evaluation != nil || x.Reported != nil {
		return
	}
	if x.report(status, name); x.Reported != nil && x.Reported.BlockedReason != remedyv1.BlockedReason(remediation.ManagedByOtherCheck) {
		x.Check = of.title()
	}
}

// report sets what a check reports about a target.
func (x *Explanation) report(status *remedyv1.CheckStatus, name string) {
	x.Reported, x.ReportedReady = reportedTarget(status, name), ""
	for n := range status.Conditions {
		if c := &status.Conditions[n]; c.Type == remedyv1.ReadyCondition && c.Status != metav1.ConditionTrue {
			x.ReportedReady = string(c.Status) + " (" + c.Reason + "): " + c.Message
		}
	}
}

// noCheck is why no check is responsible for a target.
func noCheck(t *target, checks []check) string {
	if len(checks) == 0 {
		return "No check names " + t.clusterName() + ", so nothing remediates this " + t.kind() + ". Create one"
	}
	titles := make([]string, len(checks))
	for i := range checks {
		titles[i] = checks[i].title()
	}
	slices.Sort(titles)
	return "No check selects this " + t.kind() + " by its labels, so nothing remediates it. The checks of " + t.clusterName() + " are: " +
		strings.Join(titles, ", ")
}

// String returns the explanation as text: the answer first, and all rules and guards after it.
func (x *Explanation) String() string {
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-12s %s\n", name+":", value)
		}
	}
	line("Machine", x.Machine)
	line("Node", x.Node)
	line("Cluster", cmp.Or(x.Cluster, "this cluster"))
	line("Check", x.Check)
	if x.Mode == remedyv1.ObserveMode {
		line("Mode", "Observe: the check starts no remediation")
	}
	if t := x.Evaluation; t != nil {
		line("Health", joined(t.Verdict.Kind, t.Verdict.Reason, t.Verdict.Message))
		reason := string(t.Decision.BlockedReason)
		if reason == "" {
			reason = t.Decision.Why
		}
		line("Decision", joined(string(t.Decision.Outcome), reason, t.Decision.Message))
		line("Counted", listed(x.CountedUnhealthy))
		line("Advice", x.Advice)
		if next := utc(x.NextCheckTime); next != "" || t.Decision.Outcome == remedyv1.Blocked {
			line("Next check", cmp.Or(next, "when the facts change; no time is set"))
		}
		line("Request", x.Request)
	}
	// Usually the manager reports the same.
	if r := x.Reported; r != nil && (x.Evaluation == nil || r.Decision != x.Evaluation.Decision.Outcome ||
		r.BlockedReason != x.Evaluation.Decision.BlockedReason) {
		line("Reported", joined(string(r.Decision), string(r.BlockedReason), r.Message))
	}
	if t := x.Evaluation; t == nil || !strings.HasPrefix(x.ReportedReady, notReady+string(t.Decision.BlockedReason)+")") {
		line("Ready", x.ReportedReady)
	}
	for _, why := range x.Responsible {
		line("Note", why)
	}
	for _, why := range x.Unread {
		line("Unread", why)
	}
	if x.Evaluation != nil {
		fmt.Fprintf(&b, "\nEvaluated at %s with your permissions:\n%s", utc(x.EvaluatedTime), x.Evaluation)
	}
	return b.String()
}

// notReady begins the text of the condition Ready of a check that needs a person.
const notReady = string(metav1.ConditionFalse) + " ("

// mostListed is how many names are printed.
const mostListed = 10

// listed are the first names, and how many more there are.
func listed(names []string) string {
	if len(names) > mostListed {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:mostListed], ", "), len(names)-mostListed)
	}
	return strings.Join(names, ", ")
}

// joined is a word, its reason and its message.
func joined(word, reason, message string) string {
	if word == "" {
		word = "Nothing to do"
	}
	for _, prefix := range []string{word + ": ", string(remedyv1.Blocked) + ": "} {
		message = strings.TrimPrefix(message, prefix)
	}
	if reason != "" && reason != word {
		word += " (" + reason + ")"
	}
	if message != "" {
		word += ": " + message
	}
	return word
}

func utc(t *metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
