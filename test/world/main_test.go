// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

// soon is how long anything that should happen may take. These machines are shared, and nothing but a failure takes that long.
const soon = 10 * time.Minute

// farOff is the timeout of a step that no scenario waits for.
const farOff = time.Hour

// pollingInterval is how often Eventually and Consistently look.
const pollingInterval = 250 * time.Millisecond

// Most tests look at one world: each has clusters of its own in it.
var shared struct {
	lock  sync.Mutex
	world *world.World
}

func TestMain(m *testing.M) {
	if os.Getenv(asPassenger) != "" {
		fmt.Fprintln(os.Stderr, ride())
		os.Exit(1)
	}
	// A request to the API server takes it milliseconds of one of two processors.
	SetDefaultEventuallyPollingInterval(pollingInterval)
	SetDefaultConsistentlyPollingInterval(pollingInterval)
	// The tests wait nearly all the time, so all of them run at once, unless -parallel is set.
	if flag.Parse(); !isSet("test.parallel") {
		_ = flag.Set("test.parallel", "32")
	}
	chosen, err := "", world.Isolate() // What runs before it runs twice.
	if err == nil {
		chosen, err = chooseScenarios()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprint(os.Stderr, chosen)
	world.Main(m, aside, func() { fmt.Fprint(os.Stderr, chosen) })
}

// aTenaciousLead are flags with which Remedy does not lose leadership, and its memory, when these machines are busy for ten seconds.
var aTenaciousLead = []string{"--leader-elect-lease-duration=30s", "--leader-elect-renew-deadline=25s"}

// aside ends the world that most tests look at. The next one who wants it gets a new one.
func aside() {
	shared.lock.Lock()
	defer shared.lock.Unlock()
	if shared.world != nil {
		shared.world.Stop()
		shared.world = nil
	}
}

// starting is held while a world starts: two processors are busy with one.
var starting sync.Mutex

// startWorld starts a world for one test, which stops with the test.
func startWorld(t *testing.T, options world.Options) *world.World {
	t.Helper()
	starting.Lock()
	defer starting.Unlock()
	w, err := world.Start(t.Context(), options)
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	t.Cleanup(w.Stop)
	return w
}

func theWorld(t *testing.T) *world.World {
	t.Helper()
	shared.lock.Lock()
	defer shared.lock.Unlock()
	if shared.world == nil {
		begin := time.Now()
		w, err := world.Start(context.Background(), world.Options{
			// Upstream's limiter makes everything wait for up to 15 seconds. TestRateLimiting_UpstreamDefault_MachinesAreReplaced has it on.
			Variables: map[string]string{world.RateLimiting: "false"},
			Tapped:    []string{world.Core},
			Flags:     map[string][]string{world.Remedy: aTenaciousLead},
			Progress:  os.Stderr, Logs: os.Getenv("WORLD_LOGS"),
		})
		NewWithT(t).Expect(err).ToNot(HaveOccurred())
		t.Logf("a management cluster with all managers is ready after %s", time.Since(begin).Round(100*time.Millisecond))
		shared.world = w
	}
	return shared.world
}

// namesGiven counts the names that uniqueName has returned.
var namesGiven atomic.Int64

// uniqueName returns a name that no other test, and no other round of the same test (go test -count), gets in this program.
func uniqueName(name string) string { return fmt.Sprintf("%s-%d", name, namesGiven.Add(1)) }

// aCluster makes a cluster that is deleted with the world, and replaces its incomplete Machines until it is ready.
func aCluster(t *testing.T, shape world.Shape) *world.Cluster {
	t.Helper()
	g := NewWithT(t)
	c, err := theWorld(t).Cluster(t.Context(), shape)
	g.Expect(err).ToNot(HaveOccurred())
	ctx, ready := context.WithCancel(t.Context())
	defer ready()
	replaceIncomplete(ctx, theWorld(t), c)
	g.Expect(c.Ready(t.Context())).To(Succeed())
	return c
}

// workerOf is one of a cluster's workers, and the name of its Node.
func workerOf(t testing.TB, c *world.Cluster) (machine clusterv1.Machine, node string) {
	t.Helper()
	g := NewWithT(t)
	machines, err := c.PoolMachines(t.Context(), world.WorkersPool)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(machines).ToNot(BeEmpty())
	g.Expect(machines[0].Status.NodeRef.Name).ToNot(BeEmpty())
	return machines[0], machines[0].Status.NodeRef.Name
}

// machineCondition reads a condition of a Machine, for Eventually.
func machineCondition(ctx context.Context, w *world.World, machine clusterv1.Machine, kind string) func() metav1.Condition {
	return func() metav1.Condition {
		got := &clusterv1.Machine{}
		if err := w.Client.Get(ctx, client.ObjectKeyFromObject(&machine), got); err != nil {
			return metav1.Condition{Message: err.Error()}
		}
		if c := meta.FindStatusCondition(got.Status.Conditions, kind); c != nil {
			return *c
		}
		return metav1.Condition{Message: "there is none"}
	}
}

func nodeReady(node *corev1.Node) corev1.NodeCondition {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c
		}
	}
	return corev1.NodeCondition{}
}
