// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// Pass is everything that was found and decided in one pass over a check. All slices of targets are in the same order.
type Pass struct {
	// Check names it, as kind and namespace/name.
	Check      string
	Snapshot   *health.Snapshot
	Assessment *health.Assessment
	Situation  *remediation.Situation
	Policy     *remediation.Policy
	Planned    *remediation.Planned
	Around     Surroundings
}

// Surroundings are what conditions tell about and no plan rests on.
type Surroundings struct {
	// Cluster is the namespace and the name of the Cluster of the targets; empty if they have none.
	Cluster string
	// ClusterPaused and CheckPaused say what it is that is paused.
	ClusterPaused, CheckPaused bool
	// KubeconfigRefused is what is wrong with the kubeconfig; empty if it is not refused.
	KubeconfigRefused string
	Reading           Reading
	// Unseen is why a check that has something to clean up may have requests that were not seen; empty if it has none.
	Unseen    string
	Templates []TemplateTrouble
}

// Reading is how the Nodes could be read.
type Reading struct {
	// Unconnected is why there is no connection to their cluster; empty if there is one.
	Unconnected string
	// Nodes is how many were asked for, Unread how many of them could not be read, and Why the first of them could not.
	Nodes, Unread int
	Why           string
	// NoKnownNode: none of the Nodes that Machines refer to exists.
	NoKnownNode bool
}

// TemplateTrouble is a template from which no request can be made.
type TemplateTrouble struct {
	// Reason is one of the condition TemplatesResolved.
	Reason string
	// Template is its kind and name.
	Template string
	// Detail is what exactly is wrong, as far as there is more to tell than the reason does.
	Detail string
	// ClusterRole is the one to apply, if a right is missing.
	ClusterRole string
}

// Facts are those of one target.
func (p *Pass) Facts(i int) Facts {
	target, state := &p.Snapshot.Targets[i], &p.Situation.Targets[i]
	f := Facts{
		Check: p.Check, Name: target.Name, Node: target.Node.Name, Verdict: &p.Assessment.Verdicts[i], Decision: &p.Planned.Decisions[i],
		Cluster: &p.Snapshot.Cluster, Target: state, Policy: p.Policy,
	}
	if f.Node == "" {
		f.Node = state.Node
	}
	return f
}

// Trace is that of one target.
func (p *Pass) Trace(i int) Trace {
	f := p.Facts(i)
	return NewTrace(&f)
}

// Stray is the trace of something that is left at a target which the check does not look after any more.
func (p *Pass) Stray(i int) Trace {
	return NewTrace(&Facts{Check: p.Check, Name: p.Situation.Strays[i].Name, Decision: &p.Planned.Strays[i], Policy: p.Policy})
}

// Notable says whether there is anything to tell about a target: it is not simply well. It allocates nothing.
func (p *Pass) Notable(i int) bool {
	d := &p.Planned.Decisions[i]
	return !p.Assessment.Verdicts[i].Recovered() || d.InFlight || d.Action != remediation.None || d.Hold.Reason != ""
}
