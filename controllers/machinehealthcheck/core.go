// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// asOurs is a check of Cluster API as if it were one of ours, with what both have in common. Its pause is left out if it is the one by which it was
// handed to us.
func asOurs(core *clusterv1.MachineHealthCheck, handed bool) *remedyv1.MachineHealthCheck {
	check := &remedyv1.MachineHealthCheck{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineHealthCheck"},
		ObjectMeta: core.ObjectMeta,
	}
	if handed {
		check.Annotations = maps.Clone(core.Annotations)
		delete(check.Annotations, clusterv1.PausedAnnotation)
	}
	spec := &core.Spec
	check.Spec = remedyv1.MachineHealthCheckSpec{
		ClusterName:                spec.ClusterName,
		Selector:                   selectorAsOurs(&spec.Selector),
		UnhealthyConditions:        nodeConditionsAsOurs(spec.Checks.UnhealthyNodeConditions),
		UnhealthyMachineConditions: machineConditionsAsOurs(spec.Checks.UnhealthyMachineConditions),
		NodeStartupTimeout:         ptr.To(seconds32(ptr.Deref(spec.Checks.NodeStartupTimeoutSeconds, clusterv1.DefaultNodeStartupTimeoutSeconds))),
		Limits:                     limitsAsOurs(&spec.Remediation.TriggerIf),
	}
	if template := &spec.Remediation.TemplateRef; template.IsDefined() {
		check.Spec.RemediationTemplate = &remedyv1.MachineTemplateReference{}
		check.Spec.RemediationTemplate.APIVersion, check.Spec.RemediationTemplate.Kind, check.Spec.RemediationTemplate.Name = template.APIVersion, template.Kind, template.Name
	}
	check.Status.Conditions = core.Status.Conditions
	check.Status.ObservedGeneration = core.Status.ObservedGeneration
	check.Status.ExpectedMachines, check.Status.CurrentHealthy = core.Status.ExpectedMachines, core.Status.CurrentHealthy
	check.Status.RemediationsAllowed, check.Status.Targets = core.Status.RemediationsAllowed, core.Status.Targets
	return check
}

func seconds32(seconds int32) remedyv1.Duration {
	return remedyv1.Duration{Duration: metav1.Duration{Duration: time.Duration(seconds) * time.Second}}
}

func selectorAsOurs(selector *metav1.LabelSelector) remedyv1.Selector {
	ours := remedyv1.Selector{}
	for key, value := range selector.MatchLabels {
		if ours.MatchLabels == nil {
			ours.MatchLabels = map[string]remedyv1.LabelValue{}
		}
		ours.MatchLabels[key] = remedyv1.LabelValue(value)
	}
	for i := range selector.MatchExpressions {
		from := &selector.MatchExpressions[i]
		requirement := remedyv1.SelectorRequirement{Key: from.Key, Operator: from.Operator}
		for _, value := range from.Values {
			requirement.Values = append(requirement.Values, remedyv1.LabelValue(value))
		}
		ours.MatchExpressions = append(ours.MatchExpressions, requirement)
	}
	return ours
}

func nodeConditionsAsOurs(conditions []clusterv1.UnhealthyNodeCondition) []remedyv1.UnhealthyNodeCondition {
	ours := make([]remedyv1.UnhealthyNodeCondition, 0, len(conditions))
	for _, c := range conditions {
		ours = append(ours, remedyv1.UnhealthyNodeCondition{
			Type: remedyv1.NodeConditionType(c.Type), Status: remedyv1.ConditionStatus(c.Status), Timeout: seconds32(ptr.Deref(c.TimeoutSeconds, 0)),
		})
	}
	return ours
}

func machineConditionsAsOurs(conditions []clusterv1.UnhealthyMachineCondition) []remedyv1.UnhealthyMachineCondition {
	ours := make([]remedyv1.UnhealthyMachineCondition, 0, len(conditions))
	for _, c := range conditions {
		ours = append(ours, remedyv1.UnhealthyMachineCondition{
			Type: remedyv1.MachineConditionType(c.Type), Status: remedyv1.ConditionStatus(c.Status), Timeout: seconds32(ptr.Deref(c.TimeoutSeconds, 0)),
		})
	}
	return ours
}

// limitsAsOurs: a range wins over a number, as it does in Cluster API.
func limitsAsOurs(trigger *clusterv1.MachineHealthCheckRemediationTriggerIf) remedyv1.Limits {
	limits := remedyv1.Limits{UnhealthyRange: rangeAsOurs(trigger.UnhealthyInRange)}
	if trigger.UnhealthyLessThanOrEqualTo != nil {
		limits.MaxUnhealthy = ptr.To(limitAsOurs(*trigger.UnhealthyLessThanOrEqualTo))
	}
	return limits
}

// limitAsOurs: more than all is all. A number may be written as text.
func limitAsOurs(value intstr.IntOrString) intstr.IntOrString {
	digits, percent := strings.CutSuffix(value.StrVal, "%")
	n, err := strconv.ParseUint(digits, 10, 31)
	switch {
	case value.Type == intstr.Int || err != nil:
		return value
	case percent:
		return intstr.FromString(strconv.FormatUint(min(n, 100), 10) + "%")
	}
	return intstr.FromInt32(int32(n))
}

// rangeAsOurs: Cluster API has room for larger numbers than there are Machines.
func rangeAsOurs(text string) string {
	var least, most uint32
	if n, err := fmt.Sscanf(text, "[%d-%d]", &least, &most); err != nil || n < 2 {
		return text
	}
	return fmt.Sprintf("[%d-%d]", min(least, math.MaxInt32), min(most, math.MaxInt32))
}

// pausedByTheirs is what Cluster API's controller has said last of the pause of a check: that it sees the annotation, or that there is no pause.
func pausedByTheirs(conditions []metav1.Condition) (paused, unpaused bool) {
	c := meta.FindStatusCondition(conditions, clusterv1.PausedCondition)
	if c == nil {
		return false, false
	}
	return c.Status == metav1.ConditionTrue && namesTheAnnotation(c.Message), c.Status == metav1.ConditionFalse
}

// namesTheAnnotation says whether a message of Cluster API's condition Paused is about the annotation, and not only about the Cluster.
func namesTheAnnotation(message string) bool {
	return strings.Contains(message, clusterv1.PausedAnnotation)
}
