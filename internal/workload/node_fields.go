// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// LegacyControlPlaneLabel is the label of control-plane Nodes before Kubernetes v1.24.
const LegacyControlPlaneLabel = "node-role.kubernetes.io/master"

// ControlPlaneLabel is the label of control-plane Nodes.
const ControlPlaneLabel = "node-role.kubernetes.io/control-plane"

// EtcdLabel is the label of Nodes with a member of etcd, in distributions that can separate them from other control-plane Nodes, such as RKE2.
const EtcdLabel = "node-role.kubernetes.io/etcd"

// ControlPlaneLabels are the labels of Nodes that belong to the control plane: one of them is enough.
var ControlPlaneLabels = [...]string{ControlPlaneLabel, LegacyControlPlaneLabel, EtcdLabel}

// departureTaints announce that a Node will be deleted. Their value or time is when that began.
var departureTaints = [...]string{
	"ToBeDeletedByClusterAutoscaler",
	"karpenter.sh/disrupted",
	"karpenter.sh/disruption",
	"aws-node-termination-handler/spot-itn",
	"aws-node-termination-handler/asg-lifecycle-termination",
	"cloud.google.com/impending-node-termination",
}

// blocking are the labels and annotations that can block a remediation.
var blocking = [...]string{
	ControlPlaneLabel, LegacyControlPlaneLabel, EtcdLabel, clusterv1.PausedAnnotation, remedyv1.ExcludeLabel, remedyv1.SkipRemediationAnnotation,
}

// annotationDomains are the domains of annotations that checks read. Other annotations change often.
var annotationDomains = [...]string{"cluster.x-k8s.io", "medik8s.io"}

// StrippedNodes configures a cache to keep stripped Nodes. Every cache of Nodes needs it.
func StrippedNodes() ctrlcache.ByObject {
	return ctrlcache.ByObject{Transform: stripObject}
}

// stripObject strips Nodes, and returns other objects unchanged.
func stripObject(object any) (any, error) {
	if node, is := object.(*corev1.Node); is {
		return Strip(node), nil
	}
	return object, nil
}

// The limits of what is kept of a Node. Real Nodes are far below them. They are for an API server that an attacker runs.
const (
	maxPairs, maxTaints, maxConditions = 512, 16, 64
	maxName, maxKey, maxValue          = 253, 317, 1024
)

// HasValidName reports whether an API server can have a Node of this name. Others are left out wherever Nodes are read: the status of a
// check could not be written with such a name.
func HasValidName(node *corev1.Node) bool {
	for i := range len(node.Name) {
		c := node.Name[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' {
			return false
		}
	}
	return node.Name != "" && len(node.Name) <= maxName
}

// short returns a value; empty if it is too long for a real one.
func short[T ~string](value T) T {
	if len(value) > maxValue {
		return ""
	}
	return value
}

// Strip returns a Node with only the fields that checks read. It is a tenth of the size, and a heartbeat changes none of it.
func Strip(node *corev1.Node) *corev1.Node {
	stripped := &corev1.Node{
		TypeMeta: node.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Name: node.Name, UID: short(node.UID), ResourceVersion: short(node.ResourceVersion),
			Labels:            limited(node.Labels, func(string) bool { return true }),
			Annotations:       limited(node.Annotations, annotationIsRead),
			CreationTimestamp: metav1.NewTime(health.KnownTime(node.CreationTimestamp.Time, time.Time{})),
			DeletionTimestamp: node.DeletionTimestamp,
		},
		Spec: corev1.NodeSpec{ProviderID: short(node.Spec.ProviderID)},
	}
	for i := range node.Spec.Taints {
		t := &node.Spec.Taints[i]
		if taintIsRead(t.Key) && len(t.Value) <= maxValue && len(t.Effect) <= maxKey && len(stripped.Spec.Taints) < maxTaints {
			stripped.Spec.Taints = append(stripped.Spec.Taints, *t)
		}
	}
	if len(node.Status.Conditions) > 0 {
		stripped.Status.Conditions = make([]corev1.NodeCondition, 0, min(len(node.Status.Conditions), maxConditions))
	}
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		if len(c.Type) > maxKey || len(c.Status) > maxKey || len(stripped.Status.Conditions) >= maxConditions {
			continue
		}
		stripped.Status.Conditions = append(stripped.Status.Conditions, corev1.NodeCondition{
			Type: c.Type, Status: c.Status, Reason: cut(c.Reason), LastTransitionTime: c.LastTransitionTime,
		})
	}
	return stripped
}

// cut returns the beginning of a value that is too long for a real one.
func cut(value string) string {
	if len(value) <= maxValue {
		return value
	}
	return strings.Clone(strings.ToValidUTF8(value[:maxValue], ""))
}

// limited returns the labels or annotations that are read, within the limits. Of too many, those that can block a remediation come first,
// and then the others by name. A long value is cut and not left out: any value of an annotation pauses a Node.
func limited(all map[string]string, isRead func(key string) bool) map[string]string {
	var keys []string
	complete := true
	for key, value := range all {
		if isRead(key) && len(key) <= maxKey {
			keys = append(keys, key)
			complete = complete && len(value) <= maxValue
		}
	}
	if len(keys) > maxPairs {
		slices.SortFunc(keys, func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
		keys = keys[:maxPairs]
	}
	if complete && len(keys) == len(all) {
		return all
	}
	kept := make(map[string]string, len(keys))
	for _, key := range keys {
		kept[key] = cut(all[key])
	}
	return kept
}

// rank is 0 for a key that can block a remediation.
func rank(key string) int {
	if slices.Contains(blocking[:], key) {
		return 0
	}
	return 1
}

// annotationIsRead reports whether checks read annotations of this domain, or of a domain above it.
func annotationIsRead(key string) bool {
	domain, _, found := strings.Cut(key, "/")
	if !found {
		return false
	}
	for _, read := range annotationDomains {
		if front, is := strings.CutSuffix(domain, read); is && (front == "" || front[len(front)-1] == '.') {
			return true
		}
	}
	return false
}

func taintIsRead(key string) bool { return slices.Contains(departureTaints[:], key) }

// DepartureTaint returns the taint that announces that the Node will be deleted; nil if it has none.
func DepartureTaint(node *corev1.Node) *corev1.Taint {
	i := slices.IndexFunc(node.Spec.Taints, func(t corev1.Taint) bool { return taintIsRead(t.Key) })
	if i < 0 {
		return nil
	}
	return &node.Spec.Taints[i]
}

// IsControlPlaneNode reports whether the Node has a label of the control plane.
func IsControlPlaneNode(node *corev1.Node) bool {
	return slices.ContainsFunc(ControlPlaneLabels[:], func(label string) bool { return hasLabel(node, label) })
}

// NodeChange is a Node that was created, was deleted, or changed in a field that Strip keeps. The Nodes must not be changed.
type NodeChange struct {
	// Cluster is the cluster of the Node: Nodes of two clusters may have the same name. It is ManagementCluster for the management cluster.
	Cluster client.ObjectKey
	Name    string
	// Before is nil if the Node was created, After is nil if it was deleted. Both are stripped.
	Before, After *corev1.Node
}

// changed reports whether two stripped Nodes differ. A heartbeat changes nothing. The function does not allocate, because every
// kubelet sends heartbeats.
func changed(before, after *corev1.Node) bool {
	if before == after || (before.ResourceVersion == after.ResourceVersion && before.ResourceVersion != "" && before.UID == after.UID) {
		return false
	}
	return before.UID != after.UID ||
		!sameTime(before.DeletionTimestamp, after.DeletionTimestamp) ||
		before.Spec.ProviderID != after.Spec.ProviderID ||
		!slices.EqualFunc(before.Status.Conditions, after.Status.Conditions, sameCondition) ||
		!maps.Equal(before.Labels, after.Labels) ||
		!maps.Equal(before.Annotations, after.Annotations) ||
		!slices.EqualFunc(before.Spec.Taints, after.Spec.Taints, sameTaint)
}

func sameCondition(a, b corev1.NodeCondition) bool {
	return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason && a.LastTransitionTime.Time.Equal(b.LastTransitionTime.Time)
}

func sameTime(a, b *metav1.Time) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Time.Equal(b.Time)
}

func sameTaint(a, b corev1.Taint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect && sameTime(a.TimeAdded, b.TimeAdded)
}

// ClockTolerance is how long before the manager has read another status a transition may be: the watch can be late, and times have whole
// seconds.
const ClockTolerance = 10 * time.Second

// transitions corrects times of transitions. Such a time is a claim: the clock of a kubelet may be wrong, and a client that may write the
// status of Nodes may write any time. But no condition has its status since a time before the manager has read another one.
type transitions struct {
	clock     clock.PassiveClock
	tolerance time.Duration
}

// SetClockTolerance sets another ClockTolerance. Call it before anything is read.
func (c *Clusters) SetClockTolerance(tolerance time.Duration) { c.transitions.tolerance = tolerance }

// correct returns a Node with corrected times. before is what was read of it until a time; nil if nothing was. A corrected condition has the
// time that was claimed as its heartbeat. It returns the Node itself if all times hold, and changes nothing.
func (t transitions) correct(before *corev1.Node, until time.Time, after *corev1.Node) *corev1.Node {
	if before == nil || before.UID != after.UID {
		return after
	}
	corrected := after
	for i := range after.Status.Conditions {
		claim := after.Status.Conditions[i].LastTransitionTime
		own, holds := t.check(before, until, &after.Status.Conditions[i])
		if holds {
			continue
		}
		if corrected == after {
			corrected = &corev1.Node{}
			*corrected = *after
			corrected.Status.Conditions = slices.Clone(after.Status.Conditions)
		}
		corrected.Status.Conditions[i].LastTransitionTime = metav1.NewTime(own)
		corrected.Status.Conditions[i].LastHeartbeatTime = claim
	}
	return corrected
}

// check returns since when a condition has its status by what was read, and whether its own time holds.
func (t transitions) check(before *corev1.Node, until time.Time, c *corev1.NodeCondition) (own time.Time, holds bool) {
	claim := health.KnownTime(c.LastTransitionTime.Time, time.Time{})
	at := slices.IndexFunc(before.Status.Conditions, func(b corev1.NodeCondition) bool { return b.Type == c.Type })
	if at < 0 || before.Status.Conditions[at].Status != c.Status {
		return until, !claim.Before(until.Add(-t.tolerance))
	}
	own = health.KnownTime(before.Status.Conditions[at].LastTransitionTime.Time, time.Time{})
	return own, !claim.Before(own)
}

// correct corrects a Node that was read live.
func (n *nodeCache) correct(node *corev1.Node) *corev1.Node {
	if n == nil || node == nil {
		return node
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.correctLocked(node)
}

func (n *nodeCache) correctLocked(node *corev1.Node) *corev1.Node {
	if before := n.byName[node.Name]; before != nil {
		return n.transitions.correct(before, n.transitions.clock.Now(), node)
	}
	return n.transitions.correct(n.earlier[node.Name], n.earlierUntil, node)
}

// conditions returns what a later connection needs of the Nodes, and until when they were delivered, if this connection was up until then.
func (n *nodeCache) conditions(until time.Time) (map[string]*corev1.Node, time.Time) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if !n.synced {
		// What was not delivered yet is as before.
		return n.earlier, n.earlierUntil
	}
	all := make(map[string]*corev1.Node, len(n.byName))
	for name, node := range n.byName {
		kept := &corev1.Node{}
		kept.UID = node.UID
		for i := range node.Status.Conditions {
			c := &node.Status.Conditions[i]
			kept.Status.Conditions = append(kept.Status.Conditions, corev1.NodeCondition{
				Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime,
			})
		}
		all[name] = kept
	}
	return all, until
}

// continues sets what was read over the connection before.
func (n *nodeCache) continues(earlier map[string]*corev1.Node, until time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.earlier, n.earlierUntil = earlier, until
}
