// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package profile resolves how a Node is fenced: by which FenceProfile, by which of its methods in which step, and with which parameters.
// It does not decide when something is done: exp/fencing/lifecycle does. Start with Resolve.
package profile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/labels"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
)

// Reasons of a Problem.
const (
	// ReasonNotResolved: no profile, or more than one, or a profile that cannot be used.
	ReasonNotResolved = "ProfileNotResolved"
	// ReasonProviderIDMismatch: the row is for another machine.
	ReasonProviderIDMismatch = "NodeReplaced"
)

// Problem is why a Node cannot be fenced.
type Problem struct{ Reason, Message string }

// Node is what a profile needs of a Node.
type Node struct {
	Name, ProviderID string
	Labels           map[string]string
	// Vouched: a Machine, or the cluster of the manager, vouches for its name and provider ID. A workload cluster alone can set both to
	// those of a machine of another cluster.
	Vouched bool
	// Bound: the request has begun with the profile that it names. So that one does not have to select the Node any more. Row: it had a row
	// then, and needs it still.
	Bound, Row bool
}

// Plan is how a Node is fenced.
type Plan struct {
	ProfileName string
	// ProviderID is that of the Node; empty if nothing vouches for it.
	ProviderID string
	// Row: the profile has a row for the Node.
	Row                      bool
	Isolation, Run, Recovery []fencingv1.MethodName
	// Levels are the levels of power management.
	Levels [][]fencingv1.MethodName
	// Methods are the methods of the profile, with their defaults and with the parameters and the Secret of the Node. They are all methods
	// that can be used, also those of no step: what was switched off by one has to be switched on by it.
	Methods map[fencingv1.MethodName]fencingv1.FenceMethod
}

// StorageIsolation returns the methods of the isolation that cut the Node off from volumes.
func (p *Plan) StorageIsolation() []fencingv1.MethodName {
	var names []fencingv1.MethodName
	for _, name := range p.Isolation {
		if len(p.Methods[name].StorageClasses) > 0 {
			names = append(names, name)
		}
	}
	return names
}

// Level returns the methods of a level; none if there is no such level.
func (p *Plan) Level(position int32) []fencingv1.MethodName {
	if p == nil || int(position) >= len(p.Levels) {
		return nil
	}
	return p.Levels[position]
}

// Device identifies the outlet that a resolved method switches. Credentials and images can change while a fence uses it.
func Device(method *fencingv1.FenceMethod) string {
	pod := method.PodTemplate.DeepCopy()
	if pod != nil {
		for i := range pod.Spec.Containers {
			pod.Spec.Containers[i].Image = ""
		}
	}
	content, err := json.Marshal(pod)
	if err != nil {
		// Every podTemplate was read from JSON.
		panic(err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %s", method.Agent, method.Parameters, content))
	return hex.EncodeToString(sum[:8])
}

// Timeout is how long an action of a method can take.
func (p *Plan) Timeout(name fencingv1.MethodName) time.Duration {
	method := p.Methods[name]
	return Timeout(&method)
}

// Timeout is how long an action of a method can take.
func Timeout(method *fencingv1.FenceMethod) time.Duration {
	if method.Timeout == nil || method.Timeout.Duration.Duration <= 0 {
		return 2 * time.Minute
	}
	return method.Timeout.Duration.Duration
}

// Resolve returns how a Node is fenced, or why it cannot be. The profiles are those of the namespace of the request.
func Resolve(
	spec *fencingv1.NodeFenceSpec, clusterName string, node Node, profiles []fencingv1.FenceProfile,
) (*Plan, *Problem) {
	profile, err := choose(spec.ProfileName, clusterName, node, profiles)
	if err != nil {
		return nil, &Problem{Reason: ReasonNotResolved, Message: err.Error()}
	}
	row := rowOf(profile, node.Name)
	if row != nil && row.ProviderID != "" && row.ProviderID != node.ProviderID {
		return nil, &Problem{Reason: ReasonProviderIDMismatch, Message: fmt.Sprintf(
			"FenceProfile %s has provider ID %q for Node %s, which has %q: correct the row if the machine is the same",
			profile.Name, row.ProviderID, node.Name, node.ProviderID)}
	}
	if !node.Vouched {
		node.ProviderID = ""
	}
	plan := &Plan{
		ProfileName: profile.Name, ProviderID: node.ProviderID, Row: row != nil, Isolation: profile.Spec.Isolation, Run: profile.Spec.Run,
	}
	levels := profile.Spec.PowerManagement
	if spec.Isolation != nil {
		plan.Isolation = *spec.Isolation
	}
	if spec.Run != nil {
		plan.Run = *spec.Run
	}
	if spec.PowerManagement != nil {
		levels = *spec.PowerManagement
	}
	if plan.Recovery = spec.Recovery; spec.Mode == fencingv1.CheckDevices {
		plan.Run, plan.Recovery = nil, nil
	}
	for _, level := range levels {
		plan.Levels = append(plan.Levels, level.Methods)
	}
	if err := plan.addMethods(profile, row, node); err != nil {
		return nil, &Problem{Reason: ReasonNotResolved, Message: fmt.Sprintf("FenceProfile %s, Node %s: %v", profile.Name, node.Name, err)}
	}
	return plan, nil
}

// choose returns the profile of a Node: the one that is named, else the one with a row, else the one whose selector matches.
func choose(name, clusterName string, node Node, profiles []fencingv1.FenceProfile) (*fencingv1.FenceProfile, error) {
	var found, selecting []*fencingv1.FenceProfile
	for i := range profiles {
		profile := &profiles[i]
		// A request that has begun names its profile, and keeps it while it is being deleted. A generated one is only for requests that name it.
		_, generated := profile.Labels[fencingv1.NodeRemedyLabel]
		unnamed := name == "" && (generated || profile.DeletionTimestamp != nil)
		if profile.Spec.ClusterName != clusterName || name != "" && profile.Name != name || unnamed {
			continue
		}
		if rowOf(profile, node.Name) != nil {
			found = append(found, profile)
		} else if node.Bound && !node.Row || node.Vouched && !node.Row && selects(profile, node) {
			selecting = append(selecting, profile)
		}
	}
	if len(found) == 0 {
		found = selecting
	}
	of := "of the cluster of the manager"
	if clusterName != "" {
		of = "of Cluster " + clusterName
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		names := make([]string, 0, len(found))
		for _, profile := range found {
			names = append(names, profile.Name)
		}
		slices.Sort(names)
		return nil, errors.Errorf("FenceProfiles %s match Node %s: set profileName to one of them", strings.Join(names, ", "), node.Name)
	case name != "":
		return nil, errors.Errorf("FenceProfile %s %s does not exist, or has neither a row nor a nodeSelector for Node %s", name, of, node.Name)
	}
	if !node.Vouched {
		return nil, errors.Errorf("no FenceProfile %s has a row for Node %s, and a nodeSelector needs a Machine with this Node", of, node.Name)
	}
	return nil, errors.Errorf("no FenceProfile %s has a row or a nodeSelector for Node %s", of, node.Name)
}

func selects(profile *fencingv1.FenceProfile, node Node) bool {
	if profile.Spec.NodeSelector == nil {
		return false
	}
	selector, err := profile.Spec.NodeSelector.Labels()
	return err == nil && selector.Matches(labels.Set(node.Labels))
}

func rowOf(profile *fencingv1.FenceProfile, node string) *fencingv1.FenceProfileNode {
	for i := range profile.Spec.Nodes {
		if profile.Spec.Nodes[i].Name == node {
			return &profile.Spec.Nodes[i]
		}
	}
	return nil
}
