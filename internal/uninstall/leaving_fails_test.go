// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall_test

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/uninstall"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// manager is a Deployment of ours; nobody runs it.
func (p *place) manager(args ...string) *appsv1.Deployment {
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

// lead is the Lease of a manager.
func (p *place) lead(holder string) *coordinationv1.Lease {
	p.t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: p.meta("controller-leader-election-remedy")}
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](15), RenewTime: ptr.To(metav1.NewMicroTime(noon))}
	p.create(lease)
	p.t.Cleanup(func() { p.Expect(client.IgnoreNotFound(p.api.Delete(context.Background(), lease))).To(Succeed()) })
	return lease
}

// cluster is one that answers by this kubeconfig.
func (p *place) cluster(name string, kubeconfig []byte) {
	p.t.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: p.meta(name)}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "AnyCluster", Name: name}
	secret := &corev1.Secret{ObjectMeta: p.meta(name + "-kubeconfig"), Data: map[string][]byte{"value": kubeconfig}}
	p.create(cluster)
	p.create(secret)
	p.t.Cleanup(func() { p.Expect(p.api.Delete(context.Background(), cluster)).To(Succeed()) })
}

// as is somebody with a part of the rights of an administrator.
func (p *place) as(name string, rules ...rbacv1.PolicyRule) (*uninstall.Leaver, *bytes.Buffer) {
	p.t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: p.namespace + name}, Rules: rules}
	p.create(role)
	p.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: role.Name}},
	})
	// Its rules may name our group.
	p.t.Cleanup(func() { p.Expect(p.api.Delete(context.Background(), role)).To(Succeed()) })
	config, err := management.Config(controlplane.User{Name: role.Name})
	p.Expect(err).ToNot(HaveOccurred())
	p.Expect(management.UntilAllowed(p.t.Context(), role.Name, &rules[0], true)).To(Succeed())
	c, err := uninstall.NewCluster("the management cluster", config)
	p.Expect(err).ToNot(HaveOccurred())
	out := &bytes.Buffer{}
	return &uninstall.Leaver{Management: c, Out: out, Clock: testingclock.NewFakePassiveClock(noon), Patience: impatient}, out
}

func anything(verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: verbs}
}

func TestOneWorkloadClusterThatDoesNotAnswerKeepsNobodyElse(t *testing.T) {
	p := newPlace(t)
	far, err := client.New(workloads.Admin, client.Options{Scheme: known()})
	p.Expect(err).ToNot(HaveOccurred())
	p.Expect(far.Create(p.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "n-", Annotations: map[string]string{remedyv1.AttemptsAnnotation: "2"}}})).To(Succeed())
	p.cluster("a-dead", []byte(strings.Replace(string(p.kubeconfig()), workloads.Admin.Host, "https://127.0.0.1:1", 1)))
	p.cluster("b-odd", []byte("none"))
	p.cluster("c-fine", p.kubeconfig())
	core := p.core("core")
	leaver, said := p.leaver(false)
	p.Expect(leaver.All(p.ctx)).To(MatchError(ContainSubstring("2 lines above begin with 'left:'")))
	p.Expect(said.String()).To(And(
		ContainSubstring("left: Cluster %s/a-dead: what is ours in it is still there: failed to ask which kinds of objects there are", p.namespace),
		ContainSubstring("left: Cluster %s/b-odd: what is ours in it is still there: Secret b-odd-kubeconfig is refused: what it has under the key \"value\" is no kubeconfig", p.namespace),
		MatchRegexp("Node n-[a-z0-9]+ in Cluster %s/c-fine: without %s", p.namespace, remedyv1.AttemptsAnnotation)))
	p.Expect(traces(t, workloads)).To(BeEmpty())
	p.Expect(p.get(core).GetFinalizers()).To(Equal([]string{"example.com/theirs"}))
}

func TestWhoMayNotStopTheManagerChangesNothing(t *testing.T) {
	p := newPlace(t)
	p.manager()
	core := p.core("core")
	for name, test := range map[string]struct {
		rule rbacv1.PolicyRule
		says string
	}{
		"nobody": {rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}, "failed to look for our managers"},
		"reader": {anything("get", "list"), "failed to scale Deployment " + p.namespace + "/manager to zero"},
	} {
		before := p.get(core)
		leaver, said := p.as(name, test.rule)
		p.Expect(leaver.All(p.ctx)).To(MatchError(And(HavePrefix("nothing was done"), ContainSubstring(test.says), ContainSubstring("forbidden"))))
		p.Expect(said.String()).To(BeEmpty())
		p.Expect(p.get(core)).To(Equal(before))
	}
}

func TestWhatOneMayNotChangeIsNamedAndTheRestIsDone(t *testing.T) {
	p := newPlace(t)
	core, machine := p.core("core"), p.machine("m-1", "MachineHealthCheck/ours")
	leaver, said := p.as("no-machines", anything("get", "list"), rbacv1.PolicyRule{
		APIGroups: []string{clusterv1.GroupVersion.Group}, Resources: []string{"machinehealthchecks", "machinehealthchecks/status"}, Verbs: []string{"patch"},
	})
	p.Expect(leaver.All(p.ctx)).To(MatchError(ContainSubstring("not everything could be cleaned up")))
	p.Expect(said.String()).To(MatchRegexp(`left: the management cluster: .*Machine %s/m-1.*forbidden`, p.namespace))
	p.Expect(p.get(core).GetFinalizers()).To(Equal([]string{"example.com/theirs"}))
	p.Expect(p.get(machine).GetAnnotations()).To(HaveKey(remedyv1.MarkedByAnnotation), "or nobody would know whose its mark is")
}

// A manager outside of any Deployment would undo what is done.
func TestNothingIsCleanedWhileSomebodyLeads(t *testing.T) {
	p := newPlace(t)
	core, lead := p.core("core"), p.lead("somewhere_1")
	before := p.get(core)
	leaver, _ := p.leaver(false)
	leaver.Patience = neverStops
	p.Expect(leaver.All(p.ctx)).To(MatchError(ContainSubstring(`a manager of ours still leads in namespace %s, as "somewhere_1": stop it`, p.namespace)))
	p.Expect(p.get(core)).To(Equal(before))

	lead.Spec.HolderIdentity = ptr.To("")
	p.Expect(p.api.Update(p.ctx, lead)).To(Succeed())
	leaver, said := p.leaver(false)
	p.Expect(leaver.All(p.ctx)).To(Succeed())
	p.Expect(said.String()).To(ContainSubstring("Lease %s/%s: deleted", p.namespace, lead.Name))
	p.Expect(p.get(core).GetFinalizers()).To(Equal([]string{"example.com/theirs"}))
}

// Whoever was lost cannot give its lead up. It is over when it has not been renewed for as long as it lasts.
func TestALeadThatIsNotRenewedEnds(t *testing.T) {
	p := newPlace(t)
	lead := p.lead("lost_1")
	leaver, said := p.leaver(false)
	leaver.Patience = patient
	clock := testingclock.NewFakePassiveClock(noon)
	leaver.Clock = clock
	looks := make(chan struct{})
	leaver.Management = p.tappedManagement(func(r *http.Request) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/"+lead.Name) {
			select {
			case looks <- struct{}{}:
			case <-r.Context().Done():
			}
		}
	})
	done := make(chan error, 1)
	go func() { done <- leaver.All(p.ctx) }()
	for range 3 {
		// Whoever looks again has not taken the last look for the end.
		select {
		case <-looks:
		case err := <-done:
			t.Fatalf("it did not wait while the lead lasted, and ended with: %v\n%s", err, said)
		}
	}
	clock.SetTime(noon.Add(16e9))
	for ended := false; !ended; {
		select {
		case <-looks:
		case err := <-done:
			p.Expect(err).ToNot(HaveOccurred(), said.String())
			ended = true
		}
	}
	p.Expect(said.String()).To(ContainSubstring("Lease %s/%s: deleted", p.namespace, lead.Name))
}

// A manager that runs is in the midst of something: it lets go itself, and then the rest is taken off.
func TestAManagerThatRunsGivesBackItself(t *testing.T) {
	p := newPlace(t)
	p.manager("--core-machinehealthchecks=Annotated")
	core := p.core("core", remedyv1.TakeOverAnnotation, "true")
	leaver, said := p.leaver(false)
	leaver.Patience = patient
	done := make(chan error)
	go func() { done <- leaver.Checks(p.ctx, p.namespace, "core") }()
	told := func(g Gomega) map[string]string {
		now := &clusterv1.MachineHealthCheck{}
		g.Expect(p.api.Get(p.ctx, client.ObjectKeyFromObject(core), now)).To(Succeed())
		return now.Annotations
	}
	p.Eventually(told, "10m").Should(HaveKeyWithValue(remedyv1.TakeOverAnnotation, "false"))
	p.Consistently(done, "200ms").ShouldNot(Receive())
	p.Expect(told(p)).To(HaveKeyWithValue(clusterv1.PausedAnnotation, remedyv1.Pause), "it may be acting at this moment")

	let := p.get(core).(*clusterv1.MachineHealthCheck)
	let.Finalizers = []string{"example.com/theirs"}
	delete(let.Annotations, clusterv1.PausedAnnotation)
	delete(let.Annotations, remedyv1.TakeOverIDAnnotation)
	p.Expect(p.api.Update(p.ctx, let)).To(Succeed())
	let.Status.Conditions = let.Status.Conditions[2:]
	p.Expect(p.api.Status().Update(p.ctx, let)).To(Succeed())
	p.Eventually(done, "10m").Should(Receive(Succeed()))
	p.Expect(said.String()).To(ContainSubstring("MachineHealthCheck %s/core: given back by our manager", p.namespace))
	p.Expect(told(p)).To(Equal(map[string]string{"example.com/theirs": "stays"}))
}

// One that does not act for a check, or hangs, keeps nobody.
func TestAManagerThatDoesNotLetGoKeepsNobody(t *testing.T) {
	p := newPlace(t)
	p.manager("--core-machinehealthchecks=All")
	core, other := p.core("core"), p.core("other")
	leaver, said := p.leaver(false)
	p.Expect(leaver.Checks(p.ctx, p.namespace, "")).To(Succeed(), said.String())
	for _, check := range []client.Object{core, other} {
		p.Expect(p.get(check).GetAnnotations()).To(Equal(map[string]string{"example.com/theirs": "stays", remedyv1.TakeOverAnnotation: "false"}), "or it is taken again")
		p.Expect(p.get(check).GetFinalizers()).To(Equal([]string{"example.com/theirs"}))
	}
}

// The workload cluster knows neither Cluster API nor us.
func TestAClusterWithoutClusterAPI(t *testing.T) {
	g := NewWithT(t)
	c, err := uninstall.NewCluster("the management cluster", workloads.Admin)
	g.Expect(err).ToNot(HaveOccurred())
	out := &bytes.Buffer{}
	leaver := &uninstall.Leaver{Management: c, Out: out, Clock: testingclock.NewFakePassiveClock(noon), Patience: impatient}
	g.Expect(leaver.Checks(t.Context(), "default", "core")).To(MatchError(ContainSubstring("does not serve the MachineHealthChecks of Cluster API (cluster.x-k8s.io/v1beta2): name the management cluster by --context")))
	g.Expect(leaver.All(t.Context())).To(Succeed())
	g.Expect(out.String()).To(Equal("there was nothing of ours to take off\n"))
}

// A check that waits to be taken over carries nothing of ours but what we say of it, and a role what an administrator has said to us.
func TestWhatIsOnlySaidGoesAsWell(t *testing.T) {
	p := newPlace(t)
	waits := p.core("waits").DeepCopy()
	waits.Annotations, waits.Finalizers = nil, nil
	p.Expect(p.api.Update(p.ctx, waits)).To(Succeed())
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: p.namespace, Labels: map[string]string{remedyv1.AggregateToManagerLabel: "true", "theirs": "stays"}}}
	p.create(role)
	leaver, said := p.leaver(false)
	p.Expect(leaver.All(p.ctx)).To(Succeed(), said.String())
	p.Expect(p.get(waits).(*clusterv1.MachineHealthCheck).Status.Conditions).To(ConsistOf(HaveField("Type", clusterv1.PausedCondition)))
	p.Expect(p.get(role).GetLabels()).To(Equal(map[string]string{"theirs": "stays"}))
}

// Who is interrupted is told so, and not of everything that could not be done any more. What was begun can be gone on with: a check lets go last.
func TestAnInterruptionIsNoFailureOfEverything(t *testing.T) {
	p := newPlace(t)
	core, machine := p.core("core"), p.machine("m-1", "CoreMachineHealthCheck/core")
	ctx, stop := context.WithCancel(p.ctx)
	leaver, said := p.leaver(false)
	leaver.Out = writer(func(line []byte) (int, error) {
		stop()
		return said.Write(line)
	})
	p.Expect(leaver.All(ctx)).To(MatchError("interrupted: run it again, it goes on where it was"))
	p.Expect(said.String()).ToNot(ContainSubstring("left:"))
	p.Expect(p.get(machine).GetAnnotations()).ToNot(HaveKey(remedyv1.MarkedByAnnotation))
	p.Expect(p.get(core).GetAnnotations()).To(HaveKeyWithValue(clusterv1.PausedAnnotation, remedyv1.Pause), "Cluster API's own controller would begin while marks of ours are still there")
}

type writer func([]byte) (int, error)

func (w writer) Write(line []byte) (int, error) { return w(line) }

// A GitOps tool puts replicas back as a rule. What was cleaned may come back then, and people have to know.
func TestAManagerThatIsStartedAgainMeanwhileIsNamed(t *testing.T) {
	p := newPlace(t)
	p.manager()
	p.core("core")
	leaver, said := p.leaver(false)
	leaver.Out = writer(func(line []byte) (int, error) {
		if strings.HasPrefix(string(line), "MachineHealthCheck") {
			d := &appsv1.Deployment{ObjectMeta: p.meta("manager")}
			p.Expect(p.api.Patch(p.ctx, d, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":1}}`)))).To(Succeed())
		}
		return said.Write(line)
	})
	p.Expect(leaver.All(p.ctx)).To(MatchError(ContainSubstring("not everything")))
	p.Expect(said.String()).To(ContainSubstring("left: Deployment %s/manager was scaled up again meanwhile", p.namespace))
}

// Whoever deletes definitions too early waits for our finalizers. Kinds on their way out are said not to be changeable any more.
func TestWhatHoldsUpADefinitionGoes(t *testing.T) {
	p := newPlace(t)
	fading := remediator.NewKind("example.com", "v1", "Fading")
	p.Expect(management.InstallCRDObjects(fading.RequestCRD())).To(Succeed())
	held := fading.NewRequest(p.namespace, "held")
	held.SetFinalizers([]string{remedyv1.CleanupFinalizer})
	p.create(held)
	definition := definitionOf(fading)
	p.Expect(p.api.Delete(p.ctx, definition)).To(Succeed())
	served := discovery.NewDiscoveryClientForConfigOrDie(management.Admin)
	p.Eventually(func(g Gomega) {
		list, err := served.ServerResourcesForGroupVersion("example.com/v1")
		g.Expect(err).ToNot(HaveOccurred())
		g.Expect(list.APIResources).To(ContainElement(And(HaveField("Kind", "Fading"), HaveField("Verbs", Not(ContainElement("patch"))))))
	}, "10m").Should(Succeed())
	leaver, said := p.leaver(false)
	p.Expect(leaver.All(p.ctx)).To(Succeed(), said.String())
	p.Eventually(func() error { return p.api.Get(p.ctx, client.ObjectKeyFromObject(definition), definition) }, "10m").Should(MatchError(ContainSubstring("not found")))
}
