// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// World is everything there is.
type World struct {
	Now        time.Time
	API, Cache *State
	// Reachable: the workload cluster can be read. Conn is what the controller knows about that.
	Reachable bool
	Conn      Connection
	// Refuses is why the API server refuses every request; empty if it does not.
	Refuses string
	// Violations are invariants that were broken. Story is what happened, the latest last.
	Violations []string
	Story      []string
	// Premises count how often there was something for an invariant to say.
	Premises map[string]int

	// replaced are Machines that their owner has replaced because a check asked for it, and that have no Node yet.
	replaced []replaced

	draw    *rand.Rand
	older   *State
	uids    int
	landed  int
	written map[string]int
	// frozen: what comes before every act was not written, as a pause was seen: nothing follows in this pass.
	frozen bool
	// turnSeen is the version of the turn at the control plane that the last look has seen.
	turnSeen  int
	crashIn   int
	crashLate bool
	calm      bool
}

// Empty is a world in which there is nothing yet, and nothing happens but what its user does: for stories.
func Empty(now time.Time) *World {
	return &World{
		Now: now, Reachable: true, Conn: Connection{Up: true}, Premises: map[string]int{}, calm: true,
		draw: rand.New(rand.NewPCG(0, 17)), crashIn: never, //nolint:gosec // nothing that a story tells is drawn
		API: &State{Machines: map[string]*Machine{}, Nodes: map[string]*Node{}, Requests: map[string]*Request{}, Checks: map[string]*Check{}},
	}
}

// replaced is a Machine that takes the place of another.
type replaced struct {
	check string
	by    int
	at    time.Time
}

// Move takes everything to another management cluster.
func (w *World) Move() { w.move() }

// never is a crash that does not happen.
const never = 1 << 40

// New is a world with a drawn start: any mixture of health, policies and things under way.
func New(seed uint64) *World {
	w := &World{
		Now: time.Date(2026, time.March, 14, 12, 0, 0, 0, time.UTC), Reachable: true, Conn: Connection{Up: true}, Premises: map[string]int{},
		draw: rand.New(rand.NewPCG(seed, 17)), crashIn: never, //nolint:gosec // a seeded schedule has to be repeatable
	}
	w.API = &State{Machines: map[string]*Machine{}, Nodes: map[string]*Node{}, Requests: map[string]*Request{}, Checks: map[string]*Check{}, Workers: 3}
	for i := range 3 {
		w.addMachine(fmt.Sprintf("cp-%d", i), true)
	}
	for range w.API.Workers {
		w.addMachine("", false)
	}
	for _, name := range sorted(w.API.Machines) {
		if w.rarely(12) {
			continue
		}
		w.join(w.API.Machines[name])
	}
	for _, name := range []string{"a", "b", "n"} {
		if w.rarely(2) {
			w.createCheck(name)
		}
	}
	w.Now = w.Now.Add(time.Hour)
	w.synced()
	for range w.draw.IntN(30) {
		w.event()
	}
	return w
}

func (w *World) rarely(n int) bool { return w.draw.IntN(n) == 0 }

func (w *World) uid() int {
	w.uids++
	return w.uids
}

// addMachine adds one. A worker without a name gets one that no other has ever had.
func (w *World) addMachine(name string, controlPlane bool) *Machine {
	uid := w.uid()
	if name == "" {
		name = fmt.Sprintf("w-%d", uid)
	}
	m := &Machine{Name: name, UID: uid, ControlPlane: controlPlane, Created: w.Now, Orphan: !controlPlane && w.rarely(15)}
	w.API.Machines[name] = m
	return m
}

func (w *World) join(m *Machine) {
	if m.Node != "" {
		return
	}
	m.Version++
	m.Node, m.ProviderID = "node-"+m.Name, fmt.Sprintf("sim://%d", m.UID)
	w.API.Nodes[m.Node] = &Node{
		Name: m.Node, UID: w.uid(), ProviderID: m.ProviderID, Created: w.Now, Since: w.Now, Renewed: w.Now, Ready: "True", ControlPlane: m.ControlPlane,
	}
}

// drawSpec draws what a check is told.
func (w *World) drawSpec(c *Check) {
	c.Generation++
	c.Version++
	c.WorkersOnly = c.Name == "b" || w.rarely(3)
	c.Health = health.Policy{
		NodeConditions: []health.ConditionCheck{
			{Type: "Ready", Status: "Unknown", Lasting: 5 * time.Minute}, {Type: "Ready", Status: "False", Lasting: 5 * time.Minute},
		},
		NodeStartupTimeout: 10 * time.Minute, NodeGoneTimeout: time.Duration(w.draw.IntN(2)) * time.Minute,
	}
	p := remediation.Policy{
		Limits: remediation.Limits{Default: intstr.FromString("100%")}, Backoff: remediation.Backoff{Initial: time.Minute, Limit: 4 * time.Minute},
		ReplacementTimeout: 10 * time.Minute, HealthyDelay: time.Duration(w.draw.IntN(3)) * time.Minute, RecoveryConfirmed: w.rarely(8), Observe: w.rarely(25),
	}
	if c.ForNodes {
		p.Counting, p.Limits.Default = remediation.CountUnhealthy, intstr.FromString("60%")
	}
	p.TellsHealth = !c.ForNodes
	if w.rarely(3) {
		limit := intstr.FromInt32(w.draw.Int32N(4))
		p.Limits.MaxUnhealthy = &limit
	}
	if w.rarely(2) {
		slots := intstr.FromInt32(1 + w.draw.Int32N(2))
		p.MaxInFlight = &slots
	}
	if w.rarely(3) {
		p.StormCooldown = 3 * time.Minute
	}
	if c.Name != "b" {
		for i := range 1 + w.draw.IntN(2) {
			step := remediation.Step{ID: remediation.StepID{Order: int32(i), Template: fmt.Sprintf("%s%d", c.Name, i)}, Timeout: 10 * time.Minute}
			step.Unresolved = w.rarely(20)
			p.Steps = append(p.Steps, step)
		}
	}
	if c.Name == "b" || c.Name == "a" && w.rarely(2) {
		p.Steps = append(p.Steps, remediation.Step{ID: remediation.StepID{Order: 9}, Owner: true})
	}
	c.Policy = p
}

// synced brings the cache up to date.
func (w *World) synced() {
	w.older, w.Cache = w.Cache, w.API.Copy()
	if w.older == nil {
		w.older = w.Cache
	}
}

// Step does one thing: mostly something happens, or a check is looked at.
func (w *World) Step() {
	switch k := w.draw.IntN(10); {
	case k < 4:
		w.event()
	case k < 5:
		w.Now = w.Now.Add(time.Duration(1+w.draw.IntN(240)) * time.Second)
	case k < 7:
		w.synced()
	default:
		names := sorted(w.API.Checks)
		if len(names) == 0 {
			w.event()
			return
		}
		if w.rarely(12) {
			w.crashIn, w.crashLate = w.draw.IntN(6), w.rarely(2)
		}
		w.reconcileOrRestart(names[w.draw.IntN(len(names))])
	}
	w.audit()
}

func (w *World) reconcileOrRestart(name string) Pass {
	// Now and then it is a second leader, which does not know yet that it is none any more, and has an older cache.
	cache := w.Cache
	if !w.calm && w.rarely(15) {
		w.Cache = w.older
	}
	pass, err := w.Reconcile(name)
	w.Cache = cache
	w.reached(&pass)
	if w.crashIn < never-100 || err != nil && w.crashIn == 0 {
		w.crashIn = never
		w.synced()
		w.Conn = Connection{Up: w.Reachable}
	}
	return pass
}

// reached counts what was decided.
func (w *World) reached(pass *Pass) {
	for i := range pass.Plan.Decisions {
		d := &pass.Plan.Decisions[i]
		if d.Hold.Reason != "" {
			w.Premises["hold "+string(d.Hold.Reason)]++
		}
		if d.Action > remediation.Wait {
			w.Premises[fmt.Sprintf("action %d %s", d.Action, d.Why)]++
		}
	}
}

// meanwhile is what may happen between a decision and the act.
func (w *World) meanwhile() {
	if !w.calm && w.rarely(6) {
		w.event()
	}
}

func (w *World) note(what string) {
	w.Story = append(w.Story, w.Now.Format(time.TimeOnly)+" "+what)
	if len(w.Story) > 400 {
		w.Story = w.Story[200:]
	}
}
