// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// Connection is what is known of the workload cluster's API server.
type Connection struct {
	Up                bool
	ReconnectingUntil time.Time
	// Observation is that of the management cluster, and AtPreflight what a preflight check finds instead. Only stories set them.
	remediation.Observation
	AtPreflight *remediation.Observation
	// Breaking: it was lost in the midst of a look, after the Nodes had been read.
	Breaking bool
}

// selects reports whether a check monitors a Machine, or a Node.
func (c *Check) selects(controlPlane bool, name string) bool {
	if c.Half > 0 && name != "" && int(name[len(name)-1])%2 != c.Half-1 {
		return false
	}
	return !controlPlane || !c.WorkersOnly
}

// Facts are the facts of a check in one view.
func Facts(s *State, c *Check, conn Connection, now time.Time) (health.Snapshot, remediation.Situation) {
	snapshot := health.Snapshot{Cluster: health.ClusterFacts{
		ControlPlaneInitialized: health.Milestone{Reached: !s.NoControlPlane, Since: s.ControlPlaneSince},
		InfrastructureReady:     health.Milestone{Reached: !s.NoInfrastructure, Since: s.InfrastructureSince}, ReconnectingUntil: conn.ReconnectingUntil,
	}}
	situation := remediation.Situation{
		Check: remediation.Check{
			Paused: s.Paused || c.Paused, Deleting: c.Deleting, Unreachable: !s.NoControlPlane && (!conn.Up || conn.Breaking), Reconnecting: now.Before(conn.ReconnectingUntil), ReconnectingUntil: conn.ReconnectingUntil,
			Uninitialized: s.NoControlPlane, Observation: conn.Observation,
			Storm: c.Storm, PauseRequests: c.PauseRequests, UnpausedAt: c.ThawedAt,
		},
		Replacing: c.Replacing, ControlPlane: controlPlane(s, c.Name, "", conn, now),
	}
	switch {
	case s.Missing:
		situation.Check.Cluster = remediation.ClusterIsMissing
	case s.Deleting:
		situation.Check.Cluster = remediation.ClusterIsDeleting
	}
	if c.ForNodes {
		nodeTargets(s, c, conn, now, &snapshot, &situation)
	} else {
		machineTargets(s, c, conn, now, &snapshot, &situation)
		situation.Owners = []remediation.Owner{{Name: "MachineSet/ms", Desired: s.Workers, WithNode: withNode(s)}}
	}
	situation.Orphans = orphans(s, c)
	return snapshot, situation
}

func withNode(s *State) int {
	n := 0
	for _, m := range s.Machines {
		if s.Nodes[m.Node] != nil && !m.ControlPlane && !m.Orphan && m.DeletingSince.IsZero() {
			n++
		}
	}
	return n
}

func machineTargets(s *State, c *Check, conn Connection, now time.Time, snapshot *health.Snapshot, situation *remediation.Situation) {
	for _, name := range sorted(s.Machines) {
		m := s.Machines[name]
		if !c.selects(m.ControlPlane, m.Name) {
			continue
		}
		snapshot.Targets = append(snapshot.Targets, health.Target{
			Name: name, Node: nodeFacts(s, m.Node, conn),
			Machine: &health.MachineFacts{
				CreatedAt: m.Created, Deleting: !m.DeletingSince.IsZero(), ControlPlane: m.ControlPlane, ProviderID: m.ProviderID,
				InfrastructureReady: health.Milestone{Reached: true, Since: m.Created}, Failure: m.Failure, NodeGoneSince: m.NodeGoneSince,
				Conditions: append([]metav1.Condition{{Type: "InfrastructureReady", Status: metav1.ConditionTrue}}, m.Conditions...),
			},
			Annotations: health.Annotations{Paused: m.Paused, SkipRemediation: m.Skip, Remediate: m.Remediate},
		})
		t := remediation.Target{
			Name: name, Node: m.Node, ControlPlane: m.ControlPlane, DeletingSince: m.DeletingSince, History: m.History, NodeGoneSince: m.NodeGoneSince, Owner: "MachineSet/ms",
			UnpausedAt: m.UnpausedAt, Request: requestFor(s, c, m.UID), RequestNameConflict: nameTaken(s, c, m.Name, m.UID, m.History),
			OwnerRemediation: remediation.OwnerRemediation{
				Requested: m.Owner != "" && m.Unhealthy, Unhealthy: m.Unhealthy, MarkedByThis: m.Author == c.Name, RequestedByThis: m.Author == c.Name && m.Owner != "" && m.MarkedSince.Equal(m.AskedOwnerAt), Waiting: m.Owner == Waiting, Refused: m.Owner == Refused,
				OwnerReason: m.Owner, Since: m.MarkedSince,
			},
		}
		t.CoveredBy, t.CoveredUntil = carer(s, c, m, s.Nodes[m.Node], now)
		t.CoveredElsewhere = t.CoveredBy != "" && s.Checks[t.CoveredBy].ForNodes
		if m.ControlPlane {
			t.Owner = "KubeadmControlPlane/kcp"
		}
		if m.Orphan {
			t.Owner = ""
		}
		if n := s.Nodes[m.Node]; n != nil && conn.Up {
			t.Excluded, t.Confirmed, t.Terminating = n.Excluded, n.Confirmed, n.Terminating
		}
		situation.Targets = append(situation.Targets, t)
	}
}

func nodeTargets(s *State, c *Check, conn Connection, now time.Time, snapshot *health.Snapshot, situation *remediation.Situation) {
	for _, name := range sorted(s.Nodes) {
		n := s.Nodes[name]
		if !c.selects(n.ControlPlane, n.Name) {
			continue
		}
		m := s.machineOf(name)
		snapshot.Targets = append(snapshot.Targets, health.Target{Name: name, Node: nodeFacts(s, name, conn)})
		t := remediation.Target{
			Name: name, Node: name, ControlPlane: n.ControlPlane, Excluded: n.Excluded, Confirmed: n.Confirmed, Terminating: n.Terminating, History: n.History,
			Request: requestFor(s, c, n.UID), RequestNameConflict: cmp.Or(predecessor(s, c, n), nameTaken(s, c, name, n.UID, n.History)),
			Lease: remediation.Lease{Used: true, Holder: n.Holder, HeldByThis: n.Holder == c.Name, Until: n.BlockedUntil},
		}
		t.CoveredBy, t.CoveredUntil = carer(s, c, m, n, now)
		t.CoveredElsewhere = t.CoveredBy != "" && !s.Checks[t.CoveredBy].ForNodes
		if m != nil {
			t.DeletingSince = m.DeletingSince
		}
		situation.Targets = append(situation.Targets, t)
	}
}

// reasons are those of a condition Ready. The kubelet reports that it is False, and the node controller that it is Unknown.
var reasons = map[string]string{"True": "KubeletReady", "False": "KubeletNotReady", "Unknown": "NodeStatusUnknown"}

func nodeFacts(s *State, name string, conn Connection) health.NodeFacts {
	n := s.Nodes[name]
	switch {
	// Before there is a control plane, no read is needed: no Node can have joined.
	case s.NoControlPlane && name == "":
		return health.NodeFacts{State: health.NotJoined}
	case !conn.Up:
		return health.NodeFacts{Name: name}
	case name == "":
		return health.NodeFacts{State: health.NotJoined}
	case n == nil:
		return health.NodeFacts{State: health.Gone, Name: name}
	}
	return health.NodeFacts{
		State: health.Present, Name: name, CreatedAt: n.Created, ProviderID: n.ProviderID,
		Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionStatus(n.Ready), Reason: reasons[n.Ready], LastTransitionTime: metav1.NewTime(n.Since),
		}},
	}
}

// requestFor is a check's request for one target, bound by its UID.
func requestFor(s *State, c *Check, uid int) *remediation.Request {
	var first string
	for key, r := range s.Requests {
		if r.Check == c.Name && r.TargetUID == uid && (first == "" || key < first) {
			first = key
		}
	}
	if first == "" {
		return nil
	}
	request := s.Requests[first].Request
	return &request
}

func nameTaken(s *State, c *Check, name string, uid int, history remediation.History) string {
	step, found := remediation.NextStep(c.Policy.Steps, history.Tried)
	if !found {
		step, _ = remediation.NextStep(c.Policy.Steps, remediation.StepID{})
	}
	if r := s.Requests[step.ID.Template+"/"+name]; r != nil && (r.Check != c.Name || r.TargetUID != uid) {
		return step.ID.Template + "/" + name
	}
	return ""
}

// predecessor is a request of a check for an earlier Node of that name, and so for the same server.
func predecessor(s *State, c *Check, n *Node) string {
	for _, key := range sorted(s.Requests) {
		if r := s.Requests[key]; r.Check == c.Name && r.Target == n.Name && r.TargetUID != n.UID {
			return key
		}
	}
	return ""
}

// coveredBy is the other check that monitors a Machine and its Node, if there is one.
func coveredBy(s *State, c *Check, m *Machine, n *Node, now time.Time) string {
	by, _ := carer(s, c, m, n, now)
	return by
}

// carer is the same, and when that ends by itself.
func carer(s *State, c *Check, m *Machine, n *Node, now time.Time) (string, time.Time) {
	var claims []remediation.Claim
	for _, name := range sorted(s.Checks) {
		other := s.Checks[name]
		claim := remediation.Claim{Rank: remediation.MachineHealthCheck, Name: name, Observes: other.Policy.Observe}
		uid := 0
		switch {
		case other.ForNodes && n != nil && other.selects(n.ControlPlane, n.Name):
			claim.Rank, uid = remediation.NodeHealthCheck, n.UID
			claim.Holds = n.Holder == name && now.Before(n.BlockedUntil)
		case !other.ForNodes && m != nil && other.selects(m.ControlPlane, m.Name):
			uid = m.UID
			claim.Holds = m.Author == name && m.Owner != "" && m.Unhealthy
		}
		if uid == 0 {
			// It does not monitor this one any more, and may still have something there.
			if other.ForNodes && n != nil {
				claim.Rank, uid = remediation.NodeHealthCheck, n.UID
			} else if !other.ForNodes && m != nil {
				uid = m.UID
			}
			if gone := other.ForNodes && m != nil && s.worksOn(other, m.Node); !gone && (uid == 0 || requestFor(s, other, uid) == nil && (other.ForNodes || m.Author != name || m.Owner == "" || !m.Unhealthy)) {
				continue
			} else if gone {
				claim.Rank, claim.Holds = remediation.NodeHealthCheck, true
			} else if !other.ForNodes {
				claim.Holds = m.Author == name && m.Owner != "" && m.Unhealthy
			}
		}
		// A request for an earlier Node of that name is about the same server.
		if requestFor(s, other, uid) != nil || other.ForNodes && m != nil && s.worksOn(other, m.Node) {
			claim.Holds = true
		} else if claim.Rank == remediation.NodeHealthCheck && claim.Holds && n != nil {
			// It has nothing but a Lease, which runs out.
			claim.Until = n.BlockedUntil
		}
		if claim.Holds || !other.Deleting {
			claims = append(claims, claim)
		}
	}
	first, found := remediation.ResponsibleClaim(claims)
	if found && first.Name != c.Name {
		return first.Name, first.Until
	}
	// A check that has nothing but a Lease is responsible until it runs out.
	return "", first.Until
}

// worksOn reports whether a check has a request for a Node of that name, which may not exist any more.
func (s *State) worksOn(c *Check, node string) bool {
	for _, r := range s.Requests {
		if r.Check == c.Name && r.Target == node && node != "" {
			return true
		}
	}
	return false
}

// controlPlane is the control plane as a check sees it: what others than it, or than one of its targets, are busy with.
func controlPlane(s *State, check, except string, conn Connection, now time.Time) remediation.ControlPlane {
	var c remediation.ControlPlane
	for _, key := range sorted(s.Requests) {
		r := s.Requests[key]
		if r.Check == check && (except == "" || except == r.Target) {
			continue
		}
		found := false
		for name, m := range s.Machines {
			n := s.Nodes[m.Node]
			if m.ControlPlane && (m.UID == r.TargetUID || n != nil && n.UID == r.TargetUID) {
				c.Busy, found = append(c.Busy, name), true
			}
		}
		// The label of a request names a Node that does not exist any more.
		if over := kept(&r.Request, now) && !s.exists(r.TargetUID); !found && r.ControlPlane && !over {
			c.Busy = append(c.Busy, r.Target)
		}
	}
	for _, name := range sorted(s.Machines) {
		if m := s.Machines[name]; m.ControlPlane && m.Unhealthy && m.Owner != "" && m.Owner != Refused && (m.Author != check || except != "" && except != name) {
			c.Busy = append(c.Busy, name)
		}
	}
	// A Machine and its Node are one and the same.
	for i, name := range c.Busy {
		if m := s.Machines[name]; except != "" && m != nil && m.Node == except {
			c.Busy[i] = except
		}
	}
	slices.Sort(c.Busy)
	if !conn.Up {
		return c
	}
	c.Etcd.State = remediation.EtcdStacked
	c.Lease = remediation.Lease{Used: true, Holder: s.Turn.Holder, HeldByThis: s.Turn.Holder == check, Until: s.Turn.Until}
	for _, name := range sorted(s.Machines) {
		if n := s.Nodes[s.Machines[name].Node]; s.Machines[name].ControlPlane && n != nil {
			c.Etcd.Members = append(c.Etcd.Members, remediation.Member{Node: n.Name, Healthy: n.Ready == "True", Unhealthy: n.Ready == "False"})
		}
	}
	return c
}
