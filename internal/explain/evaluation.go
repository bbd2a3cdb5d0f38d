// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// Evaluation is the result of one reconcile of a check. All slices of targets have the same order.
type Evaluation struct {
	// Check is the kind and the namespace/name of the check.
	Check      string
	Snapshot   *health.Snapshot
	Assessment *health.Assessment
	Situation  *remediation.Situation
	Policy     *remediation.Policy
	Planned    *remediation.Planned
	// Health is nil if it is not known.
	Health  *health.Policy
	Context ConditionFacts
}

// ConditionFacts are the facts that only conditions report.
type ConditionFacts struct {
	// Cluster is the namespace/name of the Cluster; empty if the check has none.
	Cluster                    string
	ClusterPaused, CheckPaused bool
	// KubeconfigRejected is why the kubeconfig is rejected; empty if it is not.
	KubeconfigRejected string
	// Insecure are the insecure fields of the kubeconfig that is used; empty if it has none.
	Insecure string
	Reading  NodeReads
	// UnlistableRequests is why a check that is being deleted may have requests that cannot be listed; empty if it has none.
	UnlistableRequests string
	// UnreadableOwners are the owners of deleted Machines that could not be read, each with the cause.
	UnreadableOwners []string
	// OtherChecks is the number of other checks of the Cluster.
	OtherChecks int
	// ForbiddenChecks is which permission to read other checks the manager lacks; empty if it lacks none.
	ForbiddenChecks string
	// ForbiddenWrite is a write for which the manager lacks a permission, although it blocks no remediation; empty if there is none.
	ForbiddenWrite string
	// UnreleasedLease is a Lease that a check that is being deleted could not release, and why; empty if there is none.
	UnreleasedLease string
	// NodesUnknown: the targets are Nodes that cannot be read, and were not read before.
	NodesUnknown bool
	// Overlaps are the targets that other checks select, too, and that this check is responsible for, by the other check.
	Overlaps map[string][]string
	// Missing is the number of targets that were removed within the last minute. They may be replaced.
	Missing   int
	Templates []TemplateProblem
	// Unseen are the targets that became unhealthy after the API server of their cluster had answered last: by facts that were out of date.
	Unseen map[string]bool
}

// NodeReads is the result of reading the Nodes.
type NodeReads struct {
	// ConnectionError is why there is no connection to the cluster; empty if there is one.
	ConnectionError string
	// Nodes is the number of Nodes to read, Failed the number of Nodes that could not be read, and Why the cause of the first one.
	Nodes, Failed int
	Why           string
	// NotOfMachine are the names of other Nodes, whose provider IDs differ from those of their Machines.
	NotOfMachine []string
	// WrongCluster: none of the Nodes that Machines refer to exists.
	WrongCluster bool
}

// NoneReadable reports whether the cluster answers, and no Node can be read.
func (r *NodeReads) NoneReadable() bool {
	return r.ConnectionError == "" && r.none()
}

// none reports whether there are Nodes, and none can be evaluated.
func (r *NodeReads) none() bool {
	return r.Nodes+len(r.NotOfMachine) > 0 && r.Failed == r.Nodes
}

// TemplateProblem is a template from which no request can be created.
type TemplateProblem struct {
	// Reason is a reason of the condition TemplatesResolved.
	Reason string
	// Template is its kind and name.
	Template string
	// Detail is the cause; empty if the reason has all there is to report.
	Detail string
	// ClusterRole grants a missing permission.
	ClusterRole string
}

// Facts are the facts about one target. Name and Decision are required; an orphaned target has no verdict.
type Facts struct {
	// Check is the kind and the namespace/name of the check.
	Check string
	// Name is the name of the target, Node the name of its Node.
	Name, Node string
	Verdict    *health.Verdict
	Decision   *remediation.Decision
	Target     *remediation.Target
	Policy     *remediation.Policy
	Health     *health.Policy
}

// Facts returns the facts about a target.
func (p *Evaluation) Facts(i int) Facts {
	target, state := &p.Snapshot.Targets[i], &p.Situation.Targets[i]
	return Facts{
		Check: p.Check, Name: target.Name, Node: cmp.Or(target.Node.Name, state.Node), Verdict: &p.Assessment.Verdicts[i],
		Decision: &p.Planned.Decisions[i], Target: state, Policy: p.Policy, Health: p.Health,
	}
}

// kind is that of the target.
func (f *Facts) kind() string {
	if f.Policy != nil && !f.Policy.ReportsHealth {
		return "Node"
	}
	return "Machine"
}

// Trace returns the trace of a target.
func (p *Evaluation) Trace(i int) Trace {
	f := p.Facts(i)
	return NewTrace(&f)
}
