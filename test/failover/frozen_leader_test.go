// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package failover_test

import (
	"net/http"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// The leader is frozen after a write until its Lease has expired, and continues when the other replica has become the leader. It changes
// nothing any more, and no Node gets a second request. The other replica is frozen meanwhile, so only the former leader could act.
func TestFrozenLeader_Continues_ChangesNothing(t *testing.T) {
	t.Parallel()
	c := startCluster(t, "a", "b", "c", "d", "e", "f", "g", "h")
	// With the default times, the test takes twice as long.
	elects := []string{
		"--leader-elect", "--leader-elect-lease-duration=8s", "--leader-elect-renew-deadline=6s", "--leader-elect-retry-period=1s",
	}
	leader := c.startReplica(elects...)
	c.Eventually(c.probed(leader.Instance)).Should(ContainSubstring("this instance leads"))
	standby := c.startReplica(elects...)
	c.Eventually(c.probed(standby.Instance)).Should(ContainSubstring("on standby"))

	// frozen freezes the leader at a write, and lets the standby remediate a Node. Another one has to be remediated when the former leader
	// continues.
	frozen := func(method, resource string, cause func(), meanwhile, next string) {
		t.Helper()
		met := leader.freezeAt(func(verb, path string) bool { return verb == method && strings.Contains(path, "/"+resource) })
		cause()
		c.Eventually(met).Should(BeClosed(), "%s %s", method, resource)
		c.annotate(meanwhile, remedyv1.RemediateNodeAnnotation)
		c.Eventually(c.requested(meanwhile)).Should(BeTrue())
		c.Expect(standby.Freeze()).To(Succeed())
		c.annotate(next, remedyv1.RemediateNodeAnnotation)
		// Some writes may have been under way when it was frozen.
		before := len(leader.Writes())
		c.Expect(leader.Thaw()).To(Succeed())
		c.Eventually(leader.Exited()).Should(BeClosed())
		c.Expect(standby.Thaw()).To(Succeed())
		c.Eventually(c.requested(next)).Should(BeTrue())
		for _, write := range leader.Writes()[before:] {
			c.Expect(write.Landed()).To(BeFalse(), "%s", write)
		}
		leader, standby = standby, c.startReplica(elects...)
		c.Eventually(c.probed(standby.Instance)).Should(ContainSubstring("on standby"))
	}
	frozen(http.MethodPost, kind.Plural, func() { c.annotate("a", remedyv1.RemediateNodeAnnotation) }, "b", "c")
	frozen(http.MethodDelete, kind.Plural, func() { c.annotate("a", "") }, "d", "e")
	frozen(http.MethodPatch, "nodehealthchecks/workers/status", func() { c.report("f", corev1.ConditionFalse, "KubeletNotReady") }, "g", "h")
	c.Expect(c.created()).To(HaveEach(HaveLen(1)))
}

// annotate sets an annotation of a Node, or removes that which requests remediation.
func (c *cluster) annotate(node, key string) {
	c.t.Helper()
	found := &corev1.Node{}
	c.Expect(c.API.Get(c.t.Context(), client.ObjectKey{Name: node}, found)).To(Succeed())
	before := found.DeepCopy()
	delete(found.Annotations, remedyv1.RemediateNodeAnnotation)
	if key != "" {
		found.Annotations = map[string]string{key: "yes"}
	}
	c.Expect(c.API.Patch(c.t.Context(), found, client.MergeFrom(before))).To(Succeed())
}
