// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stories_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/sim"
)

// setting is a field of a check, with its text in a story.
type setting struct {
	words string
	set   func(*sim.Check)
}

// defaultCheck returns a check with the default settings of its kind.
func defaultCheck(name string, forNodes bool) *sim.Check {
	c := &sim.Check{Name: name, ForNodes: forNodes, Version: 1, Generation: 1}
	for _, status := range []string{"Unknown", "False"} {
		c.Health.NodeConditions = append(c.Health.NodeConditions, health.ConditionCheck{Type: "Ready", Status: status, Lasting: 5 * time.Minute})
	}
	c.Health.NodeStartupTimeout = 10 * time.Minute
	c.Policy = remediation.Policy{
		Limits: remediation.Limits{Default: intstr.FromString("100%")}, Backoff: remediation.Backoff{Initial: time.Minute, Limit: 10 * time.Minute},
		ReplacementTimeout: 10 * time.Minute, ReportsHealth: !forNodes, Steps: []remediation.Step{{Owner: true}},
	}
	if forNodes {
		c.Policy.Counting, c.Policy.Limits.Default, c.Policy.Steps = remediation.CountUnhealthy, intstr.FromString("49%"), nil
	}
	return c
}

func creates(c *sim.Check, settings []setting) step {
	return func(d *driver) {
		made := *c
		words := []string{"Ready Unknown or False for 5m0s"}
		for _, s := range settings {
			s.set(&made)
			words = append(words, s.words)
		}
		if len(made.Policy.Steps) == 1 && made.Policy.Steps[0].Owner {
			words = append(words, "owner remediation")
		}
		d.w.API.Checks[made.Name] = &made
		d.write("User", "creates %s %s: %s", kind(&made), made.Name, strings.Join(words, "; "))
	}
}

func machineCheck(name string, settings ...setting) step {
	return creates(defaultCheck(name, false), settings)
}

func nodeCheck(settings ...setting) step { return creates(defaultCheck("nodes", true), settings) }

// sets changes settings of a check.
func sets(name string, settings ...setting) step {
	return func(d *driver) {
		c := d.check(name)
		c.Generation++
		words := make([]string, 0, len(settings))
		for _, s := range settings {
			s.set(c)
			words = append(words, s.words)
		}
		d.write("User", "changes %s: %s", name, strings.Join(words, "; "))
	}
}

func (d *driver) check(name string) *sim.Check {
	c := d.w.API.Checks[name]
	if c == nil {
		d.t.Fatalf("check %s does not exist", name)
	}
	c.Version++
	return c
}

func deletesCheck(name string) step {
	return func(d *driver) {
		c := d.check(name)
		d.write("User", "deletes %s", name)
		if c.Deleting = true; !c.Finalizer {
			delete(d.w.API.Checks, name)
			delete(d.wakes, name)
		}
	}
}

func number(n int32) *intstr.IntOrString { v := intstr.FromInt32(n); return &v }
func text(s string) *intstr.IntOrString  { v := intstr.FromString(s); return &v }

func maxUnhealthy(percent string) setting {
	return setting{"maxUnhealthy: " + percent, func(c *sim.Check) { c.Policy.Limits.MaxUnhealthy = text(percent) }}
}

func unhealthyRange(least, most int) setting {
	return setting{fmt.Sprintf("unhealthyRange: [%d-%d]", least, most), func(c *sim.Check) { c.Policy.Limits.Range = &remediation.Range{Min: least, Max: most} }}
}

func maxInFlight(n int32) setting {
	return setting{fmt.Sprintf("maxInFlight: %d", n), func(c *sim.Check) { c.Policy.MaxInFlight = number(n) }}
}

func stormCooldown(d time.Duration) setting {
	return setting{fmt.Sprintf("stormCooldownDuration: %s", d), func(c *sim.Check) { c.Policy.StormCooldown = d }}
}

func healthyDelay(d time.Duration) setting {
	return setting{fmt.Sprintf("healthyDelay: %s", d), func(c *sim.Check) { c.Policy.HealthyDelay = d }}
}

func nodeGoneTimeout(d time.Duration) setting {
	return setting{fmt.Sprintf("nodeGoneTimeout: %s", d), func(c *sim.Check) { c.Health.NodeGoneTimeout = d }}
}

func nodeStartupTimeout(d time.Duration) setting {
	return setting{fmt.Sprintf("nodeStartupTimeout: %s", d), func(c *sim.Check) { c.Health.NodeStartupTimeout = d }}
}

func machineCondition(kind, status string, lasting time.Duration) setting {
	return setting{fmt.Sprintf("unhealthyMachineConditions: %s %s for %s", kind, status, lasting), func(c *sim.Check) {
		c.Health.MachineConditions = append(c.Health.MachineConditions, health.ConditionCheck{Type: kind, Status: status, Lasting: lasting})
	}}
}

func mode(m string) setting {
	return setting{"mode: " + m, func(c *sim.Check) { c.Policy.Observe = m == "Observe" }}
}

func pauseRequests(all ...string) setting {
	words := make([]string, 0, len(all))
	for _, reason := range all {
		words = append(words, strconv.Quote(reason))
	}
	return setting{"pauseRequests: [" + strings.Join(words, ", ") + "]", func(c *sim.Check) { c.PauseRequests = all }}
}

func onlyWorkers() setting {
	return setting{"selector: only workers", func(c *sim.Check) { c.WorkersOnly = true }}
}

var recoveryConfirmed = setting{"recovery: Confirmed", func(c *sim.Check) { c.Policy.RecoveryConfirmed = true }}

// template sets a single template with a timeout of 10 minutes.
func template(name string) setting {
	return setting{"remediationTemplate: " + name + ", timeout 10m0s", func(c *sim.Check) {
		c.Policy.Steps = []remediation.Step{{ID: remediation.StepID{Template: name}, Timeout: 10 * time.Minute}}
	}}
}

// needsMachineIn sets where the remediator of all templates looks for Machines.
func needsMachineIn(namespace string) setting {
	return setting{"the remediator needs a Machine in namespace " + namespace, func(c *sim.Check) {
		for i := range c.Policy.Steps {
			c.Policy.Steps[i].NeedsMachineIn = namespace
		}
	}}
}

// escalating sets several templates in order. "owner" is owner remediation.
func escalating(names ...string) setting {
	words := make([]string, 0, len(names))
	steps := make([]remediation.Step, 0, len(names))
	for i, name := range names {
		step := remediation.Step{ID: remediation.StepID{Order: int32(i + 1), Template: name}, Timeout: 10 * time.Minute}
		words = append(words, fmt.Sprintf("%d %s, timeout 10m0s", i+1, name))
		if name == "owner" {
			step.ID.Template, step.Timeout, step.Owner = "", 0, true
			words[i] = fmt.Sprintf("%d owner", i+1)
		}
		steps = append(steps, step)
	}
	return setting{"escalatingRemediations: " + strings.Join(words, ", "), func(c *sim.Check) { c.Policy.Steps = steps }}
}

// only limits a step of the escalation to a condition.
func only(order int32, cause remediation.Cause) setting {
	return setting{fmt.Sprintf("step %d only for %s=%s", order, cause.Type, cause.Status), func(c *sim.Check) {
		c.Policy.Steps = slices.Clone(c.Policy.Steps)
		for i := range c.Policy.Steps {
			if c.Policy.Steps[i].ID.Order == order {
				c.Policy.Steps[i].Conditions = []remediation.Cause{cause}
			}
		}
	}}
}

// templateExists creates or deletes the templates of a check.
func templateExists(check string, is bool) step {
	return func(d *driver) {
		c := d.check(check)
		for i := range c.Policy.Steps {
			c.Policy.Steps[i].Unresolved = !is
			d.write("User", "%s %s", map[bool]string{true: "creates", false: "deletes"}[is], c.Policy.Steps[i].ID.Template)
		}
	}
}

// annotates sets or removes an annotation of Cluster API on a Machine.
func annotates(name, annotation string, is bool) step {
	return func(d *driver) {
		m := d.machine(name)
		switch annotation {
		case "paused":
			m.Paused = is
		case "skip-remediation":
			m.Skip = is
		case "remediate-machine":
			m.Remediate = is
		default:
			d.t.Fatalf("unknown annotation %s", annotation)
		}
		d.writeAnnotation(name, "cluster.x-k8s.io/"+annotation, is)
	}
}

// writeAnnotation writes that a user sets or removes an annotation or a label.
func (d *driver) writeAnnotation(object, what string, is bool) {
	if is {
		d.write("User", "sets %s on %s", what, object)
		return
	}
	d.write("User", "removes %s from %s", what, object)
}

func pausesCluster(is bool) step {
	return func(d *driver) {
		d.w.PauseCluster(is)
		d.write("User", "sets spec.paused of the Cluster to %v", is)
	}
}

func moves(d *driver) {
	d.write("User", "moves the cluster to another management cluster: status is lost, and UIDs change")
	d.w.Move()
}

func pausesCheck(name string, is bool) step {
	return func(d *driver) {
		d.w.PauseCheck(d.check(name), is)
		d.writeAnnotation(name, "cluster.x-k8s.io/paused", is)
	}
}

func excludes(name string, is bool) step {
	return func(d *driver) {
		n := d.node(name)
		n.Excluded = is
		d.writeAnnotation(n.Name, remedyv1.ExcludeLabel, is)
	}
}

func confirmsRecovery(name string) step {
	return func(d *driver) {
		n := d.node(name)
		n.Confirmed = true
		d.writeAnnotation(n.Name, remedyv1.ConfirmedHealthyAnnotation, true)
	}
}

func userDeletes(name string) step {
	return func(d *driver) {
		d.machine(name).DeletingSince = d.w.Now
		d.write("User", "deletes %s", name)
	}
}

// holdsLease lets another component hold the Lease of a Node.
func holdsLease(name, who string, lasting time.Duration) step {
	return func(d *driver) {
		n := d.node(name)
		n.Holder, n.BlockedUntil = who, d.w.Now.Add(lasting)
		d.write("User", "acquires the Lease of %s as %s for %s", n.Name, who, lasting)
	}
}

// rejectsRequests makes the API server reject remediation requests with a message; empty if it accepts them.
func rejectsRequests(why string) step {
	return func(d *driver) {
		d.w.Refuses = why
		if why == "" {
			d.write("Cluster", "has an API server that accepts requests again")
			return
		}
		d.write("Cluster", "has an API server that rejects requests: %s", why)
	}
}
