// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/uninstall"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane/assets"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// management and workloads are two real API servers. management belongs to this package alone, because uninstalling changes the objects of all
// namespaces, and the tests count what is left. workloads is shared: only objects that name this project's API group are changed and counted there.
var management, workloads *controlplane.ControlPlane

func TestMain(m *testing.M) {
	ctx := context.Background()
	code := 1
	if err := start(ctx); err == nil {
		code = m.Run()
	} else {
		println(err.Error())
	}
	for _, server := range []*controlplane.ControlPlane{management, workloads} {
		if server != nil {
			server.Stop()
		}
	}
	os.Exit(code)
}

func start(ctx context.Context) (err error) {
	var failure error
	var leased sync.WaitGroup
	leased.Go(func() { workloads, failure = controlplane.Lease(ctx, controlplane.Workload) })
	management, err = controlplane.Start(ctx)
	leased.Wait()
	if err != nil {
		return err
	}
	if failure != nil {
		return failure
	}
	crds, err := controlplane.ClusterAPICRDs(ctx)
	if err != nil {
		return err
	}
	root, err := assets.ModuleDir(ctx, assets.ModulePath)
	if err != nil {
		return err
	}
	if err := management.InstallCRDs(crds, filepath.Join(root, "config", "crd", "bases")); err != nil {
		return err
	}
	return management.InstallCRDObjects(remediator.Metal3.CRDs()...)
}

func known() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, scheme.AddToScheme, remedyv1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}

var noon = time.Date(2026, time.March, 14, 12, 0, 0, 0, time.UTC)

// impatient is for those who wait for something that does not happen. What does on the way there has its time on a busy machine.
var impatient = uninstall.Patience{Stop: 10 * time.Second, LetGo: time.Second, Look: 50 * time.Millisecond}

// neverStops is for a test in which the manager never stops: nothing that happens can come too late.
var neverStops = uninstall.Patience{Stop: 200 * time.Millisecond, LetGo: time.Second, Look: 50 * time.Millisecond}

// patient is for those who wait for something that does.
var patient = uninstall.Patience{Stop: 10 * time.Minute, LetGo: 10 * time.Minute, Look: 50 * time.Millisecond}

// place is a namespace with a Cluster in which our manager has been at work.
type place struct {
	*WithT
	t         *testing.T
	ctx       context.Context
	api       client.Client
	namespace string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	g := NewWithT(t)
	api, err := client.New(management.Admin, client.Options{Scheme: known()})
	g.Expect(err).ToNot(HaveOccurred())
	p := &place{g, t, t.Context(), api, ""}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "team-"}}
	p.create(namespace)
	p.namespace = namespace.Name
	return p
}

func (p *place) create(o client.Object) {
	p.t.Helper()
	p.Expect(p.api.Create(p.ctx, o)).To(Succeed())
}

func (p *place) meta(name string, annotations ...string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: p.namespace, Name: name, Annotations: map[string]string{"example.com/theirs": "stays"}}
	for i := 0; i < len(annotations); i += 2 {
		m.Annotations[annotations[i]] = annotations[i+1]
	}
	return m
}

// core is a check of Cluster API that was taken over.
func (p *place) core(name string, annotations ...string) *clusterv1.MachineHealthCheck {
	p.t.Helper()
	c := &clusterv1.MachineHealthCheck{ObjectMeta: p.meta(name, append([]string{clusterv1.PausedAnnotation, remedyv1.Pause, remedyv1.TakeOverIDAnnotation, "some-id"}, annotations...)...)}
	c.Finalizers = []string{remedyv1.CleanupFinalizer, "example.com/theirs"}
	c.Spec.ClusterName, c.Spec.Selector.MatchLabels = "prod", map[string]string{"pool": "a"}
	c.Spec.Checks.UnhealthyNodeConditions = []clusterv1.UnhealthyNodeCondition{{Type: "Ready", Status: "Unknown", TimeoutSeconds: ptr.To[int32](300)}}
	p.create(c)
	before := c.DeepCopy()
	now := metav1.Now()
	for _, kind := range []string{remedyv1.TakenOverCondition, remedyv1.ReadyCondition, clusterv1.PausedCondition} {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: now})
	}
	p.Expect(p.api.Status().Patch(p.ctx, c, client.MergeFrom(before))).To(Succeed())
	return c
}

// ours is a check of our own kind with something to clean up.
func (p *place) ours(name string) *remedyv1.MachineHealthCheck {
	p.t.Helper()
	c := &remedyv1.MachineHealthCheck{ObjectMeta: p.meta(name, remedyv1.StormSinceAnnotation, "2026-03-14T12:00:00Z")}
	c.Finalizers = []string{remedyv1.CleanupFinalizer}
	c.Spec.ClusterName, c.Spec.Selector.MatchLabels = "prod", map[string]remedyv1.LabelValue{"pool": "a"}
	p.create(c)
	return c
}

// machine is one that a check has marked.
func (p *place) machine(name, by string) *clusterv1.Machine {
	p.t.Helper()
	m := &clusterv1.Machine{ObjectMeta: p.meta(name, remedyv1.MarkedByAnnotation, by, remedyv1.AttemptsAnnotation, "1")}
	m.Spec.ClusterName = "prod"
	m.Spec.Bootstrap.DataSecretName = ptr.To("bootstrap")
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "AnyMachine", Name: name}
	p.create(m)
	before := m.DeepCopy()
	now := metav1.Now()
	m.Status.Conditions = []metav1.Condition{
		{Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineHealthCheckUnhealthyNodeReason, LastTransitionTime: now},
		{Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineOwnerRemediatedWaitingForRemediationReason, LastTransitionTime: now},
	}
	p.Expect(p.api.Status().Patch(p.ctx, m, client.MergeFrom(before))).To(Succeed())
	return m
}

// remembered is a Machine of a Cluster and a pool that nobody has marked, but of which a check of ours remembers something.
func (p *place) remembered(name, cluster, pool string) *clusterv1.Machine {
	p.t.Helper()
	m := p.machine(name, "")
	before := m.DeepCopy()
	m.Labels = map[string]string{clusterv1.ClusterNameLabel: cluster, "pool": pool}
	delete(m.Annotations, remedyv1.MarkedByAnnotation)
	for _, key := range ledger {
		m.Annotations[key] = "1"
	}
	p.Expect(p.api.Patch(p.ctx, m, client.MergeFrom(before))).To(Succeed())
	return m
}

// ledger is what is remembered of a Machine.
var ledger = []string{remedyv1.AttemptsAnnotation, remedyv1.NotBeforeAnnotation, remedyv1.TriedAnnotation, remedyv1.NodeGoneSinceAnnotation}

// request is one that a check has made.
func (p *place) request(name, check string) *unstructured.Unstructured {
	p.t.Helper()
	r := remediator.Metal3.NewRequest(p.namespace, name)
	r.SetAnnotations(p.meta(name, remedyv1.CheckAnnotation, check, remedyv1.StepAnnotation, "0").Annotations)
	r.SetFinalizers([]string{"example.com/at-work"})
	r.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: name, UID: "a-machine"}})
	p.create(r)
	return r
}

func (p *place) get(o client.Object) client.Object {
	p.t.Helper()
	now := o.DeepCopyObject().(client.Object)
	p.Expect(p.api.Get(p.ctx, client.ObjectKeyFromObject(o), now)).To(Succeed())
	return now
}

// leaver leaves, and says what it does.
func (p *place) leaver(dry bool) (*uninstall.Leaver, *bytes.Buffer) {
	p.t.Helper()
	c, err := uninstall.NewCluster("the management cluster", management.Admin)
	p.Expect(err).ToNot(HaveOccurred())
	out := &bytes.Buffer{}
	return &uninstall.Leaver{Management: c, DryRun: dry, Out: out, Clock: testingclock.NewFakePassiveClock(noon), Patience: impatient}, out
}

// traces are all objects of a cluster that name us anywhere but in their kind. Those who made a CRD or a check of ours have done so themselves.
func traces(t *testing.T, server *controlplane.ControlPlane) []string {
	t.Helper()
	return tracesBy(t, server.Admin)
}

func tracesBy(t *testing.T, config *rest.Config) []string {
	t.Helper()
	g := NewWithT(t)
	lists, err := discovery.NewDiscoveryClientForConfigOrDie(config).ServerPreferredResources()
	g.Expect(err).ToNot(HaveOccurred())
	api := dynamic.NewForConfigOrDie(config)
	var found []string
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		g.Expect(err).ToNot(HaveOccurred())
		for i := range list.APIResources {
			r := &list.APIResources[i]
			if !slices.Contains(r.Verbs, "list") || r.Kind == "CustomResourceDefinition" {
				continue
			}
			all, err := api.Resource(group.WithResource(r.Name)).List(t.Context(), metav1.ListOptions{})
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				// It has gone since.
				continue
			}
			g.Expect(err).ToNot(HaveOccurred(), r.Name)
			for i := range all.Items {
				o := &all.Items[i]
				o.SetManagedFields(nil)
				unstructured.RemoveNestedField(o.Object, "apiVersion")
				text, err := json.Marshal(o.Object)
				g.Expect(err).ToNot(HaveOccurred())
				if strings.Contains(string(text), remedyv1.GroupVersion.Group) && r.Kind != "APIService" {
					found = append(found, r.Kind+" "+o.GetNamespace()+"/"+o.GetName())
				}
			}
		}
	}
	return found
}

func (p *place) kubeconfig() []byte {
	p.t.Helper()
	content, err := controlplane.Kubeconfig(workloads.Admin)
	p.Expect(err).ToNot(HaveOccurred())
	return content
}

// fill is a fleet in which everything of ours is somewhere.
func (p *place) fill() {
	p.t.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: p.meta("prod", remedyv1.TakeOverAnnotation, "true")}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "AnyCluster", Name: "prod"}
	p.create(cluster)
	p.t.Cleanup(func() { p.Expect(p.api.Delete(context.Background(), cluster)).To(Succeed()) })
	p.create(&corev1.Secret{ObjectMeta: p.meta("prod-kubeconfig"), Data: map[string][]byte{"value": p.kubeconfig()}})
	far, err := client.New(workloads.Admin, client.Options{Scheme: known()})
	p.Expect(err).ToNot(HaveOccurred())
	p.Expect(far.Create(p.ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "remedy-control-plane"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("MachineHealthCheck/a/b")}})).To(Succeed())
	p.Expect(far.Create(p.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "n-", Annotations: map[string]string{remedyv1.AttemptsAnnotation: "2"}}})).To(Succeed())
}

func TestNothingIsLeftBehind(t *testing.T) {
	p := newPlace(t)
	p.fill()
	manager := p.manager()
	core, ours := p.core("core", remedyv1.TakeOverAnnotation, "true"), p.ours("ours")
	machine := p.machine("m-1", "MachineHealthCheck/ours")
	withdrawn, kept := p.request("m-2", "MachineHealthCheck/"+p.namespace+"/ours"), p.request("m-3", "CoreMachineHealthCheck/"+p.namespace+"/core")
	everything := []client.Object{manager, core, ours, machine, withdrawn, kept}
	before := make([]client.Object, 0, len(everything))
	for _, o := range everything {
		before = append(before, p.get(o))
	}

	p.Expect(len(traces(t, management))).To(BeNumerically(">=", 6))
	p.Expect(traces(t, workloads)).To(HaveLen(1), "notes on a Node; the Lease has no prefix")

	dry, said := p.leaver(true)
	p.Expect(dry.All(p.ctx)).To(Succeed())
	for i, o := range everything {
		p.Expect(p.get(o)).To(Equal(before[i]), "a dry run changes nothing")
	}
	p.Expect(said.String()).To(ContainSubstring("MachineHealthCheck %s/core: without our pause, %s, %s, finalizer %s (dry run)", p.namespace, remedyv1.TakeOverAnnotation, remedyv1.TakeOverIDAnnotation, remedyv1.CleanupFinalizer))

	leaver, said := p.leaver(false)
	p.Expect(leaver.All(p.ctx)).To(Succeed(), said.String())
	p.Expect(p.get(manager).(*appsv1.Deployment).Spec.Replicas).To(HaveValue(BeZero()))
	p.Expect(traces(t, management)).To(BeEmpty())
	p.Expect(traces(t, workloads)).To(BeEmpty())
	p.Expect(said.String()).To(MatchRegexp("Lease kube-system/remedy-control-plane in Cluster .*: deleted"))
	far, err := client.New(workloads.Admin, client.Options{Scheme: known()})
	p.Expect(err).ToNot(HaveOccurred())
	turn := client.ObjectKey{Namespace: "kube-system", Name: "remedy-control-plane"}
	p.Expect(far.Get(p.ctx, turn, &coordinationv1.Lease{})).To(MatchError(ContainSubstring("not found")), "it has no prefix")
	p.Expect(p.get(core).GetFinalizers()).To(Equal([]string{"example.com/theirs"}))
	p.Expect(p.get(core).(*clusterv1.MachineHealthCheck).Status.Conditions).To(ConsistOf(HaveField("Type", clusterv1.PausedCondition)))
	p.Expect(p.get(machine).(*clusterv1.Machine).Status.Conditions).To(BeEmpty(), "nobody is asked to act on it any more")
	p.Expect(p.get(withdrawn).GetDeletionTimestamp()).ToNot(BeNil())
	p.Expect(p.get(withdrawn).GetAnnotations()).To(HaveKey(remedyv1.TimedOutAnnotation), "its remediator is told first")
	p.Expect(p.get(kept).GetDeletionTimestamp()).To(BeNil(), "Cluster API's own controller goes on with it")
	for _, o := range everything {
		p.Expect(p.get(o).GetAnnotations()).To(HaveKeyWithValue("example.com/theirs", "stays"))
	}

	again, said := p.leaver(false)
	p.Expect(again.All(p.ctx)).To(Succeed())
	p.Expect(said.String()).To(Equal("there was nothing of ours to take off\n"))
}

func TestOneCheckIsGivenBack(t *testing.T) {
	p := newPlace(t)
	one, other := p.core("one", remedyv1.TakeOverAnnotation, "true"), p.core("other", remedyv1.TakeOverAnnotation, "true")
	machine, otherMachine := p.machine("m-1", "CoreMachineHealthCheck/one"), p.machine("m-2", "CoreMachineHealthCheck/other")
	request := p.request("m-3", "CoreMachineHealthCheck/"+p.namespace+"/one")
	untouched := []client.Object{p.get(other), p.get(otherMachine)}

	leaver, said := p.leaver(false)
	p.Expect(leaver.Checks(p.ctx, p.namespace, "one")).To(Succeed(), said.String())
	p.Expect(p.get(one).GetAnnotations()).To(Equal(map[string]string{"example.com/theirs": "stays"}))
	p.Expect(p.get(one).GetFinalizers()).To(Equal([]string{"example.com/theirs"}))
	p.Expect(p.get(machine).GetAnnotations()).To(Equal(map[string]string{"example.com/theirs": "stays"}))
	p.Expect(p.get(machine).(*clusterv1.Machine).Status.Conditions).To(HaveLen(2), "its mark is Cluster API's own, who goes on with it")
	p.Expect(p.get(request).GetAnnotations()).To(Equal(map[string]string{"example.com/theirs": "stays"}))
	p.Expect([]client.Object{p.get(other), p.get(otherMachine)}).To(Equal(untouched))

	p.Expect(leaver.Checks(p.ctx, p.namespace, "nobody")).To(MatchError(ContainSubstring("there is no MachineHealthCheck nobody of Cluster API in namespace " + p.namespace)))
}

// Where the Cluster asks for all of its checks, one that was given back would be taken again.
func TestACheckThatIsGivenBackIsNotTakenAgain(t *testing.T) {
	p := newPlace(t)
	cluster := &clusterv1.Cluster{ObjectMeta: p.meta("prod", remedyv1.TakeOverAnnotation, "true")}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "AnyCluster", Name: "prod"}
	p.create(cluster)
	one := p.core("one")
	leaver, said := p.leaver(false)
	p.Expect(leaver.Checks(p.ctx, p.namespace, "")).To(Succeed(), said.String())
	p.Expect(p.get(one).GetAnnotations()).To(Equal(map[string]string{"example.com/theirs": "stays", remedyv1.TakeOverAnnotation: "false"}))
	p.Expect(p.get(one).GetFinalizers()).To(Equal([]string{"example.com/theirs"}))
}
