// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// kubeletNode is a Node as a kubelet and a cloud provider report it, with as many labels and images as is common.
func kubeletNode(i int) *corev1.Node {
	name := fmt.Sprintf("production-workers-7f9c8-%06d", i)
	n := node(name, fmt.Sprintf("aws:///eu-central-1a/i-%017d", i))
	n.Labels = map[string]string{
		"beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
		"beta.kubernetes.io/instance-type": "m5.2xlarge", "node.kubernetes.io/instance-type": "m5.2xlarge", "kubernetes.io/hostname": name,
		"topology.kubernetes.io/region": "eu-central-1", "topology.kubernetes.io/zone": "eu-central-1a", "node-role.kubernetes.io/worker": "",
	}
	n.Annotations = map[string]string{
		"cluster.x-k8s.io/cluster-name": "production", "cluster.x-k8s.io/cluster-namespace": "clusters", "cluster.x-k8s.io/machine": name,
		"cluster.x-k8s.io/owner-kind": "MachineSet", "cluster.x-k8s.io/owner-name": "production-workers-7f9c8",
		"kubeadm.alpha.kubernetes.io/cri-socket": "unix:///run/containerd/containerd.sock", "node.alpha.kubernetes.io/ttl": "0",
		"volumes.kubernetes.io/controller-managed-attach-detach": "true",
	}
	for _, kind := range []corev1.NodeConditionType{
		corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeNetworkUnavailable,
	} {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: kind, Status: corev1.ConditionTrue, Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available",
			LastHeartbeatTime: metav1.NewTime(noon), LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour)),
		})
	}
	n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi")}
	for image := range 50 {
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{
			Names: []string{fmt.Sprintf("registry.example.com/team/service-%d:v1.2.3", image)}, SizeBytes: 1 << 25,
		})
	}
	return n
}

// cachedNodes returns what the store of the informer and the cache of a cluster hold for each Node. The Nodes are decoded, as a watch
// delivers them, so no two share a string.
func cachedNodes(tb testing.TB, count int) (bytesPerNode float64) {
	tb.Helper()
	before := heldBytes()
	store, nodes := toolscache.NewStore(toolscache.MetaNamespaceKeyFunc), newNodeCache(transitions{clock.RealClock{}, ClockTolerance})
	for i := range count {
		content, err := kubeletNode(i).Marshal()
		if err != nil {
			tb.Fatal(err)
		}
		received := &corev1.Node{}
		if err := received.Unmarshal(content); err != nil {
			tb.Fatal(err)
		}
		stripped := Strip(received)
		if err := store.Add(stripped); err != nil {
			tb.Fatal(err)
		}
		nodes.put(stripped)
	}
	held := heldBytes() - before
	runtime.KeepAlive(store)
	runtime.KeepAlive(nodes)
	return float64(held) / float64(count)
}

// A Node in the cache needs a tenth of what a kubelet sends. It does not run in parallel, because it measures the heap of the process.
func TestCachedNodes_Memory_IsBounded(t *testing.T) {
	NewWithT(t).Expect(cachedNodes(t, 5_000)).To(BeNumerically("<", 4_500))
}

func BenchmarkCachedNodesMemory(b *testing.B) {
	for b.Loop() {
		b.ReportMetric(cachedNodes(b, 100_000), "B/Node")
	}
}

// heldBytes are the bytes of the heap that are in use after a garbage collection.
func heldBytes() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
