// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// longestWait is the longest that a check ever waits between attempts.
const longestWait = 8 * time.Minute

// drawSpec draws the spec of a check.
func (w *World) drawSpec(c *Check) {
	c.Generation++
	c.Version++
	c.WorkersOnly, c.Half = w.rarely(3), 0
	if w.rarely(2) {
		c.Half = 1 + w.draw.IntN(2)
	}
	c.Health = health.Policy{
		NodeConditions: []health.ConditionCheck{
			{Type: "Ready", Status: "Unknown", Lasting: 2*time.Minute + w.minutes(4)}, {Type: "Ready", Status: "False", Lasting: 2*time.Minute + w.minutes(4)},
		},
		NodeStartupTimeout: 10 * time.Minute, NodeGoneTimeout: w.minutes(3),
	}
	if w.rarely(3) && !c.ForNodes {
		c.Health.MachineConditions = []health.ConditionCheck{{Type: "DiskReady", Status: "False", Lasting: 3 * time.Minute}}
	}
	c.Policy = remediation.Policy{
		Limits: remediation.Limits{Default: intstr.FromString("100%")}, ReplacementTimeout: 10 * time.Minute, ReportsHealth: !c.ForNodes,
		Backoff:      []remediation.Backoff{{Initial: time.Minute, Limit: 4 * time.Minute}, {Initial: 3 * time.Minute, Limit: longestWait}}[w.draw.IntN(2)],
		HealthyDelay: w.minutes(3), RecoveryConfirmed: w.rarely(4), Observe: w.rarely(25),
	}
	if c.ForNodes {
		c.Policy.Counting, c.Policy.Limits.Default = remediation.CountUnhealthy, intstr.FromString("60%")
	}
	w.drawLimits(&c.Policy)
	w.drawSteps(c)
}

func (w *World) drawLimits(p *remediation.Policy) {
	number, percent := intstr.FromInt32(w.draw.Int32N(4)), intstr.FromString(fmt.Sprintf("%d%%", 10*w.draw.IntN(8)))
	p.Limits.MaxUnhealthy, p.Limits.MinHealthy, p.Limits.Range = nil, nil, nil
	switch w.draw.IntN(12) {
	case 0, 1:
		p.Limits.MaxUnhealthy = &number
	case 2:
		p.Limits.MaxUnhealthy = &percent
	case 3:
		p.Limits.MinHealthy = &percent
	case 4:
		p.Limits.MinHealthy = &number
	case 5:
		p.Limits.Range = &remediation.Range{Min: w.draw.IntN(3), Max: 2 + w.draw.IntN(2)}
	}
	p.MaxInFlight, p.StormCooldown = nil, 0
	if w.rarely(2) {
		slots := intstr.FromInt32(1 + w.draw.Int32N(2))
		if w.rarely(4) {
			slots = intstr.FromString("30%")
		}
		p.MaxInFlight = &slots
	}
	if w.rarely(2) {
		p.StormCooldown = 5 * time.Minute
	}
}

// drawSteps draws a single template, one after the other, one that is shared with others, or the owner alone or at last.
func (w *World) drawSteps(c *Check) {
	c.Policy.Steps = nil
	if c.ForNodes || !w.rarely(3) {
		for i := range 1 + w.draw.IntN(2) {
			step := remediation.Step{ID: remediation.StepID{Order: int32(i), Template: fmt.Sprintf("%s%d", c.Name, i)}, Timeout: 3*time.Minute + w.minutes(8)}
			step.Unresolved = w.rarely(20)
			if w.rarely(12) {
				step.ID.Template = "shared"
			}
			c.Policy.Steps = append(c.Policy.Steps, step)
		}
	}
	if len(c.Policy.Steps) == 0 || !c.ForNodes && w.rarely(3) {
		c.Policy.Steps = append(c.Policy.Steps, remediation.Step{ID: remediation.StepID{Order: 9}, Owner: true})
	}
}
