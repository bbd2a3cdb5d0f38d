// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/procgroup"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// bench has an API server, which is both the management cluster and all workload clusters, and the programs to measure.
type bench struct {
	programs   map[string]string
	results    *results
	server     *controlplane.ControlPlane
	api        client.WithWatch
	group      *procgroup.Group
	kubeconfig string
	fleets     map[string]*fleet
	started    int
}

func (b *bench) start(ctx context.Context) {
	b.fleets = map[string]*fleet{}
	b.group = must(procgroup.New())
	b.server = must(controlplane.Start(ctx, controlplane.WithAPIServerFlag("max-mutating-requests-inflight", "1000")))
	config := rest.CopyConfig(b.server.Admin)
	config.QPS = -1
	b.api = must(client.NewWithWatch(config, client.Options{Scheme: testenv.Scheme}))
	installed := &testenv.Environment{ControlPlane: b.server, API: b.api}
	for _, step := range []testenv.Step{testenv.ClusterAPIKinds(), testenv.RemedyKinds, testenv.RemediationKinds(remediator.Metal3)} {
		succeed(step(ctx, installed))
	}
	content := must(controlplane.Kubeconfig(b.server.Admin))
	b.kubeconfig = filepath.Join(b.group.Dir, "kubeconfig")
	succeed(os.WriteFile(b.kubeconfig, content, 0o600))
}

func (b *bench) stop() {
	for _, f := range b.fleets {
		for _, l := range f.links {
			l.close()
		}
	}
	if b.server != nil {
		b.server.Stop()
	}
	b.group.Release()
}

// shape is what a fleet consists of.
type shape struct {
	clusters, checks, targets int
	// images is how many images the status of each Node lists. A real Node with 47 has 13.7 KB.
	images int
	// linked: each cluster is reached through a listener of its own, which can be cut.
	linked bool
	// sharedNodes is how many Nodes there are. The Machines of all clusters share them, since each connection caches all Nodes of the API
	// server; 0 is one for each Machine.
	sharedNodes int
}

// member is a Machine with its Node, and the check that selects it.
type member struct {
	cluster, check, machine, node string
}

// fleet is a namespace with Clusters, Machines and Nodes.
type fleet struct {
	*bench
	shape
	namespace string
	created   time.Time
	members   []member
	// shared are the names of the Nodes that all Machines share.
	shared []string
	links  []*link
	// touched are the Nodes whose condition Ready was changed since the last reset.
	touched sync.Map
	// replaced counts Machines that were replaced, for the names of new ones.
	replaced int
}

// infrastructure is the group of objects that do not exist: no controller reads them.
const infrastructure = "infrastructure.cluster.x-k8s.io"

// checkLabel has the name of the check that selects a Machine.
const checkLabel = "bench.test/check"

// parallel is how many requests create and change objects at the same time.
const parallel = 16

// each calls a function for each member of a fleet, several at a time.
func each[T any](all []T, do func(T) error) error {
	var running sync.WaitGroup
	var mu sync.Mutex
	var failure error
	work := make(chan T)
	for range parallel {
		running.Go(func() {
			for item := range work {
				if err := do(item); err != nil {
					mu.Lock()
					failure = err
					mu.Unlock()
				}
			}
		})
	}
	for _, item := range all {
		work <- item
	}
	close(work)
	running.Wait()
	return failure
}

// fleet returns the fleet of this shape, which a benchmark creates once.
func (b *bench) fleet(ctx context.Context, s shape) *fleet {
	name := fmt.Sprintf("c%d-k%d-t%d-i%d", s.clusters, s.checks, s.targets, s.images)
	if f := b.fleets[name]; f != nil {
		return f
	}
	f := &fleet{bench: b, shape: s, namespace: name}
	succeed(b.api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	for i := range s.sharedNodes {
		f.shared = append(f.shared, fmt.Sprintf("%s-node-%d", name, i))
	}
	succeed(each(f.shared, func(node string) error { return f.addNode(ctx, node) }))
	for c := range s.clusters {
		f.addClusterWithChecks(ctx, c)
	}
	b.fleets[name] = f
	succeed(each(f.members, func(m member) error { return f.addMember(ctx, m) }))
	f.created = time.Now()
	return f
}

// addClusterWithChecks adds a cluster, and the owners and members of its checks to the list; addMember creates these.
func (f *fleet) addClusterWithChecks(ctx context.Context, c int) {
	cluster := fmt.Sprintf("cluster-%d", c)
	f.addCluster(ctx, cluster)
	for k := range f.checks {
		check := fmt.Sprintf("check-%d-%d", c, k)
		f.addOwner(ctx, cluster, check, f.targets)
		for t := range f.targets {
			machine := fmt.Sprintf("%s-%d", check, t)
			node := f.namespace + "-" + machine
			if f.sharedNodes > 0 {
				node = f.shared[len(f.members)%f.sharedNodes]
			}
			f.members = append(f.members, member{cluster, check, machine, node})
		}
	}
}

func (f *fleet) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: f.namespace, Name: name}
}

func (f *fleet) addCluster(ctx context.Context, name string) {
	user := rest.CopyConfig(f.server.Admin)
	if f.linked {
		l := must(newLink(strings.Trim(strings.TrimPrefix(user.Host, "https:"), "/")))
		f.links = append(f.links, l)
		user.Host = "https://" + l.listener.Addr().String()
	}
	content := must(controlplane.Kubeconfig(user))
	secret := &corev1.Secret{ObjectMeta: f.meta(name + "-kubeconfig"), Data: map[string][]byte{"value": content}}
	secret.Labels = map[string]string{clusterv1.ClusterNameLabel: name}
	succeed(f.api.Create(ctx, secret))
	cluster := &clusterv1.Cluster{ObjectMeta: f.meta(name)}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrastructure, Kind: "AnyCluster", Name: name}
	succeed(f.api.Create(ctx, cluster))
	before := cluster.DeepCopy()
	long := metav1.NewTime(time.Now().Add(-time.Hour))
	cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	cluster.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	cluster.Status.Conditions = []metav1.Condition{
		{Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue, Reason: "Initialized", LastTransitionTime: long},
		{Type: clusterv1.ClusterInfrastructureReadyCondition, Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: long},
	}
	succeed(f.api.Status().Patch(ctx, cluster, client.MergeFrom(before)))
}

// addOwner creates the MachineSet of a check. No controller reconciles it: Machines with OwnerRemediated=False stay.
func (f *fleet) addOwner(ctx context.Context, cluster, check string, replicas int) {
	owner := &clusterv1.MachineSet{ObjectMeta: f.meta(check)}
	owner.Spec.ClusterName, owner.Spec.Replicas = cluster, ptr.To(int32(replicas)) //nolint:gosec // it is small.
	owner.Spec.Selector.MatchLabels = map[string]string{checkLabel: check}
	owner.Spec.Template.Labels = owner.Spec.Selector.MatchLabels
	owner.Spec.Template.Spec.ClusterName = cluster
	owner.Spec.Template.Spec.Bootstrap.DataSecretName = ptr.To("bootstrap")
	owner.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: infrastructure, Kind: "AnyMachineTemplate", Name: "any",
	}
	succeed(f.api.Create(ctx, owner))
}

func (f *fleet) addMember(ctx context.Context, m member) error {
	machine := &clusterv1.Machine{ObjectMeta: f.meta(m.machine)}
	machine.Labels = map[string]string{clusterv1.ClusterNameLabel: m.cluster, checkLabel: m.check}
	machine.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: m.check, UID: "1", Controller: ptr.To(true),
	}}
	machine.Spec.ClusterName, machine.Spec.ProviderID = m.cluster, "bench:///"+m.node
	machine.Spec.Bootstrap.DataSecretName = ptr.To("bootstrap")
	machine.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrastructure, Kind: "AnyMachine", Name: m.machine}
	if err := f.api.Create(ctx, machine); err != nil {
		return err
	}
	if f.sharedNodes == 0 {
		if err := f.addNode(ctx, m.node); err != nil {
			return err
		}
	}
	// Cluster API sets it when the Node exists.
	before := machine.DeepCopy()
	machine.Status.NodeRef.Name = m.node
	return f.api.Status().Patch(ctx, machine, client.MergeFrom(before))
}

// addNode creates a healthy Node.
func (f *fleet) addNode(ctx context.Context, name string) error {
	node := newNode(name, f.images)
	if err := f.api.Create(ctx, node); err != nil {
		return err
	}
	// No kubelet renews it: a lost Node has an old Lease, and the preflight check of Remedy reads it.
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name}}
	lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(time.Now().Add(-time.Minute)))
	return client.IgnoreAlreadyExists(f.api.Create(ctx, lease))
}

// conditionsOf are the conditions of a Node that a kubelet and the node controller set.
func conditionsOf(ready corev1.ConditionStatus, since time.Time) []corev1.NodeCondition {
	now := metav1.Now()
	pressures := []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure}
	all := append(make([]corev1.NodeCondition, 0, 1+len(pressures)), corev1.NodeCondition{
		Type: corev1.NodeReady, Status: ready, Reason: "KubeletReady", LastTransitionTime: metav1.NewTime(since), LastHeartbeatTime: now,
	})
	for _, pressure := range pressures {
		all = append(all, corev1.NodeCondition{
			Type: pressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoPressure", LastHeartbeatTime: now,
			LastTransitionTime: metav1.NewTime(now.Add(-time.Hour)),
		})
	}
	return all
}
