// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package failover_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/depth"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/instance"
)

// outage is what ends, and for how long. kills: the standby is lost too, so the next leader starts during the outage.
type outage struct {
	processes []string
	lasts     time.Duration
	kills     bool
}

// outages are named after their cause.
func outages() map[string]outage {
	both := []string{controlplane.EtcdProcess, controlplane.APIServerProcess}
	all := map[string]outage{"etcd and API server": {processes: both, lasts: workload.ShortOutage + time.Second}}
	if depth.Full() {
		all["API server"] = outage{processes: both[1:], lasts: 20 * time.Second}
		all["etcd"] = outage{processes: both[:1], lasts: 30 * time.Second}
		all["both replicas"] = outage{processes: both[1:], lasts: 5 * time.Second, kills: true}
		all["for ten minutes"] = outage{processes: both, lasts: 10 * time.Minute}
	}
	return all
}

// The management API server is away while a Node is remediated, and while the timeout of others elapses. After its return, kubelets get
// time to report. A Node that does is not remediated, and a Node that does not is.
func TestOutage_APIServerReturns_KubeletsGetTime(t *testing.T) {
	t.Parallel()
	for name, fault := range outages() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fault.meet(t)
		})
	}
}

func (o *outage) meet(t *testing.T) {
	c := startCluster(t, "healthy", "remediated", "returns", "stays")
	start := func() *instance.Instance {
		i, _ := c.StartManager(t, "--leader-elect")
		return i
	}
	leader := start()
	c.Eventually(c.probed(leader)).Should(ContainSubstring("this instance leads"))
	standby := start()
	c.Eventually(c.probed(standby)).Should(ContainSubstring("on standby"))
	c.report("remediated", corev1.ConditionFalse, "KubeletNotReady")
	c.Eventually(c.requested("remediated")).Should(BeTrue())
	for _, node := range []string{"returns", "stays"} {
		c.report(node, corev1.ConditionUnknown, "NodeStatusUnknown")
	}

	ended := time.Now().Add(o.lasts)
	for _, process := range o.processes {
		c.Expect(c.Crash(process)).To(Succeed())
	}
	replicas := []*instance.Instance{leader, standby}
	if o.kills {
		for i := range replicas {
			replicas[i].Kill()
			replicas[i] = start()
		}
	}
	for time.Now().Before(ended) {
		for i := range replicas {
			select {
			case <-replicas[i].Exited():
				// As a kubelet does.
				replicas[i] = start()
			default:
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	returned := time.Now()
	c.Expect(c.Revive(t.Context(), o.processes...)).To(Succeed())

	// The remediation that was in progress continues.
	c.report("remediated", corev1.ConditionTrue, "KubeletReady")
	c.Eventually(c.requested("remediated")).Should(BeFalse())
	time.Sleep(time.Until(returned.Add(workload.ReconnectGracePeriod - 4*time.Second)))
	c.report("returns", corev1.ConditionTrue, "KubeletReady")
	c.Eventually(c.requested("stays")).Should(BeTrue())
	created := c.created()
	c.Expect(created).To(And(HaveLen(2), HaveKeyWithValue("remediated", HaveLen(1)), HaveKeyWithValue("stays", HaveLen(1))))
	c.Expect(created["stays"][0]).To(BeTemporally(">", returned.Add(workload.ReconnectGracePeriod)))
	leading := 0
	for _, replica := range replicas {
		leading += strings.Count(c.probed(replica)(), "this instance leads")
	}
	c.Expect(leading).To(Equal(1))
}
