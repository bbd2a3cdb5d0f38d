// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall_test

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	testingclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/uninstall"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

func TestAll_EveryKindOfTrace_RemovesAll(t *testing.T) {
	p := newFixture(t)
	p.cluster("prod", p.kubeconfig(), remedyv1.AdoptAnnotation, "true")
	far, lease := p.controlPlaneLease("MachineHealthCheck/a/b", noon.Add(-time.Hour))
	p.node(far, remedyv1.AttemptsAnnotation, "2")
	manager := p.manager()
	core, ours := p.inTreeCheck("core", remedyv1.AdoptAnnotation, "true"), p.ownCheck("own")
	machine := p.machine("m-1", "MachineHealthCheck/own")
	withdrawn, kept := p.request("m-2", "MachineHealthCheck/"+p.namespace+"/own"), p.request("m-3",
		"InTreeMachineHealthCheck/"+p.namespace+"/core")
	everything := []client.Object{manager, core, ours, machine, withdrawn, kept}
	before := make([]client.Object, 0, len(everything))
	for _, o := range everything {
		before = append(before, p.get(o))
	}

	p.Expect(len(traces(t, management))).To(BeNumerically(">=", 6))
	p.Expect(traces(t, workloads)).To(HaveLen(1), "annotations of a Node; the Lease has no prefix")

	dry, said := p.uninstaller(true)
	p.Expect(dry.All(p.ctx)).To(Succeed())
	for i, o := range everything {
		p.Expect(p.get(o)).To(Equal(before[i]), "a dry run changes nothing")
	}
	p.Expect(said.String()).To(ContainSubstring("MachineHealthCheck %s/core: removed %s, %s, %s, finalizer %s (dry run)", p.namespace,
		clusterv1.PausedAnnotation, remedyv1.AdoptAnnotation, remedyv1.AdoptionIDAnnotation, remedyv1.CleanupFinalizer))

	uninstaller, said := p.uninstaller(false)
	p.Expect(uninstaller.All(p.ctx)).To(Succeed(), said.String())
	p.Expect(p.get(manager).(*appsv1.Deployment).Spec.Replicas).To(HaveValue(BeZero()))
	p.Expect(traces(t, management)).To(BeEmpty())
	p.Expect(traces(t, workloads)).To(BeEmpty())
	p.Expect(said.String()).To(MatchRegexp("Lease kube-system/remedy-control-plane in Cluster .*: deleted"))
	p.Expect(p.exists(far, lease)).To(BeFalse(), "its name has no prefix")
	p.Expect(p.get(core).GetFinalizers()).To(Equal([]string{"example.com/other"}))
	p.Expect(p.get(core).(*clusterv1.MachineHealthCheck).Status.Conditions).To(ConsistOf(HaveField("Type", clusterv1.PausedCondition)))
	p.Expect(p.get(machine).(*clusterv1.Machine).Status.Conditions).To(BeEmpty(), "the owner must not remediate it")
	p.Expect(p.get(withdrawn).GetDeletionTimestamp()).ToNot(BeNil())
	p.Expect(p.get(withdrawn).GetAnnotations()).To(HaveKey(remedyv1.TimedOutAnnotation), "its remediator has to stop")
	p.Expect(p.get(kept).GetDeletionTimestamp()).To(BeNil(), "the in-tree controller continues it")
	for _, o := range everything {
		p.Expect(p.get(o).GetAnnotations()).To(HaveKeyWithValue("example.com/other", "stays"))
	}

	again, said := p.uninstaller(false)
	p.Expect(again.All(p.ctx)).To(Succeed())
	p.Expect(said.String()).To(Equal("nothing to remove\n"))
}

// writes are the calls that change an object, as seen by the API server.
type writes struct {
	lock sync.Mutex
	all  []string
}

func (w *writes) called(r *http.Request) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if r.Method != http.MethodGet {
		w.all = append(w.all, r.Method+" "+r.URL.Path)
	}
}

// lines returns the sorted changes in the output, without the suffix of a dry run.
func lines(said *bytes.Buffer) []string {
	all := strings.Split(strings.ReplaceAll(strings.TrimSpace(said.String()), " (dry run)", ""), "\n")
	slices.Sort(all)
	return slices.DeleteFunc(all, func(line string) bool { return strings.Contains(line, "change") })
}

// A dry run prints exactly the changes of the real run.
func TestAll_DryRun_WritesNothing(t *testing.T) {
	p := newFixture(t)
	written := &writes{}
	far, _ := p.controlPlaneLease("MachineHealthCheck/"+p.namespace+"/own", noon)
	node := p.node(far, remedyv1.AttemptsAnnotation, "2")
	p.cluster("prod", p.proxiedKubeconfig(written.called))
	p.manager("--in-tree-machinehealthchecks=All")
	lead := p.leaderLease("")
	p.inTreeCheck("core", remedyv1.AdoptAnnotation, "true")
	p.setConditions(p.inTreeCheck("waits"), remedyv1.AdoptedCondition)
	p.ownCheck("own")
	p.machine("m-1", "InTreeMachineHealthCheck/core")
	p.request("m-2", "MachineHealthCheck/"+p.namespace+"/own")
	p.request("m-3", "InTreeMachineHealthCheck/"+p.namespace+"/core")
	waits := p.inTreeCheck("only-conditions")
	before := waits.DeepCopy()
	waits.Annotations, waits.Finalizers = nil, nil
	p.Expect(p.api.Patch(p.ctx, waits, client.MergeFrom(before))).To(Succeed())

	uninstaller := func(dry bool) (*uninstall.Uninstaller, *bytes.Buffer) {
		l, said := p.uninstaller(dry)
		l.Management = p.proxiedManagement(written.called)
		return l, said
	}
	checks, said := uninstaller(true)
	p.Expect(checks.Release(p.ctx, p.namespace, "")).To(Succeed(), said.String())
	p.Expect(said.String()).To(ContainSubstring(" changes (dry run)"))
	p.Expect(written.all).To(BeEmpty())

	dry, would := uninstaller(true)
	p.Expect(dry.All(p.ctx)).To(Succeed(), would.String())
	p.Expect(written.all).To(BeEmpty())

	all, did := uninstaller(false)
	p.Expect(all.All(p.ctx)).To(Succeed(), did.String())
	p.Expect(written.all).ToNot(BeEmpty(), "the proxy reports writes")
	p.Expect(lines(would)).To(Equal(lines(did)))
	p.Expect(strings.Count(did.String(), "MachineHealthCheck "+p.namespace+"/core:")).To(Equal(1), "each object is changed once")
	first := func(object string) int { return strings.Index(did.String(), object+" "+p.namespace+"/") }
	p.Expect([]int{first("Metal3Remediation"), first("Machine"), first("MachineHealthCheck")}).To(HaveExactElements(
		BeNumerically(">=", 0), BeNumerically(">", first("Metal3Remediation")), BeNumerically(">", first("Machine"))), "checks come last")
	p.Expect(lines(did)).To(ContainElements(
		ContainSubstring("Deployment %s/manager: scaled to 0", p.namespace), ContainSubstring("Lease %s/%s: deleted", p.namespace, lead.Name),
		ContainSubstring("Lease kube-system/remedy-control-plane in Cluster %s/prod: deleted", p.namespace),
		ContainSubstring("Node %s in Cluster %s/prod", node.Name, p.namespace),
		ContainSubstring("Metal3Remediation %s/m-2: withdrawn", p.namespace),
		ContainSubstring("MachineHealthCheck %s/only-conditions: removed conditions", p.namespace)))
}

// The next run continues when the cluster can be reached.
func TestAll_UnreachableWorkloadCluster_CleansOthers(t *testing.T) {
	p := newFixture(t)
	p.node(p.far(), remedyv1.AttemptsAnnotation, "2")
	p.cluster("a-dead", []byte(strings.Replace(string(p.kubeconfig()), workloads.Admin.Host, "https://127.0.0.1:1", 1)))
	p.cluster("b-odd", []byte("none"))
	p.cluster("c-fine", p.kubeconfig())
	core, outside := p.inTreeCheck("core"), p.nodeCheck("outside", "a-dead")
	uninstaller, said := p.uninstaller(false)
	p.Expect(uninstaller.All(p.ctx)).To(MatchError(ContainSubstring("2 lines above with the prefix 'left:'")))
	p.Expect(said.String()).To(And(
		ContainSubstring("left: Cluster %s/a-dead: failed to clean the workload cluster: failed to discover the API resources", p.namespace),
		ContainSubstring("left: Cluster %s/b-odd: failed to clean the workload cluster: "+
			"failed to use the kubeconfig in Secret %s/b-odd-kubeconfig: key value is not a kubeconfig",
			p.namespace, p.namespace),
		MatchRegexp("Node n-[a-z0-9]+ in Cluster %s/c-fine: removed %s", p.namespace, remedyv1.AttemptsAnnotation)))
	p.Expect(traces(t, workloads)).To(BeEmpty())
	p.Expect(traces(t, management)).To(BeEmpty())
	p.Expect(p.get(core).GetFinalizers()).To(Equal([]string{"example.com/other"}))
	p.Expect(p.get(outside).GetFinalizers()).To(BeEmpty())
	p.Expect(p.get(outside).GetLabels()).ToNot(HaveKey(requests.MoveLabel))
}

func TestAll_MissingPermission_ReportsAndContinues(t *testing.T) {
	p := newFixture(t)
	core, machine := p.inTreeCheck("core"), p.machine("m-1", "MachineHealthCheck/own")
	uninstaller, said := p.user("no-machines", anything("get", "list"), rbacv1.PolicyRule{
		APIGroups: []string{clusterv1.GroupVersion.Group}, Resources: []string{"machinehealthchecks", "machinehealthchecks/status"},
		Verbs: []string{"patch"},
	})
	p.Expect(uninstaller.All(p.ctx)).To(MatchError(ContainSubstring("incomplete")))
	p.Expect(said.String()).To(MatchRegexp(`left: the management cluster: .*Machine %s/m-1.*forbidden`, p.namespace))
	p.Expect(p.get(core).GetFinalizers()).To(Equal([]string{"example.com/other"}))
	p.Expect(p.get(machine).GetAnnotations()).To(HaveKey(remedyv1.MarkedByAnnotation), "it names the responsible check")
}

// The workload cluster serves neither Cluster API nor Remedy.
func TestAll_WithoutClusterAPI_Succeeds(t *testing.T) {
	g := NewWithT(t)
	c, err := uninstall.NewCluster("the management cluster", workloads.Admin)
	g.Expect(err).ToNot(HaveOccurred())
	out := &bytes.Buffer{}
	uninstaller := &uninstall.Uninstaller{Management: c, Out: out, Clock: testingclock.NewFakePassiveClock(noon), Timeouts: shortTimeouts}
	g.Expect(uninstaller.Release(t.Context(), "default", "core")).To(MatchError(
		ContainSubstring("does not serve MachineHealthChecks of cluster.x-k8s.io/v1beta2: select the management cluster with --context")))
	g.Expect(uninstaller.All(t.Context())).To(Succeed())
	g.Expect(out.String()).To(Equal("nothing to remove\n"))
}

// A check that waits for its adoption has only conditions, and a ClusterRole only the label that an administrator has set. That of a
// release keeps it: the manager can be started again.
func TestAll_ConditionsAndRoleLabelOnly_RemovesThem(t *testing.T) {
	p := newFixture(t)
	waits := p.inTreeCheck("waits").DeepCopy()
	waits.Annotations, waits.Finalizers = nil, nil
	p.Expect(p.api.Update(p.ctx, waits)).To(Succeed())
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{
		Name:   p.namespace,
		Labels: map[string]string{remedyv1.AggregateToManagerLabel: "true", "other": "stays"},
	}}
	released := role.DeepCopy()
	released.Name, released.Labels[clusterv1.ProviderNameLabel] = role.Name+"-released", "infrastructure-remedy"
	p.create(role)
	p.create(released)
	uninstaller, said := p.uninstaller(false)
	p.Expect(uninstaller.All(p.ctx)).To(Succeed(), said.String())
	p.Expect(p.get(released).GetLabels()).To(HaveKey(remedyv1.AggregateToManagerLabel))
	p.Expect(p.get(waits).(*clusterv1.MachineHealthCheck).Status.Conditions).To(ConsistOf(HaveField("Type", clusterv1.PausedCondition)))
	p.Expect(p.get(role).GetLabels()).To(Equal(map[string]string{"other": "stays"}))
}

// The output does not list everything that was not done after the interruption. Checks come last, so the next run can continue.
func TestAll_Interrupted_ReportsOnlyTheInterruption(t *testing.T) {
	p := newFixture(t)
	core, machine := p.inTreeCheck("core"), p.machine("m-1", "InTreeMachineHealthCheck/core")
	ctx, stop := context.WithCancel(p.ctx)
	uninstaller, said := p.uninstaller(false)
	uninstaller.Out = writer(func(line []byte) (int, error) {
		stop()
		return said.Write(line)
	})
	p.Expect(uninstaller.All(ctx)).To(MatchError("interrupted: run the command again to continue"))
	p.Expect(said.String()).ToNot(ContainSubstring("left:"))
	p.Expect(p.get(machine).GetAnnotations()).ToNot(HaveKey(remedyv1.MarkedByAnnotation))
	p.Expect(p.get(core).GetAnnotations()).To(HaveKeyWithValue(clusterv1.PausedAnnotation, remedyv1.Pause),
		"the in-tree controller must not start before the Machines are clean")
}

type writer func([]byte) (int, error)

func (w writer) Write(line []byte) (int, error) { return w(line) }

// A CRD that is deleted too early waits for Remedy's finalizers. Discovery no longer reports its objects as changeable.
func TestAll_TerminatingCRD_RemovesFinalizer(t *testing.T) {
	p := newFixture(t)
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
	uninstaller, said := p.uninstaller(false)
	p.Expect(uninstaller.All(p.ctx)).To(Succeed(), said.String())
	p.Eventually(func() error { return p.api.Get(p.ctx, client.ObjectKeyFromObject(definition), definition) }, "10m").Should(MatchError(
		ContainSubstring("not found")))
}

// Traces may be left on objects that cannot be listed.
func TestAll_UnlistableKind_Fails(t *testing.T) {
	p := newFixture(t)
	p.inTreeCheck("core")
	most := ofGroups(clusterv1.GroupVersion.Group, remedyv1.GroupVersion.Group, remediator.Metal3.Group, "apps", "coordination.k8s.io")
	most.Verbs = append(most.Verbs, "delete")
	uninstaller, said := p.user("most", most)
	p.Expect(uninstaller.All(p.ctx)).To(MatchError(ContainSubstring("incomplete")))
	p.Expect(said.String()).To(MatchRegexp("(?m)^left: the management cluster: secrets: .*forbidden"))
}
