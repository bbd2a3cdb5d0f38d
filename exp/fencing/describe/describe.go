// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package describe

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/lifecycle"
)

// Fence is a NodeFence for a person.
type Fence struct {
	Namespace string              `json:"namespace"`
	Name      string              `json:"name"`
	Mode      fencingv1.FenceMode `json:"mode,omitempty"`
	Phase     fencingv1.Phase     `json:"phase,omitempty"`
	Step      fencingv1.FenceStep `json:"step,omitempty"`
	// State is both in words.
	State   string `json:"state"`
	Profile string `json:"profile,omitempty"`
	// Level is the present level, from 1, of Levels. It is 0 before the first device is asked, and Levels is 0 if they are unknown.
	Level   int                      `json:"level,omitempty"`
	Levels  int                      `json:"levels,omitempty"`
	Methods []fencingv1.MethodRecord `json:"methods,omitempty"`
	// Evidence is what is proven, Proven the same in words, and Missing what is missing for it.
	Evidence *fencingv1.Evidence `json:"evidence,omitempty"`
	Proven   string              `json:"proven,omitempty"`
	Missing  []string            `json:"missing,omitempty"`
	// Release is what is known of the release of the workload.
	Release *fencingv1.ReleaseRecord `json:"release,omitempty"`
	// WaitingFor is what it waits for; empty when it has ended. Result is how it ended.
	WaitingFor string       `json:"waitingFor,omitempty"`
	Result     string       `json:"result,omitempty"`
	Deadline   *metav1.Time `json:"deadline,omitempty"`
	// Job is the last Job, and Log the command that prints its log.
	Job *fencingv1.JobRecord `json:"job,omitempty"`
	Log string               `json:"log,omitempty"`
	// Cancel is the command that withdraws the request, and AfterCancel what follows.
	Cancel      string `json:"cancel,omitempty"`
	AfterCancel string `json:"afterCancel,omitempty"`
}

// Of describes a NodeFence. profile is nil if it is unknown.
func Of(fence *fencingv1.NodeFence, profile *fencingv1.FenceProfile) Fence {
	s := &fence.Status
	f := Fence{
		Namespace: fence.Namespace, Name: fence.Name, Mode: fence.Spec.Mode, Phase: s.Phase, Step: s.Step, State: State(fence),
		Profile: fence.Spec.ProfileName, Methods: s.Methods, Evidence: s.Evidence, Release: s.Release, Deadline: s.Deadline,
	}
	if s.Node != nil {
		f.Profile = s.Node.ProfileName
	}
	levels := levelsOf(fence, profile)
	f.Levels = len(levels)
	if f.Mode != fencingv1.CheckDevices && slices.ContainsFunc(s.Methods, ofPower) {
		f.Level = int(s.Level) + 1
		if f.Levels > 0 {
			f.Level = min(f.Level, f.Levels)
		}
		if s.Evidence == nil {
			f.Missing = missing(s, levels)
		}
	}
	if c := meta.FindStatusCondition(s.Conditions, fencingv1.FencedCondition); c != nil && s.Evidence != nil {
		f.Proven = c.Message
	}
	if c := meta.FindStatusCondition(s.Conditions, remedyv1.SucceededCondition); c != nil {
		if text := c.Reason + ": " + c.Message; c.Status == metav1.ConditionUnknown {
			f.WaitingFor = text
		} else {
			f.Result = text
		}
	}
	if len(s.Jobs) > 0 {
		f.Job = &s.Jobs[len(s.Jobs)-1]
		f.Log = "kubectl logs -n " + fence.Namespace + " job/" + f.Job.Name
	}
	if f.AfterCancel = afterCancel(fence); f.AfterCancel != "" {
		f.Cancel = annotate(fence, fencingv1.CancelAnnotation, "")
	}
	return f
}

func annotate(fence *fencingv1.NodeFence, annotation, value string) string {
	return "kubectl annotate nodefence -n " + fence.Namespace + " " + fence.Name + " " + annotation + "=" + value
}

// ConfirmOff returns the command with which a user confirms that the machine of the Node is off; empty without a Node.
func ConfirmOff(fence *fencingv1.NodeFence) string {
	if fence.Status.Node == nil {
		return ""
	}
	return annotate(fence, fencingv1.ConfirmOffAnnotation, string(fence.Status.Node.UID))
}

func ofPower(m fencingv1.MethodRecord) bool { return m.Step == fencingv1.StepPowerManagement }

// levelsOf returns the levels of power management; nil if they are unknown.
func levelsOf(fence *fencingv1.NodeFence, profile *fencingv1.FenceProfile) []fencingv1.PowerLevel {
	switch {
	case fence.Spec.PowerManagement != nil:
		return *fence.Spec.PowerManagement
	case profile != nil:
		return profile.Spec.PowerManagement
	}
	return nil
}

// missing returns which answers prove that the Node is off: those of the present level, or of any level when all have failed.
func missing(s *fencingv1.NodeFenceStatus, levels []fencingv1.PowerLevel) []string {
	if len(levels) == 0 {
		level := fencingv1.PowerLevel{}
		for i := range s.Methods {
			if ofPower(s.Methods[i]) {
				level.Methods = append(level.Methods, s.Methods[i].Name)
			}
		}
		levels = []fencingv1.PowerLevel{level}
	} else if at := int(s.Level); at < len(levels) {
		levels = levels[at : at+1]
	}
	var all []string
	for _, level := range levels {
		var names []string
		for _, name := range level.Methods {
			off := func(m fencingv1.MethodRecord) bool {
				return ofPower(m) && m.Name == name && m.Power == fencingv1.PowerOff
			}
			if !slices.ContainsFunc(s.Methods, off) {
				names = append(names, string(name))
			}
		}
		if len(names) > 0 {
			all = append(all, "an answer OFF of "+strings.Join(names, " and "))
		}
	}
	return all
}

// State is the phase and the step in words.
func State(fence *fencingv1.NodeFence) string {
	s := &fence.Status
	switch {
	case s.Phase == "", s.Phase == fencingv1.PhaseNew && s.Step == fencingv1.StepIsolation:
		return "waits to begin"
	case s.Phase == fencingv1.PhaseFinal:
		return "has ended"
	case s.Phase == fencingv1.PhaseError:
		return "has failed"
	case fence.Spec.Mode == fencingv1.CheckDevices:
		return "asks each device for the power of the Node"
	case s.Step == fencingv1.StepIsolation && fence.Spec.Drain != nil && s.Drained == nil:
		return "drains the Node"
	case s.Step == fencingv1.StepIsolation:
		return "isolates the Node"
	case s.Step == fencingv1.StepPowerManagement && s.Phase == fencingv1.PhaseNew:
		return "waits before it switches the Node off"
	case s.Step == fencingv1.StepPowerManagement && s.Phase == fencingv1.PhaseRunning:
		return "switches the Node off"
	case s.Step == fencingv1.StepPowerManagement && fence.Spec.Release.Policy == fencingv1.ReleaseNone:
		return "has proof, and asks the devices a second time"
	case s.Step == fencingv1.StepPowerManagement:
		return "has proof, and releases the workload of the Node"
	case s.Phase == fencingv1.PhaseNew && lifecycle.SwitchedOff(s):
		return "switches the Node on, and waits until it is Ready"
	case s.Phase == fencingv1.PhaseNew:
		return "waits until the Node is Ready"
	}
	return "undoes what it has changed"
}

// afterCancel is what happens when the request is withdrawn; empty if it is withdrawn already or has ended.
func afterCancel(fence *fencingv1.NodeFence) string {
	s := &fence.Status
	_, canceled := fence.Annotations[fencingv1.CancelAnnotation]
	_, timedOut := fence.Annotations[remedyv1.TimedOutAnnotation]
	switch {
	case canceled, timedOut, !fence.DeletionTimestamp.IsZero(), s.Phase == fencingv1.PhaseFinal:
		return ""
	case fence.Spec.Mode == fencingv1.CheckDevices:
		return "no other device is asked"
	case s.Phase == fencingv1.PhaseError && lifecycle.SwitchedOff(s):
		return "each device that has switched the Node off switches it on, once, and the taint is removed"
	case lifecycle.SwitchedOff(s):
		return "the fence goes on to its end, because it has switched the Node off: proof, power on, and a Node that is Ready"
	case s.Release != nil && s.Release.ProvenAt != nil:
		return "the fence goes on to its end, because it removes Pods of the Node"
	}
	return "the Node is not switched off, and everything is undone"
}
