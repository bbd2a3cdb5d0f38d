// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package differential_test

import (
	"fmt"
	"slices"
	"time"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// outcome is what people see on a Machine: the condition HealthCheckSucceeded with its reason and the causes in the in-tree reconciler's
// words. Nothing is written on a Machine that is not judged, or not yet.
type outcome struct {
	succeeded, reason string
	causes            []string
}

func (o outcome) equal(other outcome) bool {
	return o.succeeded == other.succeeded && o.reason == other.reason && slices.Equal(o.causes, other.causes)
}

// outcomeOf returns the verdict of Remedy in the form of the in-tree reconciler.
func (m *machine) outcomeOf(v *health.Verdict) outcome {
	switch v.Kind {
	case health.Healthy:
		return outcome{succeeded: "True"}
	case health.Unhealthy:
		o := outcome{succeeded: "False", reason: string(v.Reason)}
		for i := range v.Findings {
			if v.Findings[i].Met {
				o.causes = append(o.causes, m.cause(&v.Findings[i]))
			}
		}
		return o
	case health.Undetermined, health.Skipped, health.Suspect:
	}
	return outcome{}
}

// cause is a finding in the in-tree reconciler's words. A finding that it does not have keeps the name of Remedy.
func (m *machine) cause(f *health.Finding) string {
	kinds := map[health.Reason]string{health.UnhealthyMachine: "Machine", health.UnhealthyNode: "Node"}
	if kind, found := kinds[f.Rule]; found {
		return fmt.Sprintf("Condition %s on %s is reporting status %s with reason %s for more than %s", f.Condition, kind, f.Status, f.Cause, f.Lasting)
	}
	words := map[health.Reason]string{
		health.HasRemediateAnnotation: "marked for remediation via cluster.x-k8s.io/remediate-machine annotation",
		health.NodeDeleted:            nodeDeleted(m),
		health.NodeStartupTimeout:     fmt.Sprintf("Node failed to report startup in %s", f.Lasting),
	}
	if said, found := words[f.Rule]; found {
		return said
	}
	return string(f.Rule)
}

func nodeDeleted(m *machine) string { return fmt.Sprintf("Node %s has been deleted", m.nodeName()) }

func (f *facts) healthPolicy() *health.Policy {
	p := &health.Policy{NodeStartupTimeout: remedyv1.DefaultNodeStartupTimeout, NodeGoneTimeout: f.policy.goneTimeout}
	if f.policy.startupTimeout != nil {
		p.NodeStartupTimeout = *f.policy.startupTimeout
	}
	for _, c := range f.policy.machineChecks {
		p.MachineConditions = append(p.MachineConditions, health.ConditionCheck{Type: c.kind, Status: c.status, Lasting: c.lasting})
	}
	for _, c := range f.policy.nodeChecks {
		p.NodeConditions = append(p.NodeConditions, health.ConditionCheck{Type: c.kind, Status: c.status, Lasting: c.lasting})
	}
	return p
}

func (f *facts) snapshot() *health.Snapshot {
	s := &health.Snapshot{Cluster: health.ClusterFacts{ControlPlaneInitialized: f.controlPlane.milestone(), InfrastructureReady: f.infrastructure.milestone()}}
	for i := range f.machines {
		s.Targets = append(s.Targets, f.target(&f.machines[i]))
	}
	return s
}

func (c condition) milestone() health.Milestone {
	return health.Milestone{Reached: c.status == "True", Since: c.since}
}

func (f *facts) target(m *machine) health.Target {
	t := health.Target{
		Name:        m.name,
		Annotations: health.Annotations{Paused: m.paused, SkipRemediation: m.skip, Remediate: m.remediate},
		Machine: &health.MachineFacts{
			CreatedAt: m.createdAt, Deleting: m.deleting, ControlPlane: m.controlPlane, ProviderID: m.providerID, Failure: m.failure(), NodeGoneSince: m.goneSince,
		},
		Node: f.node(m),
	}
	for _, c := range m.conditions {
		t.Machine.Conditions = append(t.Machine.Conditions, c.object())
		if c.kind == "InfrastructureReady" {
			t.Machine.InfrastructureReady = c.milestone()
		}
	}
	return t
}

// node: as long as there is no control plane, no Node is looked for, whatever the Machine refers to.
func (f *facts) node(m *machine) health.NodeFacts {
	switch {
	case !f.controlPlaneInitialized() || !m.hasNodeRef:
		return health.NodeFacts{State: health.NotJoined}
	case f.isGone(m):
		return health.NodeFacts{State: health.Gone, Name: m.nodeName()}
	}
	n := health.NodeFacts{State: health.Present, Name: m.nodeName(), CreatedAt: m.node.createdAt, ProviderID: m.node.providerID}
	for _, c := range m.node.conditions {
		n.Conditions = append(n.Conditions, c.nodeObject())
	}
	return n
}

// without undoes differences in the facts, so that Remedy has to report what the in-tree reconciler reports.
func without(s *health.Snapshot, undone []*difference, longAgo time.Time) *health.Snapshot {
	changed := &health.Snapshot{Cluster: s.Cluster, Targets: slices.Clone(s.Targets)}
	for i := range changed.Targets {
		t := &changed.Targets[i]
		m := *t.Machine
		t.Machine = &m
		m.Conditions, t.Node.Conditions = slices.Clone(m.Conditions), slices.Clone(t.Node.Conditions)
		for _, d := range undone {
			d.undo(t, longAgo)
		}
	}
	return changed
}
