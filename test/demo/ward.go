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
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
)

// ward is a Cluster with three workers, and a check that looks after them. The control plane of the demo plays that of the Cluster as well, and nobody
// plays Cluster API: its MachineSet would replace what is marked, and clear the mark of who is well again.
type ward struct {
	api      client.Client
	machines []*clusterv1.Machine
	check    *remedyv1.MachineHealthCheck
}

const (
	wardName    = "hospital"
	clusterName = "prod"
	workers     = 3
)

func newWard(ctx context.Context, cp *controlplane.ControlPlane, k *kubectl) (*ward, error) {
	api, err := cp.Client()
	if err != nil {
		return nil, err
	}
	for _, add := range []func() error{func() error { return clusterv1.AddToScheme(api.Scheme()) }, func() error { return remedyv1.AddToScheme(api.Scheme()) }} {
		if err := add(); err != nil {
			return nil, errors.WithStack(err)
		}
	}
	w := &ward{api: api}
	kubeconfig, err := os.ReadFile(k.kubeconfig())
	if err != nil {
		return nil, errors.WithStack(err)
	}
	cluster := &clusterv1.Cluster{ObjectMeta: inWard(clusterName)}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "DemoCluster", Name: clusterName}
	w.check = w.newCheck()
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: wardName}},
		&corev1.Secret{ObjectMeta: inWard(clusterName + "-kubeconfig"), Data: map[string][]byte{"value": kubeconfig}},
		cluster, w.check,
	} {
		if err := api.Create(ctx, o); err != nil {
			return nil, errors.WithStack(err)
		}
	}
	cluster.Status.Initialization = clusterv1.ClusterInitializationStatus{InfrastructureProvisioned: ptr.To(true), ControlPlaneInitialized: ptr.To(true)}
	for _, kind := range []string{clusterv1.ClusterControlPlaneInitializedCondition, clusterv1.ClusterInfrastructureReadyCondition} {
		cluster.Status.Conditions = append(cluster.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Demo", LastTransitionTime: metav1.Now()})
	}
	if err := api.Status().Update(ctx, cluster); err != nil {
		return nil, errors.WithStack(err)
	}
	for i := range workers {
		if err := w.addWorker(ctx, fmt.Sprintf("worker-%d", i+1)); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func inWard(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: wardName, Name: name} }

func (*ward) newCheck() *remedyv1.MachineHealthCheck {
	check := &remedyv1.MachineHealthCheck{ObjectMeta: inWard("workers")}
	check.Spec.ClusterName = clusterName
	check.Spec.Selector.MatchLabels = map[string]remedyv1.LabelValue{"pool": "workers"}
	check.Spec.UnhealthyConditions = []remedyv1.UnhealthyNodeCondition{{
		Type: "Ready", Status: "Unknown", Timeout: remedyv1.Duration{Duration: metav1.Duration{Duration: 5 * time.Second}},
	}}
	check.Spec.MaxUnhealthy = ptr.To(intstr.FromString("40%"))
	return check
}

// addWorker makes a Machine with a Node that is ready.
func (w *ward) addWorker(ctx context.Context, name string) error {
	m := &clusterv1.Machine{ObjectMeta: inWard(name)}
	m.Labels = map[string]string{clusterv1.ClusterNameLabel: clusterName, "pool": "workers"}
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: "workers", UID: "demo", Controller: ptr.To(true)}}
	m.Spec.ClusterName, m.Spec.ProviderID = clusterName, "demo:///"+name
	m.Spec.Bootstrap.DataSecretName = ptr.To("demo")
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "DemoMachine", Name: name}
	if err := w.api.Create(ctx, m); err != nil {
		return errors.WithStack(err)
	}
	m.Status.NodeRef.Name = name
	if err := w.api.Status().Update(ctx, m); err != nil {
		return errors.WithStack(err)
	}
	if err := w.api.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: m.Spec.ProviderID}}); err != nil {
		return errors.WithStack(err)
	}
	w.machines = append(w.machines, m)
	return w.turn(ctx, corev1.ConditionTrue, m)
}

// turn sets whether the Nodes of some Machines are ready, as a kubelet or the control plane would.
func (w *ward) turn(ctx context.Context, status corev1.ConditionStatus, machines ...*clusterv1.Machine) error {
	for _, m := range machines {
		node := &corev1.Node{}
		if err := w.api.Get(ctx, client.ObjectKey{Name: m.Name}, node); err != nil {
			return errors.WithStack(err)
		}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, Reason: "Demo", LastTransitionTime: metav1.Now()}}
		if err := w.api.Status().Update(ctx, node); err != nil {
			return errors.WithStack(err)
		}
	}
	return nil
}

// wardTime is how long it may take until a check says what is expected: a cluster that has just been connected speaks for a while before it is believed.
const wardTime = 3 * time.Minute

// until waits until a check says something.
func (w *ward) until(ctx context.Context, says func(*remedyv1.MachineHealthCheckStatus) bool) error {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, wardTime, true, func(ctx context.Context) (bool, error) {
		err := w.api.Get(ctx, client.ObjectKeyFromObject(w.check), w.check)
		return err == nil && says(&w.check.Status), err
	})
	return errors.Wrapf(err, "the check did not say what was expected; it said %+v", w.check.Status)
}

func healthy(n int32) func(*remedyv1.MachineHealthCheckStatus) bool {
	return func(s *remedyv1.MachineHealthCheckStatus) bool {
		return ptr.Deref(s.CurrentHealthy, 0) == n && len(s.UnhealthyTargets) == workers-int(n)
	}
}

func says(condition, reason string) func(*remedyv1.MachineHealthCheckStatus) bool {
	return func(s *remedyv1.MachineHealthCheckStatus) bool {
		c := meta.FindStatusCondition(s.Conditions, condition)
		return c != nil && c.Reason == reason
	}
}
