// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/takeover"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// rival is another check of the same Cluster, which may look after some of the same Machines.
type rival struct {
	claim remediation.Claim
	// title is how people know it.
	title string
	// machines or nodes is what it selects.
	machines, nodes labels.Selector
	// workersOnly: of Nodes it takes only those that do not belong to the control plane.
	workersOnly bool
	// theirs: Cluster API's own controller looks after it.
	theirs bool
	// author is how it signs Machines.
	author string
	// deleting: it is about to go, and only what it still has counts.
	deleting bool
	// identity is how its requests name it. inFlight are Nodes that it says it has requests for.
	identity requests.Check
	inFlight map[string]bool
}

// sibling is another check of ours of the same Cluster.
func sibling(check *remedyv1.MachineHealthCheck, observe bool) rival {
	selector, err := check.Spec.Selector.Labels()
	if err != nil {
		selector = labels.Nothing()
	}
	return rival{
		claim: remediation.Claim{
			Rank: remediation.MachineHealthCheck, Namespace: check.Namespace, Name: check.Name, Handed: kindOf(check) == coreKind,
			Observes: observe || check.Spec.Mode == remedyv1.ObserveMode,
		},
		title: titleOf(check), machines: selector, author: author(check), identity: identity(check),
		deleting: !check.DeletionTimestamp.IsZero(),
	}
}

// foreign is a check of Cluster API that was not handed to us. What it selects is its own until it is gone: its controller looks after it until then.
func foreign(check *clusterv1.MachineHealthCheck) rival {
	selector, err := metav1.LabelSelectorAsSelector(&check.Spec.Selector)
	if err != nil {
		selector = labels.Nothing()
	}
	return rival{
		claim:    remediation.Claim{Rank: remediation.ForeignMachineHealthCheck, Namespace: check.Namespace, Name: check.Name},
		title:    "machinehealthchecks.cluster.x-k8s.io " + check.Namespace + "/" + check.Name,
		machines: selector, theirs: true,
	}
}

// rival is a check of Cluster API, whoever looks after it. Another instance alone knows what its flag asks for: of its checks the pause tells.
func (c *CoreChecks) rival(core *clusterv1.MachineHealthCheck, cluster *clusterv1.Cluster, others, observe bool) rival {
	f := c.facts(core, cluster)
	f.Wanted = f.Wanted || others && f.Pause == takeover.OurPause
	if !handed(f) {
		return foreign(core)
	}
	handed := sibling(asOurs(core, true), observe)
	// One that is about to go is ours to clean up. Unless its own controller has left it to us, that looks after it until it is gone.
	handed.theirs = handed.deleting && !c.Exclusive && (f.Pause != takeover.OurPause || !f.SaysPaused)
	if handed.theirs {
		handed.deleting, handed.claim.Rank = false, remediation.ForeignMachineHealthCheck
	}
	return handed
}

// rivalsAmong are those of some checks of Cluster API that belong to the same Cluster, but for the check itself.
func (v *visit) rivalsAmong(s *seen, cores *clusterv1.MachineHealthCheckList) []rival {
	var rivals []rival
	for i := range cores.Items {
		if other := &cores.Items[i]; other.UID != s.check.UID && other.Spec.ClusterName == s.check.Spec.ClusterName {
			rivals = append(rivals, v.r.Core.rival(other, s.cluster, !v.r.actsFor(other), s.observe))
		}
	}
	return rivals
}

// nodeCheck is a check of the Nodes of the same Cluster.
func nodeCheck(check *remedyv1.NodeHealthCheck, observe bool) rival {
	r := rival{
		claim: remediation.Claim{Rank: remediation.NodeHealthCheck, Name: check.Name, Observes: observe || check.Spec.Mode == remedyv1.ObserveMode},
		title: "NodeHealthCheck " + check.Name, nodes: labels.Everything(), workersOnly: check.Spec.Selector == nil,
		identity: requests.Check{Kind: "NodeHealthCheck", Name: check.Name}, deleting: !check.DeletionTimestamp.IsZero(), inFlight: map[string]bool{},
	}
	if check.Spec.Selector != nil {
		selector, err := check.Spec.Selector.Labels()
		if err != nil {
			selector = labels.Nothing()
		}
		r.nodes = selector
	}
	for name := range check.Status.InFlightRemediations {
		r.inFlight[name] = true
	}
	return r
}

// selects says whether a rival looks after a Machine, or its Node.
func (r *rival) selects(m *clusterv1.Machine, node *corev1.Node) bool {
	if r.machines != nil {
		return r.machines.Matches(labels.Set(m.Labels))
	}
	if node == nil || r.workersOnly && workload.OfControlPlane(node) {
		return false
	}
	return r.nodes.Matches(labels.Set(node.Labels))
}

// holds says whether a rival has something under way for a Machine. A request that names no check is nobody's.
func (r *rival) holds(m *clusterv1.Machine, elsewhere []requests.Check) bool {
	return r.identity != (requests.Check{}) && slices.Contains(elsewhere, r.identity) || r.inFlight[m.Status.NodeRef.Name] || r.author != "" && notes.Author(m.Annotations) == r.author
}

// carer is the other check that takes care of a Machine; empty if this one does. Whatever it holds, it holds until it lets go.
func (s *seen) carer(m *clusterv1.Machine, node *corev1.Node) (carer remediation.Claim, title string) {
	if len(s.rivals) == 0 {
		return remediation.Claim{}, ""
	}
	claims := make([]remediation.Claim, 0, len(s.rivals)+1)
	titles := make(map[remediation.Claim]string, len(s.rivals))
	for i := range s.rivals {
		r := &s.rivals[i]
		claim := r.claim
		claim.Holds = r.holds(m, s.elsewhere[m.UID])
		if claim.Holds || !r.deleting && r.selects(m, node) {
			claims = append(claims, claim)
			titles[claim] = r.title
		}
	}
	claims = append(claims, remediation.Claim{
		Rank: remediation.MachineHealthCheck, Namespace: s.check.Namespace, Name: s.check.Name, Handed: kindOf(s.check) == coreKind,
		Observes: s.observes(), Holds: s.holds(m),
	})
	carer, _ = remediation.Carer(claims)
	return carer, titles[carer]
}

func (s *seen) observes() bool { return s.observe || s.check.Spec.Mode == remedyv1.ObserveMode }

// holds says whether this check has something under way for a Machine.
func (s *seen) holds(m *clusterv1.Machine) bool {
	return s.requestFor(m) != nil || s.mark(m).Ours
}

// busyElsewhere are Machines of the control plane that other checks are remediating.
func (s *seen) busyElsewhere() []string {
	var busy []string
	for _, machines := range [][]*clusterv1.Machine{s.machines, s.unselected} {
		for _, m := range machines {
			if !util.IsControlPlaneMachine(m) {
				continue
			}
			mark := s.mark(m)
			held := mark.Given && !mark.Refused && !mark.Ours || len(s.elsewhere[m.UID]) > 0
			for i := range s.rivals {
				held = held || s.rivals[i].inFlight[m.Status.NodeRef.Name]
			}
			if held {
				busy = append(busy, m.Name)
			}
		}
	}
	return busy
}
