// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall_test

import (
	"bytes"
	"context"
	"maps"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/uninstall"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// management and workloads are two real API servers. This package alone uses management, because an uninstall changes the objects of all
// namespaces, and the tests count what is left. workloads is shared: the tests change and count only objects that name this project's API
// group.
var (
	management = testenv.New(
		testenv.ClusterAPIKinds(), testenv.RemedyKinds, testenv.RemediationKinds(remediator.Metal3, nodeFence, nodeRemedy),
	)
	workloads = testenv.Shared(controlplane.Workload)
)

func TestMain(m *testing.M) { testenv.Main(m, management, workloads) }

var noon = time.Date(2026, time.March, 14, 12, 0, 0, 0, time.UTC)

// shortTimeouts are for waiting for an event that does not happen. Earlier events have enough time on a busy machine.
var shortTimeouts = uninstall.Timeouts{Stop: 10 * time.Second, Release: time.Second, Poll: 50 * time.Millisecond}

// expiringTimeouts are for a test in which the manager never stops, so no event can come too late.
var expiringTimeouts = uninstall.Timeouts{Stop: 200 * time.Millisecond, Release: time.Second, Poll: 50 * time.Millisecond}

// longTimeouts are for waiting for an event that happens.
var longTimeouts = uninstall.Timeouts{Stop: 10 * time.Minute, Release: 10 * time.Minute, Poll: 50 * time.Millisecond}

// fixture is a namespace with a Cluster in which the manager has worked.
type fixture struct {
	*WithT
	t         *testing.T
	ctx       context.Context
	api       client.Client
	namespace string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return &fixture{NewWithT(t), t, t.Context(), testenv.NewClient(t, management.Admin), management.Namespace(t)}
}

func (p *fixture) create(o client.Object) {
	p.t.Helper()
	p.Expect(p.api.Create(p.ctx, o)).To(Succeed())
}

func (p *fixture) meta(name string, annotations ...string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: p.namespace, Name: name, Annotations: map[string]string{"example.com/other": "stays"}}
	for i := 0; i < len(annotations); i += 2 {
		m.Annotations[annotations[i]] = annotations[i+1]
	}
	return m
}

// inTreeCheck creates an adopted check of Cluster API.
func (p *fixture) inTreeCheck(name string, annotations ...string) *clusterv1.MachineHealthCheck {
	p.t.Helper()
	c := &clusterv1.MachineHealthCheck{ObjectMeta: p.meta(name, append([]string{
		clusterv1.PausedAnnotation, remedyv1.Pause,
		remedyv1.AdoptionIDAnnotation, "some-id",
	}, annotations...)...)}
	c.Finalizers = []string{remedyv1.CleanupFinalizer, "example.com/other"}
	c.Spec.ClusterName, c.Spec.Selector.MatchLabels = "prod", map[string]string{"pool": "a"}
	c.Spec.Checks.UnhealthyNodeConditions = []clusterv1.UnhealthyNodeCondition{{
		Type: "Ready", Status: "Unknown",
		TimeoutSeconds: ptr.To[int32](300),
	}}
	p.create(c)
	p.setConditions(c, remedyv1.AdoptedCondition, remedyv1.ReadyCondition, clusterv1.PausedCondition)
	return c
}

// ownCheck creates a check of Remedy's own kind that needs cleanup.
func (p *fixture) ownCheck(name string) *remedyv1.MachineHealthCheck {
	p.t.Helper()
	return p.ownCheckOf("prod", name)
}

func (p *fixture) ownCheckOf(cluster, name string) *remedyv1.MachineHealthCheck {
	p.t.Helper()
	c := &remedyv1.MachineHealthCheck{ObjectMeta: p.meta(name, remedyv1.StormSinceAnnotation, "2026-03-14T12:00:00Z")}
	c.Finalizers = []string{remedyv1.CleanupFinalizer}
	c.Spec.ClusterName, c.Spec.Selector.MatchLabels = cluster, map[string]remedyv1.LabelValue{"pool": "a"}
	p.create(c)
	return c
}

// machine creates a Machine that a check has marked for remediation by its owner.
func (p *fixture) machine(name, by string) *clusterv1.Machine {
	p.t.Helper()
	now := metav1.Now().Rfc3339Copy()
	m := &clusterv1.Machine{ObjectMeta: p.meta(name, remedyv1.MarkedByAnnotation, by, remedyv1.AttemptsAnnotation, "1")}
	if by != "" {
		m.Annotations[remedyv1.OwnerRequestedAtAnnotation] = now.UTC().Format(time.RFC3339)
	}
	m.Spec.ClusterName = "prod"
	m.Spec.Bootstrap.DataSecretName = ptr.To("bootstrap")
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "AnyMachine",
		Name: name,
	}
	p.create(m)
	before := m.DeepCopy()
	m.Status.Conditions = []metav1.Condition{
		{
			Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionFalse,
			Reason: clusterv1.MachineHealthCheckUnhealthyNodeReason, LastTransitionTime: now,
		},
		{
			Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse,
			Reason: clusterv1.MachineOwnerRemediatedWaitingForRemediationReason, LastTransitionTime: now,
		},
	}
	p.Expect(p.api.Status().Patch(p.ctx, m, client.MergeFrom(before))).To(Succeed())
	return m
}

// machineWithHistory creates a Machine with a remediation history and without a responsible check.
func (p *fixture) machineWithHistory(name, cluster, pool string) *clusterv1.Machine {
	p.t.Helper()
	m := p.machine(name, "")
	before := m.DeepCopy()
	m.Labels = map[string]string{clusterv1.ClusterNameLabel: cluster, "pool": pool}
	delete(m.Annotations, remedyv1.MarkedByAnnotation)
	for _, key := range historyKeys {
		m.Annotations[key] = "1"
	}
	p.Expect(p.api.Patch(p.ctx, m, client.MergeFrom(before))).To(Succeed())
	return m
}

// historyKeys are the annotations with the remediation history of a Machine.
var historyKeys = []string{
	remedyv1.AttemptsAnnotation, remedyv1.NotBeforeAnnotation, remedyv1.TriedAnnotation,
	remedyv1.NodeGoneSinceAnnotation,
}

// request creates a request of a check.
func (p *fixture) request(name, check string) *unstructured.Unstructured {
	p.t.Helper()
	r := remediator.Metal3.NewRequest(p.namespace, name)
	r.SetAnnotations(p.meta(name, remedyv1.CheckAnnotation, check, remedyv1.StepAnnotation, "0").Annotations)
	r.SetFinalizers([]string{"example.com/at-work"})
	r.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: name, UID: "a-machine"}})
	p.create(r)
	return r
}

func (p *fixture) get(o client.Object) client.Object {
	p.t.Helper()
	now := o.DeepCopyObject().(client.Object)
	p.Expect(p.api.Get(p.ctx, client.ObjectKeyFromObject(o), now)).To(Succeed())
	return now
}

// uninstaller returns an Uninstaller with the permissions of an administrator, and its output.
func (p *fixture) uninstaller(dry bool) (*uninstall.Uninstaller, *bytes.Buffer) {
	p.t.Helper()
	uninstaller, out := p.uninstallerFor(management.Admin)
	uninstaller.DryRun = dry
	return uninstaller, out
}

func (p *fixture) uninstallerFor(config *rest.Config) (*uninstall.Uninstaller, *bytes.Buffer) {
	p.t.Helper()
	c, err := uninstall.NewCluster("the management cluster", config)
	p.Expect(err).ToNot(HaveOccurred())
	out := &bytes.Buffer{}
	return &uninstall.Uninstaller{Management: c, Out: out, Clock: testingclock.NewFakePassiveClock(noon), Timeouts: shortTimeouts}, out
}

// user returns an Uninstaller with the permissions of some rules, and its output.
func (p *fixture) user(name string, rules ...rbacv1.PolicyRule) (*uninstall.Uninstaller, *bytes.Buffer) {
	p.t.Helper()
	as := controlplane.User{Name: p.namespace + name}
	role := management.Grant(p.t, as, "", rules...)
	// The rules can name Remedy's API group.
	p.t.Cleanup(func() { p.Expect(p.api.Delete(context.Background(), role)).To(Succeed()) })
	return p.uninstallerFor(management.ConfigOf(p.t, as))
}

func anything(verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: verbs}
}

func ofGroups(groups ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: groups, Resources: []string{"*"}, Verbs: []string{"get", "list", "patch"}}
}

// manager creates the Deployment of a manager. No Pod runs it.
func (p *fixture) manager(args ...string) *appsv1.Deployment {
	p.t.Helper()
	d := &appsv1.Deployment{ObjectMeta: p.meta("manager")}
	d.Labels = map[string]string{"control-plane": "remedy-controller-manager"}
	d.Spec.Replicas, d.Spec.Selector = ptr.To[int32](2), &metav1.LabelSelector{MatchLabels: d.Labels}
	d.Spec.Template.Labels = d.Labels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "manager", Image: "example.com/manager", Args: args}}
	p.create(d)
	p.t.Cleanup(func() { p.Expect(client.IgnoreNotFound(p.api.Delete(context.Background(), d))).To(Succeed()) })
	return d
}

// pod creates a Pod of the manager.
func (p *fixture) pod(name string) *corev1.Pod {
	p.t.Helper()
	pod := &corev1.Pod{ObjectMeta: p.meta(name), Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name:  "manager",
		Image: "example.com/manager",
	}}}}
	pod.Labels = map[string]string{"control-plane": "remedy-controller-manager"}
	p.create(pod)
	return pod
}

// cluster creates a Cluster with a kubeconfig.
func (p *fixture) cluster(name string, kubeconfig []byte, annotations ...string) *clusterv1.Cluster {
	p.t.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: p.meta(name, annotations...)}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: "infrastructure.cluster.x-k8s.io",
		Kind:     "AnyCluster", Name: name,
	}
	secret := &corev1.Secret{ObjectMeta: p.meta(name + "-kubeconfig"), Data: map[string][]byte{"value": kubeconfig}}
	p.create(cluster)
	p.create(secret)
	p.t.Cleanup(func() { p.Expect(p.api.Delete(context.Background(), cluster)).To(Succeed()) })
	return cluster
}

func (p *fixture) kubeconfig() []byte {
	p.t.Helper()
	content, err := controlplane.Kubeconfig(workloads.Admin)
	p.Expect(err).ToNot(HaveOccurred())
	return content
}

// annotate adds annotations to an existing object.
func (p *fixture) annotate(api client.Client, o client.Object, annotations ...string) {
	p.t.Helper()
	before := o.DeepCopyObject().(client.Object)
	all := map[string]string{}
	maps.Copy(all, o.GetAnnotations())
	for i := 0; i < len(annotations); i += 2 {
		all[annotations[i]] = annotations[i+1]
	}
	o.SetAnnotations(all)
	p.Expect(api.Patch(p.ctx, o, client.MergeFrom(before))).To(Succeed())
}

// setConditions replaces the conditions of a check.
func (p *fixture) setConditions(check *clusterv1.MachineHealthCheck, kinds ...string) {
	p.t.Helper()
	before := check.DeepCopy()
	check.Status.Conditions = nil
	for _, kind := range kinds {
		check.Status.Conditions = append(check.Status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionTrue, Reason: "Reported",
			LastTransitionTime: metav1.Now(),
		})
	}
	p.Expect(p.api.Status().Patch(p.ctx, check, client.MergeFrom(before))).To(Succeed())
}

// ownAnnotations returns Remedy's annotations of an object.
func (p *fixture) ownAnnotations(o client.Object) []string {
	p.t.Helper()
	var keys []string
	for key := range p.get(o).GetAnnotations() {
		if key != "example.com/other" {
			keys = append(keys, key)
		}
	}
	return keys
}
