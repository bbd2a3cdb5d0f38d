// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stories_test

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/sim"
)

// setting is a field of a check, as a person writes it.
type setting struct {
	words string
	set   func(*sim.Check)
}

// A check that is told nothing: what both kinds have by default.
func usual(name string, forNodes bool) *sim.Check {
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
			words = append(words, "the owner remediates")
		}
		d.w.API.Checks[made.Name] = &made
		d.tell("User", "creates %s %s: %s", kind(&made), made.Name, strings.Join(words, "; "))
	}
}

func machineCheck(name string, settings ...setting) step {
	return creates(usual(name, false), settings)
}

func nodeCheck(settings ...setting) step { return creates(usual("nodes", true), settings) }

// sets is an edit of a check.
func sets(name string, settings ...setting) step {
	return func(d *driver) {
		c := d.check(name)
		c.Generation++
		words := make([]string, 0, len(settings))
		for _, s := range settings {
			s.set(c)
			words = append(words, s.words)
		}
		d.tell("User", "sets in %s: %s", name, strings.Join(words, "; "))
	}
}

func (d *driver) check(name string) *sim.Check {
	c := d.w.API.Checks[name]
	if c == nil {
		d.t.Fatalf("there is no check %s", name)
	}
	c.Version++
	return c
}

func deletesCheck(name string) step {
	return func(d *driver) {
		c := d.check(name)
		d.tell("User", "deletes %s", name)
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
	return setting{fmt.Sprintf("unhealthyRange: [%d-%d]", least, most), func(c *sim.Check) { c.Policy.Limits.Range = &remediation.Range{Least: least, Most: most} }}
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

// template is a single one, with a timeout of 10 minutes.
func template(name string) setting {
	return setting{"remediationTemplate: " + name + ", timeout 10m0s", func(c *sim.Check) {
		c.Policy.Steps = []remediation.Step{{ID: remediation.StepID{Template: name}, Timeout: 10 * time.Minute}}
	}}
}

// escalating is one template after the other. "owner" is the owner.
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

// templateIsThere says whether the templates of a check exist.
func templateIsThere(check string, is bool) step {
	return func(d *driver) {
		c := d.check(check)
		for i := range c.Policy.Steps {
			c.Policy.Steps[i].Unresolved = !is
			d.tell("User", "%s %s", map[bool]string{true: "creates", false: "deletes"}[is], c.Policy.Steps[i].ID.Template)
		}
	}
}

// annotates puts an annotation of Cluster API on a Machine, or takes it away.
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
			d.t.Fatalf("no annotation %s", annotation)
		}
		d.putsOn(name, "cluster.x-k8s.io/"+annotation, is)
	}
}

// putsOn tells that a person puts something on an object, or takes it away again.
func (d *driver) putsOn(object, what string, is bool) {
	if is {
		d.tell("User", "puts %s on %s", what, object)
		return
	}
	d.tell("User", "takes %s away from %s", what, object)
}

func pausesCluster(is bool) step {
	return func(d *driver) {
		d.w.PauseCluster(is)
		d.tell("User", "sets spec.paused of the Cluster to %v", is)
	}
}

func moves(d *driver) {
	d.tell("User", "moves everything to another management cluster: status is lost, and there are new UIDs")
	d.w.Move()
}

func pausesCheck(name string, is bool) step {
	return func(d *driver) {
		d.w.PauseCheck(d.check(name), is)
		d.putsOn(name, "cluster.x-k8s.io/paused", is)
	}
}

func excludes(name string, is bool) step {
	return func(d *driver) {
		n := d.node(name)
		n.Excluded = is
		d.putsOn(n.Name, remedyv1.ExcludeLabel, is)
	}
}

func confirms(name string) step {
	return func(d *driver) {
		n := d.node(name)
		n.Confirmed = true
		d.putsOn(n.Name, remedyv1.ConfirmedHealthyAnnotation, true)
	}
}

func userDeletes(name string) step {
	return func(d *driver) {
		d.machine(name).DeletingSince = d.w.Now
		d.tell("User", "deletes %s", name)
	}
}

// holdsLease: somebody else works on that Node.
func holdsLease(name, who string, lasting time.Duration) step {
	return func(d *driver) {
		n := d.node(name)
		n.Holder, n.HeldUntil = who, d.w.Now.Add(lasting)
		d.tell("User", "%s takes the Lease of %s for %s", who, n.Name, lasting)
	}
}

// refuses is what the API server says to every request; empty if it says nothing.
func refuses(why string) step {
	return func(d *driver) {
		d.w.Refuses = why
		if why == "" {
			d.tell("Cluster", "its API server does not refuse requests any more")
			return
		}
		d.tell("Cluster", "its API server refuses requests: %s", why)
	}
}
