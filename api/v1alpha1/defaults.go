// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Defaults that the schema fills in. They stand here too for checks that are made in memory; a test holds both together.
const (
	DefaultNodeStartupTimeout = 10 * time.Minute
	DefaultNodeGoneTimeout    = time.Duration(0)
	DefaultHealthyDelay       = time.Duration(0)
	DefaultBackoffType        = ExponentialBackoff
	DefaultBackoffInitial     = time.Minute
	DefaultBackoffLimit       = 10 * time.Minute
	DefaultRecovery           = AutomaticRecovery
	DefaultMode               = EnforceMode
	DefaultTemplateLocation   = ManagementLocation
)

// DefaultUnhealthyConditions are what makes a Node unhealthy where a NodeHealthCheck does not say.
func DefaultUnhealthyConditions() []LastingNodeCondition {
	lasting := Duration{Duration: metav1.Duration{Duration: 300 * time.Second}}
	return []LastingNodeCondition{
		{Type: "Ready", Status: "False", Duration: lasting},
		{Type: "Ready", Status: "Unknown", Duration: lasting},
	}
}

// Defaults that are applied when a check is read. The schema must not fill them in, or their alternatives could not be chosen.

// DefaultMaxUnhealthyMachines is the limit of a MachineHealthCheck that gives none: there is no limit.
func DefaultMaxUnhealthyMachines() intstr.IntOrString { return intstr.FromString("100%") }

// DefaultMaxUnhealthyNodes is the limit of a NodeHealthCheck that gives none: less than half.
func DefaultMaxUnhealthyNodes() intstr.IntOrString { return intstr.FromString("49%") }

// DefaultNodeSelector picks what a NodeHealthCheck without a selector looks after: every Node that does not belong to the control plane.
func DefaultNodeSelector() Selector {
	return Selector{MatchExpressions: []SelectorRequirement{
		{Key: "node-role.kubernetes.io/control-plane", Operator: metav1.LabelSelectorOpDoesNotExist},
		{Key: "node-role.kubernetes.io/master", Operator: metav1.LabelSelectorOpDoesNotExist},
	}}
}

// Labels turns the selector into one that can be asked. An empty selector picks everything.
func (s Selector) Labels() (labels.Selector, error) {
	plain := &metav1.LabelSelector{}
	for key, value := range s.MatchLabels {
		if plain.MatchLabels == nil {
			plain.MatchLabels = map[string]string{}
		}
		plain.MatchLabels[key] = string(value)
	}
	for _, requirement := range s.MatchExpressions {
		converted := metav1.LabelSelectorRequirement{Key: requirement.Key, Operator: requirement.Operator}
		for _, value := range requirement.Values {
			converted.Values = append(converted.Values, string(value))
		}
		plain.MatchExpressions = append(plain.MatchExpressions, converted)
	}
	return metav1.LabelSelectorAsSelector(plain)
}
