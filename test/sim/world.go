// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// World is everything there is.
type World struct {
	Now        time.Time
	API, Cache *State
	// Reachable: the workload cluster can be read. Conn is the state that the controller has of the connection.
	Reachable bool
	Conn      Connection
	// Refuses is why the API server refuses every request; empty if it does not.
	Refuses string
	// Slow: a preflight check takes so long that a reconcile begins no other, and acts on one target.
	Slow bool
	// Violations are invariants that were broken. Story is what happened, the latest last.
	Violations []string
	Story      []string
	// Premises count in how many states an invariant applied.
	Premises map[string]int
	// Steps is how much has happened: events, reconciles, and other reads.
	Steps int

	// replaced are Machines that their owner has replaced because a check asked for it, and that have no Node yet.
	replaced []replaced
	log      *history
	records  records
	// counted is the moment at which a premise was counted last.
	counted map[string]int

	draw  *rand.Rand
	older *State
	uids  int
	// moments number everything that happens, changes what caches show later, of which so many were delivered.
	moments, changes, delivered int
	// deliveredAt is when caches have shown everything last.
	deliveredAt time.Time
	// releasedByOld: the last finalizer was removed by an old leader.
	releasedByOld bool
	// busy is how many passes are under way.
	busy int
	// moves is how often everything was moved to another management cluster.
	moves int
	calm  bool
	// expires is the version of the control-plane Lease whose holder no longer monitors the control plane.
	expires int
	// disturbed: what is decided now was read before another writer has changed something, so it may not be compared with the truth.
	disturbed bool
	// memories are what the running process remembers of the requests of each check. deletions are requests that other clients have deleted, by
	// target; nil if they delete none. known are those that the process has read or created, by their serials.
	memories  map[string]*remediation.RequestMemory
	deletions map[trying]*deletion
	known     map[int]bool
	// endedByOld are checks and targets of which an old leader has ended a request: the running process takes that for another client.
	endedByOld map[string]bool
	// polls: this is a copy of the world, in which nothing is reported.
	polls bool
	// queue are checks that have something new to look at, wakes when they want to look without that. last is what they decided last.
	queue map[string]bool
	// outdated are checks whose last reconcile had a conflict. The next one begins when the caches are up to date.
	outdated map[string]bool
	wakes    map[string]time.Time
	last     map[string]*Pass
}

// Empty is a world in which there is nothing yet, and nothing happens but what its user does: for stories.
func Empty(now time.Time) *World {
	w := empty(now, 0)
	w.calm = true
	return w
}

func empty(now time.Time, seed uint64) *World {
	return &World{
		Now: now, Reachable: true, Conn: Connection{Up: true}, Premises: map[string]int{}, counted: map[string]int{},
		queue: map[string]bool{}, outdated: map[string]bool{}, endedByOld: map[string]bool{}, wakes: map[string]time.Time{}, last: map[string]*Pass{}, records: newRecords(),
		draw: rand.New(rand.NewPCG(seed, 17)), //nolint:gosec // a seeded schedule has to be repeatable
		API:  &State{Machines: map[string]*Machine{}, Nodes: map[string]*Node{}, Requests: map[string]*Request{}, Checks: map[string]*Check{}},
	}
}

// Move takes everything to another management cluster.
func (w *World) Move() { w.move() }

// never is a crash that does not happen.
const never = 1 << 40

// names are those that checks can have. Those of the last two are of Nodes.
var names = []string{"a", "b", "n", "o"}

// New is a world with a drawn start: any mixture of health, policies and things under way.
func New(seed uint64) *World {
	w := empty(time.Date(2026, time.March, 14, 12, 0, 0, 0, time.UTC), seed)
	w.log, w.API.Workers = newHistory(), 3
	for i := range 3 - 2*w.one(12) + 2*w.one(4) {
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
	for _, name := range names {
		if w.rarely(2) {
			w.createCheck(name)
		}
	}
	w.Now = w.Now.Add(time.Hour)
	w.restart()
	for range w.draw.IntN(30) {
		w.event()
	}
	return w
}

func (w *World) rarely(n int) bool { return w.draw.IntN(n) == 0 }

// one is 1 now and then, and 0 otherwise.
func (w *World) one(n int) int {
	if w.rarely(n) {
		return 1
	}
	return 0
}

func (w *World) minutes(n int) time.Duration { return time.Duration(w.draw.IntN(n)) * time.Minute }

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
	m := &Machine{Name: name, UID: uid, Body: uid, ControlPlane: controlPlane, Created: w.Now, Orphan: !controlPlane && w.rarely(15)}
	w.API.Machines[name] = m
	return m
}

func (w *World) join(m *Machine) {
	if m.Node != "" {
		return
	}
	m.Version++
	m.Node, m.ProviderID = "node-"+m.Name, fmt.Sprintf("sim://%d", m.Body)
	w.API.Nodes[m.Node] = &Node{
		Name: m.Node, UID: w.uid(), ProviderID: m.ProviderID, Created: w.Now, Since: w.Now, Renewed: w.Now, Ready: "True", ControlPlane: m.ControlPlane,
	}
}

func (w *World) note(what string) {
	w.Story = append(w.Story, w.Now.Format(time.TimeOnly)+" "+what)
	if len(w.Story) > 400 {
		w.Story = append(w.Story[:0], w.Story[200:]...)
	}
}
