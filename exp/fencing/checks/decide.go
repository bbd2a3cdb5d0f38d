// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/lifecycle"
)

const (
	// limit is how long a check can take, and waitLimit how long it can wait to begin, as while its Cluster is paused.
	limit, waitLimit = 30 * time.Minute, time.Minute
	// poll is how often a Node is considered that cannot be checked at present.
	poll = time.Minute
	// reasonTimedOut is the reason of a check that did not end within its limit.
	reasonTimedOut = "TimedOut"
	// maxMessage is the longest message that the API server accepts.
	maxMessage = 1024
)

// decision is what is done next.
type decision struct {
	// begin: the devices of node are checked; of a Node that nodeSelector selects, if node is empty.
	begin bool
	node  string
	// end: the check is deleted. result is how it ended; nil if that does not matter any more.
	end    bool
	result *fencingv1.CheckedNode
	// wake is when to decide again if nothing changes before; zero for never.
	wake time.Time
}

// decide decides what is done next for a profile. check is its present check, nil without one. fenced are the Nodes that are being fenced.
func decide(p *fencingv1.FenceProfile, check *fencingv1.NodeFence, fenced map[string]bool, now time.Time) decision {
	switch {
	case check != nil:
		return follow(p, check, fenced, now)
	case interval(p) == 0:
		return decision{}
	}
	next, found, skipped := "", false, false
	var due time.Time
	// The one that was checked longest ago is next, so that all are checked also if the interval is too short for that.
	consider := func(node string, last *fencingv1.CheckedNode) {
		var at time.Time
		if last != nil {
			at = last.CheckedAt.Add(interval(p))
		}
		if fenced[node] {
			skipped = true
		} else if !found || at.Before(due) {
			next, due, found = node, at, true
		}
	}
	for i := range p.Spec.Nodes {
		consider(p.Spec.Nodes[i].Name, last(p, p.Spec.Nodes[i].Name))
	}
	if p.Spec.NodeSelector != nil {
		i := slices.IndexFunc(p.Status.Nodes, func(n fencingv1.CheckedNode) bool { return n.Selected })
		consider("", at(p, i))
	}
	switch soon := now.Add(poll); {
	case found && !due.After(now):
		return decision{begin: true, node: next}
	case skipped && (!found || soon.Before(due)):
		return decision{wake: soon}
	}
	return decision{wake: due}
}

// follow decides when a check ends.
func follow(p *fencingv1.FenceProfile, check *fencingv1.NodeFence, fenced map[string]bool, now time.Time) decision {
	node, began := check.Annotations[remedyv1.NodeNameAnnotation], check.CreationTimestamp.Time
	is := meta.FindStatusCondition(check.Status.Conditions, remedyv1.SucceededCondition)
	if is == nil {
		is = &metav1.Condition{Status: metav1.ConditionUnknown, Message: "The fencing manager did not begin it"}
	}
	switch {
	case interval(p) == 0, !hasRow(p, node) && p.Spec.NodeSelector == nil, fenced[node]:
		return decision{end: true}
	case is.Status != metav1.ConditionUnknown:
		return decision{end: true, result: result(p, check, is.LastTransitionTime, is.Reason, is.Message)}
	case now.Before(began.Add(waitLimit)):
		return decision{wake: began.Add(waitLimit)}
	case check.Status.Node == nil && is.Reason != "":
		return decision{end: true, result: result(p, check, metav1.NewTime(now), is.Reason, is.Message)}
	case now.Before(began.Add(limit)):
		return decision{wake: began.Add(limit)}
	}
	message := fmt.Sprintf("The check did not end within %d minutes. %s", int(limit.Minutes()), is.Message)
	return decision{end: true, result: result(p, check, metav1.NewTime(now), reasonTimedOut, message)}
}

// result is the record of a check that has ended.
func result(p *fencingv1.FenceProfile, check *fencingv1.NodeFence, at metav1.Time, reason, message string) *fencingv1.CheckedNode {
	node := check.Annotations[remedyv1.NodeNameAnnotation]
	made := &fencingv1.CheckedNode{
		Name: node, Selected: !hasRow(p, node), CheckedAt: at, Reason: reason, Message: message,
		Succeeded: meta.IsStatusConditionTrue(check.Status.Conditions, remedyv1.SucceededCondition),
	}
	if before := last(p, node); before != nil && !asks(reason) {
		// A device that was not asked is as it was.
		made.Unreachable = slices.Clone(before.Unreachable)
	}
	var answers []string
	for i := range check.Status.Methods {
		m := &check.Status.Methods[i]
		if action := check.Status.Action; m.Power == "" && (action == nil || action.Method != m.Name) {
			// It cannot be asked, as one for kernel dumps.
			continue
		}
		made.Unreachable = slices.DeleteFunc(made.Unreachable, func(name fencingv1.MethodName) bool { return name == m.Name })
		if m.Power == fencingv1.PowerOn || m.Power == fencingv1.PowerOff {
			answers = append(answers, string(m.Name)+" answered "+strings.ToUpper(string(m.Power)))
		} else {
			answers = append(answers, string(m.Name)+" did not answer")
			made.Unreachable = append(made.Unreachable, m.Name)
		}
	}
	if reason == lifecycle.ReasonDeviceFailed {
		// The Jobs are deleted with the check, so its own message would name a log that does not exist.
		made.Message = "Not all devices answered: " + strings.Join(answers, ", ") + ". Create a NodeFence with mode Check for Node " + node +
			", and read the logs of its Jobs"
	}
	made.Message = strings.ToValidUTF8(made.Message[:min(len(made.Message), maxMessage)], "")
	return made
}

// record returns the status of a profile with a result, without Nodes that are not checked any more.
func record(p *fencingv1.FenceProfile, result *fencingv1.CheckedNode) []fencingv1.CheckedNode {
	var nodes []fencingv1.CheckedNode
	for i := range p.Status.Nodes {
		n := &p.Status.Nodes[i]
		row := hasRow(p, n.Name)
		replaced := result != nil && (n.Name == result.Name || n.Selected && result.Selected)
		if interval(p) > 0 && row != n.Selected && (row || p.Spec.NodeSelector != nil) && !replaced {
			nodes = append(nodes, *n)
		}
	}
	if result != nil {
		nodes = append(nodes, *result)
	}
	return nodes
}

// asks reports whether a check with this reason has asked the devices.
func asks(reason string) bool {
	return slices.Contains([]string{lifecycle.ReasonDevicesAnswered, lifecycle.ReasonDeviceFailed, lifecycle.ReasonWrongMachine}, reason)
}

func interval(p *fencingv1.FenceProfile) time.Duration {
	if p.Spec.CheckInterval == nil || !p.DeletionTimestamp.IsZero() {
		return 0
	}
	return p.Spec.CheckInterval.Duration.Duration
}

func hasRow(p *fencingv1.FenceProfile, node string) bool {
	return slices.ContainsFunc(p.Spec.Nodes, func(row fencingv1.FenceProfileNode) bool { return row.Name == node })
}

// last is the last check of a Node; nil if there was none.
func last(p *fencingv1.FenceProfile, node string) *fencingv1.CheckedNode {
	return at(p, slices.IndexFunc(p.Status.Nodes, func(n fencingv1.CheckedNode) bool { return n.Name == node }))
}

func at(p *fencingv1.FenceProfile, i int) *fencingv1.CheckedNode {
	if i < 0 {
		return nil
	}
	return &p.Status.Nodes[i]
}
