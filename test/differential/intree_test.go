// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package differential_test

import (
	"context"
	"reflect"
	"strings"
	"time"
	"unsafe"

	"github.com/go-logr/logr"
	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/record"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	deprecatederrors "sigs.k8s.io/cluster-api/api/deprecated/errors" //nolint:staticcheck // because failureReason has its type from there as long as it exists.
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinehealthcheck"
	"sigs.k8s.io/cluster-api/util/index"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

const (
	namespace   = "default"
	clusterName = "quickstart"
	checkName   = "check"
	poolLabel   = "nodepool"
	// nodeWatch is the watch that the in-tree reconciler adds to a cluster; where it is already there nothing is asked of a real cache.
	nodeWatch = "machinehealthcheck-watchClusterNodes"
)

var (
	scheme     = testenv.Scheme
	clusterKey = client.ObjectKey{Namespace: namespace, Name: clusterName}
	checkKey   = client.ObjectKey{Namespace: namespace, Name: checkName}
)

// inTree is the in-tree reconciler between two clusters that are made of facts.
type inTree struct {
	management client.Client
	reconciler *machinehealthcheck.Reconciler
}

func newInTree(f *facts) *inTree {
	management := append(make([]client.Object, 0, 2+len(f.machines)), f.cluster(), f.healthCheck())
	var workload []client.Object
	for i := range f.machines {
		management = append(management, f.machines[i].object(f.now))
		if n := f.machines[i].nodeObject(); n != nil {
			workload = append(workload, n)
		}
	}
	nodes := fake.NewClientBuilder().WithScheme(scheme).WithObjects(workload...).Build()
	return newInTreeOf(management, clustercache.NewFakeClusterCache(nodes, clusterKey, nodeWatch))
}

func newInTreeOf(objects []client.Object, cache clustercache.ClusterCache) *inTree {
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&clusterv1.MachineHealthCheck{}, &clusterv1.Machine{}, &clusterv1.Cluster{}).
		WithIndex(&clusterv1.Machine{}, index.MachineNodeNameField, index.MachineByNodeName).Build()
	return newInTreeWith(c, cache)
}

func newInTreeWith(c client.Client, cache clustercache.ClusterCache) *inTree {
	r := &machinehealthcheck.Reconciler{Client: c, ClusterCache: cache}
	// SetupWithManager would set them, and needs a manager.
	setUnexported(r, "recorder", record.EventRecorder(&record.FakeRecorder{}))
	discard := logr.Discard()
	setUnexported(r, "predicateLog", &discard)
	return &inTree{management: c, reconciler: r}
}

func setUnexported[T any](r *machinehealthcheck.Reconciler, name string, value T) {
	field := reflect.ValueOf(r).Elem().FieldByName(name)
	if field.Type() != reflect.TypeFor[T]() {
		panic("the in-tree reconciler's field " + name + " is a " + field.Type().String())
	}
	*(*T)(unsafe.Pointer(field.UnsafeAddr())) = value
}

// reconcile runs twice, because the first run only reports that the check is not paused.
func (w *inTree) reconcile(ctx context.Context) error {
	ctx = ctrl.LoggerInto(ctx, logr.Discard())
	for range 2 {
		if _, err := w.reconciler.Reconcile(ctx, ctrl.Request{NamespacedName: checkKey}); err != nil {
			return err
		}
	}
	return nil
}

func (w *inTree) status(ctx context.Context) (clusterv1.MachineHealthCheckStatus, error) {
	check := &clusterv1.MachineHealthCheck{}
	err := w.management.Get(ctx, checkKey, check)
	return check.Status, err
}

// outcomes are what the in-tree reconciler wrote on the Machines, by name.
func (w *inTree) outcomes(ctx context.Context) (map[string]outcome, error) {
	machines := &clusterv1.MachineList{}
	if err := w.management.List(ctx, machines); err != nil {
		return nil, err
	}
	all := make(map[string]outcome, len(machines.Items))
	for i := range machines.Items {
		o := outcome{}
		for _, c := range machines.Items[i].Status.Conditions {
			if c.Type == clusterv1.MachineHealthCheckSucceededCondition {
				var err error
				if o, err = outcomeOf(c); err != nil {
					return nil, err
				}
			}
		}
		all[machines.Items[i].Name] = o
	}
	return all, nil
}

func outcomeOf(c metav1.Condition) (outcome, error) {
	o := outcome{succeeded: string(c.Status)}
	if c.Status == metav1.ConditionTrue {
		return o, nil
	}
	o.reason = c.Reason
	message, found := strings.CutPrefix(c.Message, "Health check failed:")
	if !found {
		return o, errors.Errorf("the in-tree reconciler reports %q", c.Message)
	}
	for line := range strings.Lines(strings.TrimSpace(message)) {
		o.causes = append(o.causes, strings.TrimPrefix(strings.TrimSpace(line), "* "))
	}
	return o, nil
}

func object(name string, createdAt time.Time) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: namespace, CreationTimestamp: metav1.NewTime(createdAt), Labels: map[string]string{}, Annotations: map[string]string{}}
}

func (f *facts) cluster() *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: object(clusterName, f.now.Add(-time.Hour))}
	for _, milestone := range []condition{f.controlPlane, f.infrastructure} {
		if milestone.status != "" {
			c.Status.Conditions = append(c.Status.Conditions, milestone.object())
		}
	}
	return c
}

func (f *facts) healthCheck() *clusterv1.MachineHealthCheck {
	c := &clusterv1.MachineHealthCheck{ObjectMeta: object(checkName, f.now)}
	c.Spec.ClusterName, c.Spec.Selector.MatchLabels = clusterName, map[string]string{poolLabel: "a"}
	all := intstr.FromString("100%")
	c.Spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo = &all
	for _, check := range f.policy.machineChecks {
		c.Spec.Checks.UnhealthyMachineConditions = append(c.Spec.Checks.UnhealthyMachineConditions, clusterv1.UnhealthyMachineCondition{
			Type: check.kind, Status: metav1.ConditionStatus(check.status), TimeoutSeconds: seconds(check.lasting),
		})
	}
	for _, check := range f.policy.nodeChecks {
		c.Spec.Checks.UnhealthyNodeConditions = append(c.Spec.Checks.UnhealthyNodeConditions, clusterv1.UnhealthyNodeCondition{
			Type: corev1.NodeConditionType(check.kind), Status: corev1.ConditionStatus(check.status), TimeoutSeconds: seconds(check.lasting),
		})
	}
	if f.policy.startupTimeout != nil {
		c.Spec.Checks.NodeStartupTimeoutSeconds = seconds(*f.policy.startupTimeout)
	}
	return c
}

func seconds(d time.Duration) *int32 {
	s := int32(d / time.Second)
	return &s
}

func (c condition) object() metav1.Condition {
	return metav1.Condition{Type: c.kind, Status: metav1.ConditionStatus(c.status), Reason: c.reason, LastTransitionTime: metav1.NewTime(c.since)}
}

func (c condition) nodeObject() corev1.NodeCondition {
	return corev1.NodeCondition{
		Type: corev1.NodeConditionType(c.kind), Status: corev1.ConditionStatus(c.status), Reason: c.reason, LastTransitionTime: metav1.NewTime(c.since),
	}
}

func (m *machine) object(now time.Time) *clusterv1.Machine {
	o := &clusterv1.Machine{ObjectMeta: object(m.name, m.createdAt)}
	o.Labels[clusterv1.ClusterNameLabel], o.Labels[poolLabel] = clusterName, "a"
	if m.controlPlane {
		o.Labels[clusterv1.MachineControlPlaneLabel] = ""
	}
	for annotation, wished := range map[string]bool{
		clusterv1.PausedAnnotation: m.paused, clusterv1.MachineSkipRemediationAnnotation: m.skip, clusterv1.RemediateMachineAnnotation: m.remediate,
	} {
		if wished {
			o.Annotations[annotation] = ""
		}
	}
	if m.deleting {
		deleted := metav1.NewTime(now)
		o.DeletionTimestamp, o.Finalizers = &deleted, []string{clusterv1.MachineFinalizer}
	}
	o.Spec.ClusterName, o.Spec.ProviderID = clusterName, m.providerID
	for _, c := range m.conditions {
		o.Status.Conditions = append(o.Status.Conditions, c.object())
	}
	if m.hasNodeRef {
		o.Status.NodeRef.Name = m.nodeName()
	}
	if m.failure() != "" {
		deprecated := &clusterv1.MachineV1Beta1DeprecatedStatus{}
		if m.failureReason != "" {
			deprecated.FailureReason = new(deprecatederrors.MachineStatusError(m.failureReason)) //nolint:staticcheck // as above.
		}
		if m.failureMessage != "" {
			deprecated.FailureMessage = &m.failureMessage //nolint:staticcheck // as above.
		}
		o.Status.Deprecated = &clusterv1.MachineDeprecatedStatus{V1Beta1: deprecated} //nolint:staticcheck // as above.
	}
	return o
}

func (m *machine) nodeObject() *corev1.Node {
	if m.node == nil {
		return nil
	}
	o := &corev1.Node{ObjectMeta: object(m.nodeName(), m.node.createdAt)}
	o.Namespace, o.Spec.ProviderID = "", m.node.providerID
	for _, c := range m.node.conditions {
		o.Status.Conditions = append(o.Status.Conditions, c.nodeObject())
	}
	return o
}
