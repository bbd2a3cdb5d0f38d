// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"hash/fnv"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
)

// schedules is how many random schedules are tried.
const schedules = 6

// machine is worker-1 with the container of its Pod db-0, which writes as long as it runs. All of it acts at random times.
type machine struct {
	*stage
	pod types.UID
	// runs: the container runs. read and stops: the kubelet has read the Pod, and that it terminates.
	runs, read, stops bool
	// silent: the kubelet does not reach the API server. down: it has not booted since the machine lost its power.
	silent, down bool
	boots        int
	trace        []string
}

func newMachine(t *testing.T) *machine {
	m := &machine{stage: newStage(t), runs: true, read: true, silent: true}
	m.profile()
	m.pod = m.stage.pod("db-0").UID
	m.answer = func(_, action string) (int32, string) {
		switch action {
		case "status":
			if m.off {
				return 2, "Status: OFF"
			}
			return 0, "Status: ON"
		default:
			m.setPower(action == "on")
		}
		return 0, "Success"
	}
	return m
}

// setPower switches the machine. Without power, the container and all that the kubelet has read end.
func (m *machine) setPower(on bool) {
	if m.off = !on; m.off {
		m.runs, m.read, m.stops, m.silent, m.down = false, false, false, false, true
	}
}

// object is the Pod that the container belongs to; nil if it was removed.
func (m *machine) object() *corev1.Pod {
	pod := &corev1.Pod{}
	err := m.admin.Get(m.t.Context(), client.ObjectKey{Namespace: m.namespace, Name: "db-0"}, pod)
	if apierrors.IsNotFound(err) || err == nil && pod.UID != m.pod {
		return nil
	}
	m.Expect(err).ToNot(HaveOccurred())
	return pod
}

// act lets one of the parties do what is due for it.
func (m *machine) act(what string) {
	pod, node := m.object(), m.getNode("worker-1")
	evicts, outOfService := false, false
	for i := range node.Spec.Taints {
		evicts = evicts || node.Spec.Taints[i].Key == fencingv1.FencingTaint && node.Spec.Taints[i].Effect == corev1.TaintEffectNoExecute
		outOfService = outOfService || node.Spec.Taints[i].Key == corev1.TaintNodeOutOfService
	}
	ready, up := nodeFacts(node, "").Ready, !m.off && !m.down
	switch {
	case what == "node controller" && (!up || m.silent) && ready != corev1.ConditionUnknown:
		m.ready("worker-1", corev1.ConditionUnknown, node.Status.NodeInfo.BootID)
	case what == "boot" && !m.off && m.down:
		m.boots++
		m.down = false
		m.ready("worker-1", corev1.ConditionTrue, fmt.Sprint("boot-", m.boots+1))
	case what == "kubelet reads" && up && !m.silent:
		m.stops = pod == nil || pod.DeletionTimestamp != nil
		m.read = pod != nil || m.read
	case what == "container" && up && m.read:
		m.runs = !m.stops
	case what == "kubelet deletes" && up && !m.silent && m.stops && !m.runs && pod != nil && pod.DeletionTimestamp != nil,
		what == "PodGC" && outOfService && ready != corev1.ConditionTrue && pod != nil && pod.DeletionTimestamp != nil:
		m.Expect(m.admin.Delete(m.t.Context(), pod, client.GracePeriodSeconds(0))).To(Succeed())
	case what == "taint eviction" && (evicts || outOfService) && pod != nil && pod.DeletionTimestamp == nil:
		m.Expect(m.admin.Delete(m.t.Context(), pod)).To(Succeed())
	case what == "person":
		m.setPower(m.off)
	default:
		return
	}
	m.trace = append(m.trace, what)
}

// atMostOne verifies that a Pod that was removed does not run: the next one of its name may.
func (m *machine) atMostOne() {
	m.Expect(m.runs && m.object() == nil).To(BeFalse(), "V1: a Pod was removed and runs, after %v", m.trace)
}

// A manager that is killed after any write, Kubernetes, the kubelet and a person at the switch act in random order. A Pod that was removed
// never runs, and everything is undone at the end.
func TestReconcile_RandomSchedules_RemoveNoPodThatRuns(t *testing.T) {
	parties := []string{"node controller", "boot", "kubelet reads", "container", "kubelet deletes", "PodGC", "taint eviction"}
	removed := 0
	for seed := range schedules {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			m, rolls := newMachine(t), 0
			// A schedule can be repeated by its number.
			draw := func(of int) int {
				h := fnv.New32a()
				_, _ = fmt.Fprint(h, seed, rolls)
				rolls++
				return int(h.Sum32()>>8) % of
			}
			f, persons := m.fence("random"), 2
			for range 150 {
				switch next := draw(20); {
				case next < 6:
					m.trace = append(m.trace, "reconcile")
					m.mortal = draw(3) == 0
					m.reconcile(f)
				case next < 9:
					m.playJobs()
				case next < 11:
					m.clock.Step(time.Duration(1+draw(30)) * time.Second)
				case next == 11 && persons > 0 && draw(3) == 0:
					persons--
					m.act("person")
				default:
					m.act(parties[draw(len(parties))])
				}
				m.atMostOne()
			}
			m.mortal = false
			m.run(f, func(f *fencingv1.NodeFence) bool {
				for _, party := range slices.Concat(parties, parties) {
					m.act(party)
					m.atMostOne()
				}
				return final(f) || failed(f) || f.Status.Reason == "PoweredOffBefore"
			})
			if m.object() == nil {
				removed++
			}
			m.Expect(m.admin.Delete(t.Context(), f)).To(Succeed())
			m.run(f, func(*fencingv1.NodeFence) bool { return false })
			facts := nodeFacts(m.getNode("worker-1"), f.UID)
			m.Expect(facts.Fence).To(BeEmpty())
			m.Expect(facts.OutOfService).To(BeFalse())
			m.atMostOne()
		})
	}
	NewWithT(t).Expect(removed).To(BeNumerically(">", schedules/3), "the schedules are about removed Pods")
}
