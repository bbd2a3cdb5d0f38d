// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package intree

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// specOf is the spec of a check of Cluster API in Remedy's terms, without the selector.
func specOf(core *clusterv1.MachineHealthCheck) *remedyv1.MachineHealthCheckSpec {
	spec := &core.Spec
	as := &remedyv1.MachineHealthCheckSpec{
		ClusterName:                spec.ClusterName,
		UnhealthyConditions:        nodeConditionsAs(spec.Checks.UnhealthyNodeConditions),
		UnhealthyMachineConditions: machineConditionsAs(spec.Checks.UnhealthyMachineConditions),
		NodeStartupTimeout:         ptr.To(seconds(spec.Checks.NodeStartupTimeoutSeconds, clusterv1.DefaultNodeStartupTimeoutSeconds)),
		Limits:                     remedyv1.Limits{UnhealthyRange: rangeAs(spec.Remediation.TriggerIf.UnhealthyInRange)},
	}
	// A range wins over a number, as it does in Cluster API.
	if limit := spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo; limit != nil {
		as.MaxUnhealthy = ptr.To(limitAs(*limit))
	}
	if template := &spec.Remediation.TemplateRef; template.IsDefined() {
		as.RemediationTemplate = &remedyv1.MachineTemplateReference{TemplateKind: remedyv1.TemplateKind{
			APIVersion: template.APIVersion, Kind: template.Kind, Name: template.Name,
		}}
	}
	return as
}

func seconds(n *int32, absent int32) remedyv1.Duration {
	return remedyv1.Duration{Duration: metav1.Duration{Duration: time.Duration(ptr.Deref(n, absent)) * time.Second}}
}

func nodeConditionsAs(conditions []clusterv1.UnhealthyNodeCondition) []remedyv1.UnhealthyNodeCondition {
	as := make([]remedyv1.UnhealthyNodeCondition, 0, len(conditions))
	for _, c := range conditions {
		as = append(as, remedyv1.UnhealthyNodeCondition{
			Type: remedyv1.NodeConditionType(c.Type), Status: remedyv1.ConditionStatus(c.Status), Timeout: seconds(c.TimeoutSeconds, 0),
		})
	}
	return as
}

func machineConditionsAs(conditions []clusterv1.UnhealthyMachineCondition) []remedyv1.UnhealthyMachineCondition {
	as := make([]remedyv1.UnhealthyMachineCondition, 0, len(conditions))
	for _, c := range conditions {
		as = append(as, remedyv1.UnhealthyMachineCondition{
			Type: remedyv1.MachineConditionType(c.Type), Status: remedyv1.ConditionStatus(c.Status), Timeout: seconds(c.TimeoutSeconds, 0),
		})
	}
	return as
}

// limitAs: more than all is all. A number may be written as text.
func limitAs(value intstr.IntOrString) intstr.IntOrString {
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

// rangeAs: Cluster API has room for larger numbers than there are Machines.
func rangeAs(text string) string {
	var least, most uint32
	if n, err := fmt.Sscanf(text, "[%d-%d]", &least, &most); err != nil || n < 2 {
		return text
	}
	return fmt.Sprintf("[%d-%d]", min(least, math.MaxInt32), min(most, math.MaxInt32))
}
