// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
)

var begin = time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC)

// profileWith returns a profile with rows that is checked every hour.
func profileWith(rows ...string) *fencingv1.FenceProfile {
	p := &fencingv1.FenceProfile{}
	p.Spec.CheckInterval = &remedyv1.Duration{Duration: metav1.Duration{Duration: time.Hour}}
	p.Spec.Methods = []fencingv1.FenceMethod{{Name: "ipmi", Agent: "fence_ipmilan"}}
	p.Spec.PowerManagement = []fencingv1.PowerLevel{{Methods: []fencingv1.MethodName{"ipmi"}}}
	for _, row := range rows {
		p.Spec.Nodes = append(p.Spec.Nodes, fencingv1.FenceProfileNode{Name: row})
	}
	return p
}

// checked adds a check that ended some time before.
func checked(p *fencingv1.FenceProfile, node string, before time.Duration) *fencingv1.FenceProfile {
	p.Status.Nodes = append(p.Status.Nodes, fencingv1.CheckedNode{
		Name: node, CheckedAt: metav1.NewTime(begin.Add(-before)), Selected: !hasRow(p, node), Reason: "DevicesAnswered", Succeeded: true,
	})
	return p
}

func selecting(p *fencingv1.FenceProfile) *fencingv1.FenceProfile {
	p.Spec.NodeSelector = &remedyv1.Selector{}
	return p
}

// every sets the interval.
func every(p *fencingv1.FenceProfile, interval time.Duration) *fencingv1.FenceProfile {
	p.Spec.CheckInterval.Duration.Duration = interval
	return p
}

// checkOf returns the check of a Node, with the status and reason of its condition Succeeded; without it if they are empty.
func checkOf(node string, began time.Time, status metav1.ConditionStatus, reason string) *fencingv1.NodeFence {
	c := &fencingv1.NodeFence{ObjectMeta: metav1.ObjectMeta{
		CreationTimestamp: metav1.NewTime(began), Annotations: map[string]string{remedyv1.NodeNameAnnotation: node},
	}}
	if status != "" {
		c.Status.Conditions = []metav1.Condition{{
			Type: remedyv1.SucceededCondition, Status: status, Reason: reason, Message: "the message of " + reason,
			LastTransitionTime: metav1.NewTime(began.Add(time.Minute)),
		}}
	}
	return c
}

// admitted lets a check have begun, with the last answers of methods.
func admitted(c *fencingv1.NodeFence, answers ...string) *fencingv1.NodeFence {
	c.Status.Node = &fencingv1.FencedNode{Name: c.Annotations[remedyv1.NodeNameAnnotation]}
	for _, answer := range answers {
		method, power, _ := strings.Cut(answer, " ")
		c.Status.Methods = append(c.Status.Methods, fencingv1.MethodRecord{Name: fencingv1.MethodName(method), Power: fencingv1.Power(power)})
		c.Status.Action = &fencingv1.FenceAction{Method: fencingv1.MethodName(method)}
	}
	return c
}

func (d *decision) String() string {
	text := ""
	if d.begin {
		text += " begin " + d.node
	}
	if d.end {
		text += " end"
	}
	if r := d.result; r != nil {
		text += fmt.Sprintf(" %s %v %s %v", r.Name, r.Succeeded, r.Reason, r.Unreachable)
	}
	if !d.wake.IsZero() {
		text += " wake " + d.wake.Sub(begin).String()
	}
	return strings.TrimSpace(text)
}

func TestDecide_WithoutCheck_BeginsWhatIsDue(t *testing.T) {
	fenced := map[string]bool{"fenced": true}
	for name, c := range map[string]struct {
		p    *fencingv1.FenceProfile
		want string
	}{
		"no interval":             {every(profileWith("a"), 0), ""},
		"no rows":                 {profileWith(), ""},
		"first":                   {profileWith("b", "a"), "begin b"},
		"second":                  {checked(profileWith("b", "a"), "b", time.Minute), "begin a"},
		"all checked":             {checked(checked(profileWith("b", "a"), "b", 40*time.Minute), "a", 10*time.Minute), "wake 20m0s"},
		"due at this time":        {checked(profileWith("a"), "a", time.Hour), "begin a"},
		"the oldest":              {checked(checked(profileWith("b", "a"), "b", 2*time.Hour), "a", 3*time.Hour), "begin a"},
		"selected last":           {checked(selecting(profileWith("a")), "a", time.Minute), "begin"},
		"selected only":           {selecting(profileWith()), "begin"},
		"selected is not due":     {checked(selecting(profileWith()), "x", time.Minute), "wake 59m0s"},
		"fenced":                  {profileWith("fenced", "a"), "begin a"},
		"all fenced":              {profileWith("fenced"), "wake 1m0s"},
		"fenced, others not due":  {checked(profileWith("fenced", "a"), "a", time.Minute), "wake 1m0s"},
		"fenced, others due soon": {checked(profileWith("fenced", "a"), "a", 59*time.Minute+30*time.Second), "wake 30s"},
		"being deleted": {func() *fencingv1.FenceProfile {
			p := profileWith("a")
			p.DeletionTimestamp = &metav1.Time{Time: begin}
			return p
		}(), ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(c.p, nil, fenced, begin)
			NewWithT(t).Expect(d.String()).To(Equal(c.want))
		})
	}
}

func TestDecide_WithCheck_EndsIt(t *testing.T) {
	failed := checked(profileWith("a"), "a", time.Hour)
	failed.Status.Nodes[0].Unreachable = []fencingv1.MethodName{"ipmi"}
	ago := func(d time.Duration) time.Time { return begin.Add(-d) }
	for name, c := range map[string]struct {
		p     *fencingv1.FenceProfile
		check *fencingv1.NodeFence
		want  string
	}{
		"new":      {profileWith("a"), checkOf("a", begin, "", ""), "wake 1m0s"},
		"runs":     {profileWith("a"), admitted(checkOf("a", ago(5*time.Minute), "Unknown", "WaitingForJob")), "wake 25m0s"},
		"answered": {profileWith("a"), admitted(checkOf("a", begin, "True", "DevicesAnswered"), "ipmi On"), "end a true DevicesAnswered []"},
		"one cannot be asked": {
			profileWith("a"), admitted(checkOf("a", begin, "True", "DevicesAnswered"), "kdump ", "ipmi On"), "end a true DevicesAnswered []",
		},
		"one is unreachable": {
			profileWith("a"), admitted(checkOf("a", begin, "False", "DeviceFailed"), "ipmi Unknown", "pdu On"), "end a false DeviceFailed [ipmi]",
		},
		"reachable again":   {failed, admitted(checkOf("a", begin, "True", "DevicesAnswered"), "ipmi On"), "end a true DevicesAnswered []"},
		"another method":    {failed, admitted(checkOf("a", begin, "True", "DevicesAnswered"), "pdu On"), "end a true DevicesAnswered []"},
		"waits shortly":     {profileWith("a"), checkOf("a", ago(59*time.Second), "Unknown", "Paused"), "wake 1s"},
		"waits":             {profileWith("a"), checkOf("a", ago(time.Minute), "Unknown", "Paused"), "end a false Paused []"},
		"waits, was failed": {failed, checkOf("a", ago(time.Minute), "Unknown", "Paused"), "end a false Paused [ipmi]"},
		"never reconciled":  {profileWith("a"), checkOf("a", ago(29*time.Minute), "", ""), "wake 1m0s"},
		"times out":         {profileWith("a"), checkOf("a", ago(30*time.Minute), "", ""), "end a false TimedOut []"},
		"times out while it asks": {
			profileWith("a"), admitted(checkOf("a", ago(30*time.Minute), "Unknown", "WaitingForJob"), "pdu On", "ipmi "),
			"end a false TimedOut [ipmi]",
		},
		"row removed":      {profileWith("b"), checkOf("a", begin, "True", "DevicesAnswered"), "end"},
		"selected":         {selecting(profileWith("b")), checkOf("a", begin, "True", "DevicesAnswered"), "end a true DevicesAnswered []"},
		"interval removed": {every(profileWith("a"), 0), checkOf("a", begin, "True", "DevicesAnswered"), "end"},
		"fence begins":     {profileWith("fenced"), admitted(checkOf("fenced", begin, "Unknown", "WaitingForJob"), "ipmi On"), "end"},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(c.p, c.check, map[string]bool{"fenced": true}, begin)
			NewWithT(t).Expect(d.String()).To(Equal(c.want))
		})
	}
}

// A result is copied twice if the manager ends before the check is deleted. The second one is the same.
func TestDecide_EndedCheck_HasItsTime(t *testing.T) {
	g := NewWithT(t)
	ended := admitted(checkOf("a", begin, "True", "DevicesAnswered"), "ipmi On")
	first, second := decide(profileWith("a"), ended, nil, begin.Add(time.Hour)), decide(profileWith("a"), ended, nil, begin.Add(2*time.Hour))
	g.Expect(first.result.CheckedAt.Time).To(Equal(begin.Add(time.Minute)))
	g.Expect(second.result).To(Equal(first.result))
}

func TestResult_DeviceFailed_NamesAnswersAndNoDeletedLog(t *testing.T) {
	g := NewWithT(t)
	failed := admitted(checkOf("a", begin, "False", "DeviceFailed"), "ipmi Unknown", "pdu On")
	r := decide(profileWith("a"), failed, nil, begin).result
	g.Expect(r.Message).To(Equal("Not all devices answered: ipmi did not answer, pdu answered ON. Create a NodeFence with mode Check for " +
		"Node a, and read the logs of its Jobs"))
	failed.Status.Conditions[0].Reason, failed.Status.Conditions[0].Message = "ProfileNotResolved", strings.Repeat("ü", 1024)
	g.Expect(len(decide(profileWith("a"), failed, nil, begin).result.Message)).To(And(BeNumerically("<=", 1024), BeNumerically(">", 1000)))
}

func TestRecord_NodesThatAreNotChecked_AreRemoved(t *testing.T) {
	names := func(p *fencingv1.FenceProfile, result *fencingv1.CheckedNode) (all []string) {
		for _, n := range record(p, result) {
			all = append(all, n.Name)
		}
		return all
	}
	g := NewWithT(t)
	full := func(change func(*fencingv1.FenceProfile)) *fencingv1.FenceProfile {
		p := checked(checked(checked(selecting(profileWith("a", "b")), "a", 0), "b", 0), "x", 0)
		change(p)
		return p
	}
	same := full(func(*fencingv1.FenceProfile) {})
	g.Expect(names(same, nil)).To(Equal([]string{"a", "b", "x"}))
	g.Expect(names(same, &fencingv1.CheckedNode{Name: "a"})).To(Equal([]string{"b", "x", "a"}))
	g.Expect(names(same, &fencingv1.CheckedNode{Name: "y", Selected: true})).To(Equal([]string{"a", "b", "y"}))
	g.Expect(names(full(func(p *fencingv1.FenceProfile) { p.Spec.Nodes = p.Spec.Nodes[:1] }), nil)).To(Equal([]string{"a", "x"}))
	g.Expect(names(full(func(p *fencingv1.FenceProfile) { p.Spec.NodeSelector = nil }), nil)).To(Equal([]string{"a", "b"}))
	g.Expect(names(full(func(p *fencingv1.FenceProfile) { p.Spec.Nodes[0].Name = "x" }), nil)).To(Equal([]string{"b"}))
	g.Expect(names(every(same, 0), nil)).To(BeEmpty())
}

// simulation is a profile over a time, with a check that takes some minutes.
type simulation struct {
	p     *fencingv1.FenceProfile
	check *fencingv1.NodeFence
	now   time.Time
	began []string
	times map[string][]time.Time
}

// run decides whenever something has changed or it is due, as the reconciler does.
func (s *simulation) run(g *WithT, takes func(node string) time.Duration, until time.Duration) {
	s.times = map[string][]time.Time{}
	for s.now = begin; s.now.Before(begin.Add(until)); {
		d := decide(s.p, s.check, nil, s.now)
		s.p.Status.Nodes = record(s.p, d.result)
		switch {
		case d.end:
			g.Expect(s.check).ToNot(BeNil())
			s.check = nil
		case d.begin:
			g.Expect(s.check).To(BeNil(), "two checks at the same time")
			if d.node == "" {
				d.node = "selected"
			}
			s.began, s.times[d.node] = append(s.began, d.node), append(s.times[d.node], s.now)
			s.check = admitted(checkOf(d.node, s.now, "Unknown", "WaitingForJob"))
		case s.check != nil:
			end := s.check.CreationTimestamp.Add(takes(s.check.Annotations[remedyv1.NodeNameAnnotation]))
			if d.wake.Before(end) {
				g.Expect(d.wake).To(BeTemporally(">", s.now))
				s.now = d.wake
				continue
			}
			s.now = end
			s.check.Status.Conditions[0].Status, s.check.Status.Conditions[0].LastTransitionTime = "True", metav1.NewTime(end)
		default:
			g.Expect(d.wake).To(BeTemporally(">", s.now))
			s.now = d.wake
		}
	}
}

// Each Node is checked once in an interval, in order, and one after the other; also if a check hangs.
func TestDecide_AnyProfile_ChecksEachOnceInAnInterval(t *testing.T) {
	for rows := range 6 {
		for _, withSelector := range []bool{false, true} {
			for hanging := range 3 {
				g := NewWithT(t)
				var names []string
				for i := range rows {
					names = append(names, fmt.Sprintf("row-%d", i))
				}
				s := &simulation{p: every(profileWith(names...), 6*time.Hour)}
				if withSelector {
					selecting(s.p)
					names = append(names, "selected")
				}
				if len(names) == 0 {
					continue
				}
				s.run(g, func(node string) time.Duration {
					if slices.Index(names, node) < hanging {
						return time.Hour
					}
					return time.Duration(1+len(node)%3) * time.Minute
				}, 20*time.Hour)
				for i, node := range s.began {
					g.Expect(node).To(Equal(names[i%len(names)]), "%v", s.began)
				}
				for _, node := range names {
					for i, at := range s.times[node][1:] {
						g.Expect(at.Sub(s.times[node][i])).To(And(BeNumerically(">=", 6*time.Hour), BeNumerically("<=", 6*time.Hour+3*time.Hour)))
					}
					g.Expect(len(s.times[node])).To(BeNumerically(">=", 3))
				}
			}
		}
	}
}

// An interval that is too short for all rows starves none of them.
func TestDecide_IntervalTooShort_ChecksAllInTurn(t *testing.T) {
	g := NewWithT(t)
	s := &simulation{p: every(profileWith("a", "b", "c", "d"), 10*time.Minute)}
	s.run(g, func(string) time.Duration { return 8 * time.Minute }, 24*time.Hour)
	for i, node := range s.began {
		g.Expect(node).To(Equal([]string{"a", "b", "c", "d"}[i%4]))
	}
}
