// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package differential_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Both controllers really run here, on one API server, while people, tools, crashes and caches that lag behind do what they like.

// number is the value of an environment variable. SWITCHES is how many things happen, and SWITCHES_SEED decides which.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s must be a number: %v", name, err)
	}
	return n
}

// walk is a world in which things happen at random.
type walk struct {
	*environment
	*tap
	dice  *rand.Rand
	now   *shifted
	story []string

	// checks are those of Cluster API, and missing are those that have to be created again.
	checks  []string
	missing map[string]bool
	// unhealthy are the Machines whose Nodes are Unknown.
	machines  map[string]*clusterv1.Machine
	unhealthy map[string]bool

	inTree *life
	// doomed: the in-tree controller is to crash at a write that is still to come.
	doomed bool
	// instances are those of Remedy: one, or two next to each other. lives is how often any has started.
	instances []*instance
	lives     int
	// alone: there are no checks of Remedy any more.
	alone bool
	audit *audit
	// audited is how many notes the audit has seen.
	audited int
}

// shifted is a clock that is ahead of the real one.
type shifted struct {
	clock.RealClock
	by atomic.Int64
}

// Now implements clock.PassiveClock.
func (s *shifted) Now() time.Time { return time.Now().Add(time.Duration(s.by.Load())) }

// Since implements clock.PassiveClock.
func (s *shifted) Since(t time.Time) time.Duration { return s.Now().Sub(t) }

// instances are the filters of the instances of Remedy in one world after the other: every second world has a filter, and one of these two
// instances.
var instances = [][]string{{""}, {oursByLabel, othersByLabel}, {""}, {oursByLabel}}

func newWalk(t *testing.T, seed int) *walk {
	t.Helper()
	w := &walk{
		environment: newEnvironment(t), tap: newTap(), dice: rand.New(rand.NewPCG(uint64(seed), 7)), now: &shifted{},
		checks: slices.Sorted(maps.Keys(pools)), missing: map[string]bool{}, machines: map[string]*clusterv1.Machine{}, unhealthy: map[string]bool{}, audit: newAudit(),
	}
	for _, filter := range instances[seed%len(instances)] {
		w.instances = append(w.instances, &instance{filter: filter})
	}
	var err error
	w.api, err = client.New(w.of(people, server.Admin), client.Options{Scheme: scheme})
	w.Expect(err).ToNot(HaveOccurred())
	w.populate()
	w.inTree = w.runs(w.of(theInTree, server.Admin))
	for _, remedy := range w.instances {
		w.begins(remedy, "All", false)
	}
	return w
}

func (w *walk) say(format string, args ...any) {
	w.story = append(w.story, fmt.Sprintf("%5d  %s", len(w.all()), fmt.Sprintf(format, args...)))
}

// TestSwitches_Random_OneControllerActsOnEachMachine: SWITCHES is how many things happen, and SWITCHES_SEED decides which.
func TestSwitches_Random_OneControllerActsOnEachMachine(t *testing.T) {
	switches, seed := number(t, "SWITCHES", 20), number(t, "SWITCHES_SEED", 1)
	// How much happens in one world. A short walk visits every kind of world, too.
	perWorld := min(40, max(20, switches/len(instances)))
	counts := map[string]int{}
	for done := 0; done < switches; done += perWorld {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			w := newWalk(t, seed)
			t.Cleanup(func() { w.dump(t) })
			for n := range min(perWorld, switches-done) {
				w.step()
				if w.holds(); t.Failed() {
					return
				}
				if n%10 == 9 {
					w.rest()
				}
			}
			w.leave()
			for what, n := range w.audit.counts {
				counts[what] += n
			}
		})
		seed++
	}
	t.Logf("%d switches: %v", switches, counts)
	// The walk proves little if it does not reach everything. A short one may miss what is rare.
	var wanted []string
	if switches >= 80 {
		wanted = append(wanted, "adoptions", "ends by "+oursByLabel, "acts by "+oursByLabel, "acts by "+theInTree)
	}
	if switches >= 200 {
		wanted = append(wanted, "ends by people", "acts by "+theInTree+" where both have a check", "adoptions", "writes while observing")
	}
	for _, what := range wanted {
		if counts[what] == 0 {
			t.Errorf("in %d switches there are no %s", switches, what)
		}
	}
}
