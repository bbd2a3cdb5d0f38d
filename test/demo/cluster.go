// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
)

// demoCluster is a Cluster with three workers and a MachineHealthCheck of them. Its API server is that of the management cluster. Cluster
// API does not run, so no MachineSet replaces the Machines with OwnerRemediated=False, and none clears the condition of a healthy Machine.
type demoCluster struct {
	api      client.Client
	machines []*clusterv1.Machine
	check    *remedyv1.MachineHealthCheck
}

const (
	namespace   = "demo"
	clusterName = "prod"
	workers     = 3
)

func newDemoCluster(ctx context.Context, cp *controlplane.ControlPlane, k *kubectl) (*demoCluster, error) {
	api, err := cp.Client()
	if err != nil {
		return nil, err
	}
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, remedyv1.AddToScheme} {
		if err := add(api.Scheme()); err != nil {
			return nil, errors.WithStack(err)
		}
	}
	c := &demoCluster{api: api}
	kubeconfig, err := os.ReadFile(k.kubeconfig())
	if err != nil {
		return nil, errors.WithStack(err)
	}
	cluster := &clusterv1.Cluster{ObjectMeta: inNamespace(clusterName)}
	cluster.Spec.InfrastructureRef = infrastructure("DemoCluster", clusterName)
	c.check = c.newCheck()
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.Secret{ObjectMeta: inNamespace(clusterName + "-kubeconfig"), Data: map[string][]byte{"value": kubeconfig}},
		cluster, c.check,
	} {
		if err := api.Create(ctx, o); err != nil {
			return nil, errors.WithStack(err)
		}
	}
	cluster.Status.Initialization = clusterv1.ClusterInitializationStatus{
		InfrastructureProvisioned: ptr.To(true), ControlPlaneInitialized: ptr.To(true),
	}
	for _, kind := range []string{clusterv1.ClusterControlPlaneInitializedCondition, clusterv1.ClusterInfrastructureReadyCondition} {
		cluster.Status.Conditions = append(cluster.Status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionTrue, Reason: "Demo", LastTransitionTime: metav1.Now(),
		})
	}
	if err := api.Status().Update(ctx, cluster); err != nil {
		return nil, errors.WithStack(err)
	}
	for i := range workers {
		if err := c.addWorker(ctx, fmt.Sprintf("worker-%d", i+1)); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func inNamespace(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func infrastructure(kind, name string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: kind, Name: name}
}

func (*demoCluster) newCheck() *remedyv1.MachineHealthCheck {
	check := &remedyv1.MachineHealthCheck{ObjectMeta: inNamespace("workers")}
	check.Spec.ClusterName = clusterName
	check.Spec.Selector.MatchLabels = map[string]remedyv1.LabelValue{"pool": "workers"}
	check.Spec.UnhealthyConditions = []remedyv1.UnhealthyNodeCondition{{
		Type: "Ready", Status: "Unknown", Timeout: remedyv1.Duration{Duration: metav1.Duration{Duration: 5 * time.Second}},
	}}
	check.Spec.MaxUnhealthy = ptr.To(intstr.FromString("40%"))
	return check
}

// addWorker creates a Machine with a Ready Node.
func (c *demoCluster) addWorker(ctx context.Context, name string) error {
	m := &clusterv1.Machine{ObjectMeta: inNamespace(name)}
	m.Labels = map[string]string{clusterv1.ClusterNameLabel: clusterName, "pool": "workers"}
	m.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: "workers", UID: "demo", Controller: ptr.To(true),
	}}
	m.Spec.ClusterName, m.Spec.ProviderID = clusterName, "demo:///"+name
	m.Spec.Bootstrap.DataSecretName = ptr.To("demo")
	m.Spec.InfrastructureRef = infrastructure("DemoMachine", name)
	if err := c.api.Create(ctx, m); err != nil {
		return errors.WithStack(err)
	}
	m.Status.NodeRef.Name = name
	if err := c.api.Status().Update(ctx, m); err != nil {
		return errors.WithStack(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: m.Spec.ProviderID}}
	if err := c.api.Create(ctx, node); err != nil {
		return errors.WithStack(err)
	}
	c.machines = append(c.machines, m)
	return c.setReady(ctx, corev1.ConditionTrue, m)
}

// setReady sets the Ready condition of the Nodes of some Machines, as a kubelet or the node controller does.
func (c *demoCluster) setReady(ctx context.Context, status corev1.ConditionStatus, machines ...*clusterv1.Machine) error {
	for _, m := range machines {
		node := &corev1.Node{}
		if err := c.api.Get(ctx, client.ObjectKey{Name: m.Name}, node); err != nil {
			return errors.WithStack(err)
		}
		node.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: status, Reason: "Demo", LastTransitionTime: metav1.Now(),
		}}
		if err := c.api.Status().Update(ctx, node); err != nil {
			return errors.WithStack(err)
		}
	}
	return nil
}

// checkTimeout is how long the demo waits for a status. After the connection to a cluster is established, a check waits for fresh Node
// status.
const checkTimeout = 3 * time.Minute

// until waits until the status of the check matches.
func (c *demoCluster) until(ctx context.Context, matches func(*remedyv1.MachineHealthCheckStatus) bool) error {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, checkTimeout, true, func(ctx context.Context) (bool, error) {
		err := c.api.Get(ctx, client.ObjectKeyFromObject(c.check), c.check)
		return err == nil && matches(&c.check.Status), err
	})
	return errors.Wrapf(err, "the check does not have the expected status: %+v", c.check.Status)
}

func healthy(n int32) func(*remedyv1.MachineHealthCheckStatus) bool {
	return func(s *remedyv1.MachineHealthCheckStatus) bool {
		return ptr.Deref(s.CurrentHealthy, 0) == n && len(s.UnhealthyTargets) == workers-int(n)
	}
}

func hasReason(condition, reason string) func(*remedyv1.MachineHealthCheckStatus) bool {
	return func(s *remedyv1.MachineHealthCheckStatus) bool {
		c := meta.FindStatusCondition(s.Conditions, condition)
		return c != nil && c.Reason == reason
	}
}
