// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Defaults of the schema, for checks that are created in memory. A test compares both.
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

// DefaultMaxUnhealthyMachines is the limit of a MachineHealthCheck without one. The schema must not have this default, because it excludes
// other limits.
func DefaultMaxUnhealthyMachines() intstr.IntOrString { return intstr.FromString("100%") }

// DefaultMaxUnhealthyNodes is the limit of a NodeHealthCheck without one.
func DefaultMaxUnhealthyNodes() intstr.IntOrString { return intstr.FromString("49%") }

// Labels converts the selector. An empty selector selects everything.
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
