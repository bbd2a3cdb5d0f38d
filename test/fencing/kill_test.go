// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build fencing

package fencing_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/jobs"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/fencing"
)

// The manager is killed after each of its writes, before it gets the answer. Nothing is done twice, and the workload runs on another Node.
func TestFence_ManagerKilledAfterEachWrite_NothingIsRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Cleanup(w.Stop)
	m := newDatabase(t, w, "killed")
	m.hang()
	killed := w.Tap.KillAfter(func(string) bool { return true })
	fence := m.fence()
	kills := m.restartUntil(killed, func() bool {
		is := meta.FindStatusCondition(m.read(fence).Status.Conditions, remedyv1.SucceededCondition)
		return is != nil && is.Status == metav1.ConditionTrue && m.taint() == "" && len(m.read(fence).Finalizers) == 0
	})
	ended := m.read(fence)
	m.log("%d kills: %s", kills, describe(ended))
	m.g.Expect(kills).To(BeNumerically(">=", 10))
	m.g.Expect(ended.Status.Reason).To(Equal("Rejoined"))
	m.g.Expect(m.OffRequests()).To(Equal(1))
	m.g.Expect(m.OnRequests()).To(Equal(1))

	all := &batchv1.JobList{}
	m.g.Expect(w.API.List(t.Context(), all, client.InNamespace(fencing.Namespace))).To(Succeed())
	created := map[string]string{}
	for i := range all.Items {
		created[all.Items[i].Name] = all.Items[i].Labels[jobs.ActionLabel]
	}
	recorded := map[string]string{}
	for _, job := range ended.Status.Jobs {
		recorded[job.Name] = string(job.Action)
	}
	m.g.Expect(created).To(Equal(recorded))
	m.g.Expect(created).To(HaveLen(5))
	m.untilRuns("db-0", m.spare.Name)
	m.g.Expect(m.runUIDs()).To(HaveLen(2))

	// Deletion has a finalizer at most again.
	m.g.Expect(w.API.Delete(context.Background(), fence)).To(Succeed())
	m.untilGone(fence)
	m.g.Expect(m.OffRequests()).To(Equal(1))
}

// restartUntil starts the manager again after each kill, until a condition is met. It returns the number of kills.
func (m *machine) restartUntil(killed <-chan string, done func() bool) int {
	m.t.Helper()
	kills := 0
	for deadline := time.Now().Add(limit); ; {
		select {
		case write := <-killed:
			kills++
			m.log("killed after %s", write)
			m.g.Expect(m.world.Fencing.Start()).To(Succeed())
		case <-time.After(100 * time.Millisecond):
			if done() {
				m.world.Tap.KillAfter(nil)
				return kills
			}
		}
		m.g.Expect(time.Now().Before(deadline)).To(BeTrue(), "after %d kills", kills)
	}
}
