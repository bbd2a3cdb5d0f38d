// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
)

func TestRead_RealConnection_ReturnsAllStates(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := newStage(t)
	key := s.cluster("prod", second, nil)
	node := addNode(t, second, "real-a", "id://a")
	s.up(key)
	g.Eventually(func() health.NodeState { return s.read(key, workload.Target{Name: "real-a"})[0].State }, patience).Should(Equal(health.Present))

	targets := []workload.Target{
		{Name: "real-a", ProviderID: "id://a"},
		{Name: "real-a", ProviderID: "id://b"},
		{Name: "real-x", ProviderID: "id://x"},
		{ProviderID: "id://x"},
		{ProviderID: "id://a"},
	}
	for name, readings := range map[string][]workload.Reading{"read": s.read(key, targets...), "look": s.readLive(key, targets...)} {
		g.Expect(readings).To(HaveLen(len(targets)))
		g.Expect(readings[0]).To(And(HaveField("State", health.Present), HaveField("ProviderIDMismatch", false), HaveField("Node.UID", node.UID)), name)
		g.Expect(readings[0].Node.ManagedFields).To(BeEmpty(), "it is stripped")
		g.Expect(readings[0].Node.Status.NodeInfo).To(BeZero(), "it is stripped")
		g.Expect(readings[1]).To(And(HaveField("State", health.Present), HaveField("ProviderIDMismatch", true), HaveField("Live", true)), name)
		g.Expect(readings[2]).To(And(HaveField("State", health.Gone), HaveField("Live", true)), name)
		g.Expect(readings[3]).To(And(HaveField("State", health.NotJoined), HaveField("Live", true)), name)
		g.Expect(readings[4].State).To(Equal(health.Unreadable), name)
		g.Expect(workload.ReadErrorReasonOf(readings[4].Err)).To(Equal(workload.NoNodeRef), name)
	}
	seen := s.Get(key).Connection(t.Context())
	g.Expect(seen.Up).To(BeTrue())
	g.Expect(seen.LastSeen).ToNot(BeZero())

	g.Expect(clientOf(t, second).Delete(t.Context(), node)).To(Succeed())
	g.Expect(s.readLive(key, targets[0])[0].State).To(Equal(health.Gone))
	g.Eventually(func() health.NodeState { return s.read(key, targets[0])[0].State }, patience).Should(Equal(health.Gone))
	g.Eventually(func() []workload.NodeChange { return s.woken(key, "real-a") }, patience).Should(ContainElement(HaveField("After", BeNil())))

	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	g.Expect(s.management.Delete(t.Context(), cluster)).To(Succeed())
	g.Eventually(func() health.NodeState { return s.read(key, targets[0])[0].State }, patience).Should(Equal(health.Unreadable), "without a Cluster there is no connection")
	g.Eventually(s.Remembered, patience).Should(BeEmpty())
}

func TestLive_LeasesAndControlPlane_AreRead(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := newStage(t)
	key := s.cluster("prod", second, nil)
	s.up(key)
	admin := clientOf(t, second)
	live := s.Get(key).Live()
	renewed := metav1.NewMicroTime(time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC))
	for _, name := range []string{corev1.NamespaceNodeLease, "medik8s-leases"} {
		_ = admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}

	// Few Leases are read one by one, and many with one list.
	read := func() (leases []workload.NodeLease) {
		leases = live.NodeLeases(t.Context(), []string{"look-a"})
		return append(leases, live.NodeLeases(t.Context(), []string{"look-b", "look-c", "look-d", "look-e", "look-f", "look-a"})...)
	}
	g.Expect(read()).To(HaveEach(workload.NodeLease{}), "no Lease")
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "look-a"}}
	second.CreateUntilEnd(t, lease)
	g.Expect(read()).To(HaveEach(workload.NodeLease{}), "never renewed")
	lease.Spec.RenewTime = &renewed
	g.Expect(admin.Update(t.Context(), lease)).To(Succeed())
	for i, lease := range read() {
		g.Expect(lease.Err).ToNot(HaveOccurred())
		if i == 0 || i == 6 {
			g.Expect(lease.Renewed).To(BeTemporally("==", renewed.Time))
		} else {
			g.Expect(lease.Renewed).To(BeZero())
		}
	}

	other := client.ObjectKey{Namespace: "medik8s-leases", Name: "node-look-a"}
	found, err := live.Lease(t.Context(), other)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(found).To(BeNil())
	second.CreateUntilEnd(t, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: other.Namespace, Name: other.Name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("node-maintenance")},
	})
	found, err = live.Lease(t.Context(), other)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(found.Spec.HolderIdentity).To(HaveValue(Equal("node-maintenance")))

	seen, err := live.ControlPlane(t.Context())
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(seen).To(Equal(workload.ControlPlane{}), "etcd is elsewhere")
	for name, labels := range map[string]map[string]string{
		"look-3": {workload.ControlPlaneLabel: ""}, "look-1": {workload.LegacyControlPlaneLabel: ""},
		"look-2": {workload.ControlPlaneLabel: "", workload.LegacyControlPlaneLabel: ""}, "look-4": {workload.EtcdLabel: "true"},
		"look-worker": nil,
	} {
		node := addNode(t, second, name, "")
		node.Labels = labels
		g.Expect(admin.Update(t.Context(), node)).To(Succeed())
	}
	etcdPod(t, "etcd-look-2", "look-2", true, true)
	etcdPod(t, "etcd-look-1", "look-1", true, false)
	etcdPod(t, "backup", "look-3", false, true)
	seen, err = live.ControlPlane(t.Context())
	g.Expect(err).ToNot(HaveOccurred())
	names := make([]string, 0, len(seen.Nodes))
	for _, node := range seen.Nodes {
		names = append(names, node.Name)
		g.Expect(node.ManagedFields).To(BeEmpty())
	}
	g.Expect(names).To(Equal([]string{"look-1", "look-2", "look-3", "look-4"}))
	g.Expect(seen.Etcd).To(Equal([]workload.EtcdPod{{Node: "look-1"}, {Node: "look-2", Ready: true}}))

	api, err := s.Get(key).Client(t.Context())
	g.Expect(err).ToNot(HaveOccurred())
	request := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "request"}}
	g.Expect(api.Create(t.Context(), request)).To(Succeed())
	g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(request), request)).To(Succeed(), "there is no cache in between")
	g.Expect(api.Delete(t.Context(), request)).To(Succeed())
}

func etcdPod(t *testing.T, name, node string, mirror, ready bool) {
	t.Helper()
	g := NewWithT(t)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name, Labels: map[string]string{"component": "etcd"}}}
	if mirror {
		pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	}
	pod.Spec.NodeName = node
	pod.Spec.AutomountServiceAccountToken = ptr.To(false)
	pod.Spec.TerminationGracePeriodSeconds = ptr.To(int64(0))
	pod.Spec.Containers = []corev1.Container{{Name: "etcd", Image: "etcd"}}
	second.CreateUntilEnd(t, pod)
	before := pod.DeepCopy()
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: status}}
	g.Expect(second.API.Status().Patch(t.Context(), pod, client.MergeFrom(before))).To(Succeed())
}

func TestRead_ManagementCluster_ReturnsNodes(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := newStage(t)
	node := addNode(t, first, "home-a", "id://a")
	s.up(workload.ManagementCluster)
	target := workload.Target{Name: "home-a", ProviderID: "id://a"}
	g.Eventually(func() health.NodeState { return s.read(workload.ManagementCluster, target)[0].State }, patience).Should(Equal(health.Present))
	g.Expect(s.read(workload.ManagementCluster, workload.Target{Name: "home-x"})[0].State).To(Equal(health.Gone))
	g.Expect(s.readLive(workload.ManagementCluster, workload.Target{ProviderID: "id://x"})[0].State).To(Equal(health.NotJoined))
	g.Expect(s.Get(workload.ManagementCluster).Connection(t.Context()).Up).To(BeTrue())
	g.Expect(s.notificationsOf(workload.ManagementCluster)).To(BeNumerically(">", 0))
	before := node.DeepCopy()
	node.Labels = map[string]string{"pool": "a"}
	g.Expect(clientOf(t, first).Patch(t.Context(), node, client.MergeFrom(before))).To(Succeed())
	g.Eventually(func() []workload.NodeChange { return s.woken(workload.ManagementCluster, "home-a") }, patience).ShouldNot(BeEmpty())
	_, err := s.Get(workload.ManagementCluster).Client(t.Context())
	g.Expect(err).ToNot(HaveOccurred())
}

// The variable LEASE_NAMESPACE of the operators of medik8s moves the Leases of Nodes.
func TestNodeRemediations_OtherNamespace_IsRead(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := newStage(t)
	key := s.cluster("prod", second, nil)
	s.UseNodeLeasesOf("fencing-leases")
	s.up(key)
	read := func() *workload.NodeRemediations {
		found, err := s.Get(key).Live().NodeRemediations(t.Context())
		g.Expect(err).ToNot(HaveOccurred())
		return found
	}
	g.Expect(read().Used).To(BeFalse(), "there is no such namespace")
	second.CreateUntilEnd(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "fencing-leases"}})
	second.CreateUntilEnd(t, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "fencing-leases", Name: "node-a"}})
	g.Expect(read().Lease("A")).ToNot(BeNil())
	g.Expect(read().Key("A")).To(Equal(client.ObjectKey{Namespace: "fencing-leases", Name: "node-a"}))
}

// TestNodeSource_Heartbeats_EnqueueNothing posts heartbeats, and then a change that enqueues a request. A request for an earlier heartbeat would come first.
func TestNodeSource_Heartbeats_EnqueueNothing(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := newStage(t)
	key := s.cluster("prod", second, nil)
	node := addNode(t, second, "beat", "id://beat")
	s.up(key)
	admin := clientOf(t, second)
	patch := func(change func(n *corev1.Node)) {
		before := node.DeepCopy()
		change(node)
		g.Expect(admin.Status().Patch(t.Context(), node, client.MergeFrom(before))).To(Succeed())
	}
	mark := func(status corev1.ConditionStatus) {
		patch(func(n *corev1.Node) {
			n.Status.Conditions[0].Status, n.Status.Conditions[0].LastTransitionTime = status, metav1.NewTime(node.Status.Conditions[0].LastTransitionTime.Add(time.Minute))
		})
	}
	mark(corev1.ConditionFalse)
	g.Eventually(func() []workload.NodeChange { return s.woken(key, "beat") }, patience).Should(ContainElement(HaveField("After.Status.Conditions", ContainElement(HaveField("Status", corev1.ConditionFalse)))))
	told := len(s.woken(key, "beat"))
	for i := range 50 {
		patch(func(n *corev1.Node) {
			n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(n.Status.Conditions[0].LastHeartbeatTime.Add(5 * time.Minute))
			n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{fmt.Sprintf("image-%d", i)}, SizeBytes: 1})
		})
	}
	mark(corev1.ConditionTrue)
	g.Eventually(func() int { return len(s.woken(key, "beat")) }, patience).Should(BeNumerically(">", told))
	changes := s.woken(key, "beat")
	g.Expect(changes).To(HaveLen(told+1), "fifty heartbeats, and one change")
	g.Expect(changes[told].Before.Status.Conditions[0].Status).To(Equal(corev1.ConditionFalse))
	g.Expect(changes[told].After.Status.Conditions[0].Status).To(Equal(corev1.ConditionTrue))
	g.Expect(s.read(key, workload.Target{Name: "beat"})[0].Node.Status.Conditions[0].Status).To(Equal(corev1.ConditionTrue), "who is woken reads what woke it")
}

func TestNodeSource_EqualNames_NameTheCluster(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := newStage(t)
	one, two := s.cluster("one", first, nil), s.cluster("two", second, nil)
	here, there := addNode(t, first, "twin", "id://one"), addNode(t, second, "twin", "id://two")
	s.up(one)
	s.up(two)
	node := func(key client.ObjectKey) *corev1.Node { return s.read(key, workload.Target{Name: "twin"})[0].Node }
	g.Eventually(func() []any { return []any{node(one), node(two)} }, patience).Should(HaveEach(Not(BeNil())))
	g.Expect(node(one).UID).To(Equal(here.UID))
	g.Expect(node(two).UID).To(Equal(there.UID))
	g.Expect(s.readLive(one, workload.Target{Name: "twin", ProviderID: "id://two"})[0].ProviderIDMismatch).To(BeTrue())

	before := there.DeepCopy()
	there.Labels = map[string]string{"pool": "a"}
	// Until now, both clusters may notify that the Node was created and is ready.
	isOfPool := HaveField("After", HaveValue(HaveField("Labels", HaveKeyWithValue("pool", "a"))))
	g.Expect(clientOf(t, second).Patch(t.Context(), there, client.MergeFrom(before))).To(Succeed())
	g.Eventually(func() []workload.NodeChange { return s.woken(two, "twin") }, patience).Should(ContainElement(isOfPool))
	g.Expect(clientOf(t, second).Delete(t.Context(), there)).To(Succeed())
	g.Eventually(func() health.NodeState { return s.read(two, workload.Target{Name: "twin"})[0].State }, patience).Should(Equal(health.Gone))
	g.Expect(node(one).UID).To(Equal(here.UID))
	g.Expect(s.woken(one, "twin")).ToNot(ContainElement(Or(HaveField("After", BeNil()), isOfPool)), "a change in one cluster causes no request for the other")
}

func TestKubeconfig_StartsProgram_IsRefusedUntilCorrected(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := newStage(t)
	kubeconfig := kubeconfigOf(t, second.Admin, nil)
	good := *kubeconfig.AuthInfos["u"]
	kubeconfig.AuthInfos["u"] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
		Command: "/bin/false", Args: []string{"s3cr3t"}, APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
	}}
	key := s.clusterWith("prod", kubeconfig)
	obstacle := func() workload.ReadErrorReason {
		return workload.ReadErrorReasonOf(s.Get(key).Connection(t.Context()).Err)
	}
	g.Eventually(obstacle, patience).Should(Equal(workload.KubeconfigRefused))
	err := s.Get(key).Connection(t.Context()).Err
	g.Expect(err).To(MatchError(And(ContainSubstring(s.namespace+"/prod-kubeconfig"), ContainSubstring("exec (a program; use a token"))))
	g.Expect(err).ToNot(MatchError(ContainSubstring("s3cr3t")))
	r := s.read(key, workload.Target{Name: "any"})[0]
	g.Expect(r.State).To(Equal(health.Unreadable))
	g.Expect(r.Err).To(Equal(err))

	kubeconfig.AuthInfos["u"] = &good
	s.putKubeconfig(key, kubeconfig)
	s.up(key)
	g.Expect(s.Get(key).Connection(t.Context()).Err).ToNot(HaveOccurred())
}

// TestKubeconfig_CorrectedThenRestarted_IsFollowed has a kubeconfig that leads to another cluster, which answers. As
// long as that cluster answers, the manager does not read the Secret again.
func TestKubeconfig_CorrectedThenRestarted_IsFollowed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := newStage(t)
	addNode(t, second, "elsewhere-a", "id://elsewhere-a")
	addNode(t, second, "elsewhere-b", "id://elsewhere-b")
	targets := []workload.Target{{Name: "elsewhere-a", ProviderID: "id://elsewhere-a"}, {Name: "elsewhere-b", ProviderID: "id://elsewhere-b"}}
	key := s.cluster("prod", first, nil)
	s.up(key)
	g.Eventually(func() workload.ReadErrorReason { return workload.ReadErrorReasonOf(s.read(key, targets...)[0].Err) }, patience).Should(Equal(workload.WrongCluster))
	s.putKubeconfig(key, kubeconfigOf(t, second.Admin, nil))
	s.stop()
	s.start()
	g.Eventually(func() []workload.Reading { return s.read(key, targets...) }, patience).Should(HaveEach(HaveField("State", health.Present)))
	g.Expect(s.readLive(key, targets...)).To(HaveEach(HaveField("State", health.Present)))
}

func TestRead_MissingPermission_IsForbidden(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := newStage(t)
	nobody := controlplane.User{Name: s.namespace}
	second.Grant(t, nobody, "", rbacv1.PolicyRule{NonResourceURLs: []string{"/"}, Verbs: []string{"get"}})
	key := s.clusterWith("prod", kubeconfigOf(t, second.ConfigOf(t, nobody), nil))
	g.Eventually(func() bool { return s.Get(key).Connection(t.Context()).Up }, patience).Should(BeTrue())
	target := workload.Target{Name: "any"}
	r := s.readLive(key, target)[0]
	g.Expect(r.State).To(Equal(health.Unreadable))
	g.Expect(workload.ReadErrorReasonOf(r.Err)).To(Equal(workload.Forbidden))
	r = s.read(key, target)[0]
	g.Expect(r.State).To(Equal(health.Unreadable))
	g.Expect(workload.ReadErrorReasonOf(r.Err)).To(Equal(workload.NotReadYet))
}

// TestConnection_Ended_ReleasesResources connects and disconnects two hundred clusters, so a leak of one connection is multiplied.
func TestConnection_Ended_ReleasesResources(t *testing.T) {
	g := NewWithT(t)
	s := newStage(t)
	way := newProxy(t, addressOf(t, second))
	addNode(t, second, "leak", "id://leak")
	kubeconfig := kubeconfigOf(t, &rest.Config{Host: second.Admin.Host, TLSClientConfig: second.Admin.TLSClientConfig}, way)
	const batch = 20
	round := func(name string, size int) {
		keys := make([]client.ObjectKey, size)
		for i := range keys {
			keys[i] = s.clusterWith(fmt.Sprintf("leak-%s-%d", name, i), kubeconfig)
		}
		for _, key := range keys {
			s.up(key)
			g.Expect(s.read(key, workload.Target{Name: "leak"}, workload.Target{Name: "missing"})).To(HaveExactElements(
				HaveField("State", health.Present), HaveField("State", health.Gone)))
		}
		for _, key := range keys {
			g.Expect(s.management.Delete(t.Context(), &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})).To(Succeed())
		}
		for _, key := range keys {
			g.Eventually(func() bool { return s.Get(key).Connection(t.Context()).Up }, patience).Should(BeFalse())
		}
	}
	// The first rounds fill what is filled once: caches of types, connections that are kept.
	round("first", batch)
	round("second", batch)
	var before int
	g.Eventually(func() bool { was := before; before = runtime.NumGoroutine(); return was == before }, patience, time.Second).Should(BeTrue())
	roads := way.count()
	// The manager connects a Cluster once a second, so few large rounds are quicker than many small ones.
	round("third", 5*batch)
	round("fourth", 5*batch)
	g.Eventually(runtime.NumGoroutine, patience, 100*time.Millisecond).Should(BeNumerically("<", before+batch), "goroutines, after two hundred connections")
	g.Eventually(way.count, patience, 100*time.Millisecond).Should(BeNumerically("<", roads+batch), "connections, after two hundred of them")
	g.Eventually(s.Remembered, patience).Should(BeEmpty(), "what is noted of clusters")
}
