// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// settings are those that both kinds of checks have.
type settings struct {
	remedyv1.Limits
	remedyv1.Pace
	// name is the name of the check, and of its template of the first kind if there are no steps.
	name string
	// steps are the kinds of the templates, which are called "step-1", "step-2".
	steps []remediator.Kind
	// missing are the kinds of templates that are not created.
	missing []remediator.Kind
	// ownerLast is owner remediation after the last template. Only Machines have it.
	ownerLast bool
}

// createTemplates creates the templates of all steps, and returns the references to them.
func createTemplates[T any](set *settings, create, reference func(remediator.Kind, string) *T) []*T {
	all := make([]*T, 0, len(set.steps)+1)
	for i, kind := range set.steps {
		all = append(all, createTemplate(set, kind, fmt.Sprintf("step-%d", i+1), create, reference))
	}
	return all
}

func createTemplate[T any](
	set *settings, kind remediator.Kind, name string, create, reference func(remediator.Kind, string) *T,
) *T {
	if slices.Contains(set.missing, kind) {
		return reference(kind, name)
	}
	return create(kind, name)
}

// kindCheck is a check of either kind.
type kindCheck struct {
	s *kindStage
	client.Object
}

// createCheck creates a check of all targets. Its limit allows everything, unless the test changes that.
func (s *kindStage) createCheck(changes ...func(*settings)) *kindCheck {
	s.T.Helper()
	set := &settings{name: "workers"}
	set.MaxUnhealthy = ptr.To(intstr.FromString("100%"))
	for _, change := range changes {
		change(set)
	}
	if s.ofNodes {
		return &kindCheck{s, s.CreateNodeCheck(set.name, func(spec *remedyv1.NodeHealthCheckSpec) {
			spec.Limits, spec.Pace = set.Limits, set.Pace
			reference := func(kind remediator.Kind, name string) *remedyv1.NodeTemplateReference {
				return stage.NodeTemplateReference(s.Stage, kind, name)
			}
			stage.NodeSteps(createTemplates(set, s.CreateNodeTemplate, reference)...)(spec)
			if len(set.steps) == 0 {
				spec.RemediationTemplate = createTemplate(set, s.first, set.name, s.CreateNodeTemplate, reference)
			}
		})}
	}
	return &kindCheck{s, s.CreateCheck(set.name, func(spec *remedyv1.MachineHealthCheckSpec) {
		spec.Limits, spec.Pace = set.Limits, set.Pace
		templates := createTemplates(set, s.CreateTemplate, stage.TemplateReference)
		if set.ownerLast {
			templates = append(templates, nil)
		}
		if stage.BySteps(templates...)(spec); len(templates) == 0 && !s.byOwner {
			spec.RemediationTemplate = createTemplate(set, s.first, set.name, s.CreateTemplate, stage.TemplateReference)
		}
	})}
}

// setTemplate changes the only template of a check.
func (c *kindCheck) setTemplate(kind remediator.Kind) {
	c.s.T.Helper()
	c.s.Change(c.Object, func() {
		switch check := c.Object.(type) {
		case *remedyv1.MachineHealthCheck:
			check.Spec.EscalatingRemediations, check.Spec.RemediationTemplate = nil, c.s.CreateTemplate(kind, "other")
		case *remedyv1.NodeHealthCheck:
			check.Spec.EscalatingRemediations, check.Spec.RemediationTemplate = nil, c.s.CreateNodeTemplate(kind, "other")
		}
	})
}

// parts are what both kinds of checks have.
type parts struct {
	*remedyv1.Limits
	*remedyv1.Pace
	*remedyv1.Selector
	*remedyv1.CheckStatus
	// healthy is how many targets are healthy.
	healthy **int32
}

// parts are those of the check as it was read last.
func (c *kindCheck) parts() parts {
	if check, is := c.Object.(*remedyv1.NodeHealthCheck); is {
		return parts{&check.Spec.Limits, &check.Spec.Pace, check.Spec.Selector, &check.Status.CheckStatus, &check.Status.HealthyNodes}
	}
	check := c.Object.(*remedyv1.MachineHealthCheck)
	return parts{&check.Spec.Limits, &check.Spec.Pace, &check.Spec.Selector, &check.Status.CheckStatus, &check.Status.CurrentHealthy}
}

// change changes the spec of a check.
func (c *kindCheck) change(do func(parts)) {
	c.s.T.Helper()
	c.s.Change(c.Object, func() { do(c.parts()) })
}

// changeStatus changes the status of a check.
func (c *kindCheck) changeStatus(do func(parts)) {
	c.s.T.Helper()
	c.s.ChangeStatus(c.Object, func() { do(c.parts()) })
}

// loseStatus removes the unhealthy targets from the status of a check.
func (c *kindCheck) loseStatus() {
	c.s.T.Helper()
	c.changeStatus(func(p parts) { p.UnhealthyTargets = nil })
}

// observe sets the mode of a check.
func (c *kindCheck) observe() {
	c.s.T.Helper()
	c.change(func(p parts) { p.Mode = remedyv1.ObserveMode })
}

// selectOthers lets a check select the targets of another pool.
func (c *kindCheck) selectOthers() {
	c.s.T.Helper()
	c.change(func(p parts) { p.MatchLabels["pool"] = "others" })
}

// endPause continues remediation.
func (c *kindCheck) endPause() {
	c.s.T.Helper()
	c.change(func(p parts) { p.PauseRequests = nil })
}

// setWatchLabel sets the instance that reconciles a check.
func (c *kindCheck) setWatchLabel(filter string) {
	c.s.T.Helper()
	c.s.Change(c.Object, func() { c.SetLabels(map[string]string{clusterv1.WatchLabel: filter}) })
}

// delete deletes a check.
func (c *kindCheck) delete() {
	c.s.T.Helper()
	c.s.Expect(c.s.Admin.Delete(c.s.Ctx, c.Object)).To(Succeed())
}

// finalizers are those of a check; none if it no longer exists.
func (c *kindCheck) finalizers() []string {
	err := c.s.Admin.Get(c.s.Ctx, client.ObjectKeyFromObject(c.Object), c.Object)
	if apierrors.IsNotFound(err) {
		return nil
	}
	c.s.Expect(err).ToNot(HaveOccurred())
	return c.GetFinalizers()
}

// status reads what the status of both kinds has.
func (c *kindCheck) status() *remedyv1.CheckStatus {
	c.s.T.Helper()
	stage.Get(c.s.Stage, c.Object)()
	return c.parts().CheckStatus
}

// healthy returns how many targets are healthy, -1 if that is not known.
func (c *kindCheck) healthy() int {
	c.s.T.Helper()
	c.status()
	return int(ptr.Deref(*c.parts().healthy, -1))
}

// target reads an unhealthy target in the status; it is empty if there is none of that name.
func (c *kindCheck) target(name string) remedyv1.UnhealthyTarget {
	c.s.T.Helper()
	for _, t := range c.status().UnhealthyTargets {
		if t.Name == c.s.name(name) {
			return t
		}
	}
	return remedyv1.UnhealthyTarget{}
}

// decision returns a function that reads the decision about a target, and why it is blocked; empty if the target is not unhealthy.
func (c *kindCheck) decision(target string) func() string {
	return func() string {
		c.s.T.Helper()
		t := c.target(target)
		return strings.TrimPrefix(string(t.Decision)+" "+string(t.BlockedReason), " ")
	}
}

// condition returns a function that reads the status and the reason of a condition.
func (c *kindCheck) condition(kind string) func() string {
	return func() string {
		c.s.T.Helper()
		return stage.CheckCondition(kind)(c.asMachineCheck())
	}
}

// message reads the message of a condition.
func (c *kindCheck) message(kind string) string {
	c.s.T.Helper()
	return stage.CheckMessage(kind)(c.asMachineCheck())
}

// asMachineCheck reads the status of a check as that of a MachineHealthCheck.
func (c *kindCheck) asMachineCheck() *remedyv1.MachineHealthCheck {
	return &remedyv1.MachineHealthCheck{Status: remedyv1.MachineHealthCheckStatus{CheckStatus: *c.status()}}
}

// outcomes returns the outcomes of the last remediations, the latest first.
func (c *kindCheck) outcomes() []string {
	c.s.T.Helper()
	recent := c.status().RecentRemediations
	all := make([]string, 0, len(recent))
	for _, r := range recent {
		all = append(all, strings.TrimPrefix(r.Target, c.s.name(""))+" "+string(r.Outcome))
	}
	return all
}

// title is what messages call a check.
func (c *kindCheck) title() string {
	if c.s.ofNodes {
		return "NodeHealthCheck " + c.GetName()
	}
	return "MachineHealthCheck " + c.GetNamespace() + "/" + c.GetName()
}

// atMost limits how many targets are remediated at the same time.
func atMost(n int) func(*settings) {
	return func(s *settings) { s.MaxInFlight = ptr.To(intstr.FromInt(n)) }
}

// maxUnhealthy limits how many targets may be unhealthy, as a number or a percentage.
func maxUnhealthy(n string) func(*settings) {
	return func(s *settings) { s.MaxUnhealthy = ptr.To(intstr.Parse(n)) }
}

// named gives a check a name.
func named(name string) func(*settings) { return func(s *settings) { s.name = name } }

// pausedByUser pauses remediation.
func pausedByUser(s *settings) { s.PauseRequests = []string{"test"} }

// inSteps escalates from one kind of requests to the next.
func inSteps(kinds ...remediator.Kind) func(*settings) { return func(s *settings) { s.steps = kinds } }
