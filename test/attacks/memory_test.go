// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package attacks_test

import (
	"bytes"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/depth"
)

// body is an answer: what begins it, what is repeated for ever, and its format.
type body struct {
	name, format, begin string
	unit                func(i int) string
}

func always(unit string) func(int) string { return func(int) string { return unit } }

// varint is a length in protobuf.
func varint(n uint64) string { return string(binary.AppendUvarint(nil, n)) }

// inProtobuf is the begin of an object in protobuf whose content is longer than anything that is read.
func inProtobuf(kind, content string) string {
	version := "\x0a\x02v1\x12" + varint(uint64(len(kind))) + kind
	return "k8s\x00\x0a" + varint(uint64(len(version))) + version + "\x12" + varint(1<<30) + content
}

const (
	asJSON, asProtobuf = "application/json", "application/vnd.kubernetes.protobuf"
	newNode            = `{"type":"ADDED","object":{"kind":"Node","apiVersion":"v1",` +
		`"metadata":{"name":"n-%d","resourceVersion":"%d","labels":{"a":"%s"}}}}`
	listHead = `","apiVersion":"v1","metadata":{"resourceVersion":"1","continue":"more"},"items":[`
)

// A dense Node has many small labels and conditions, which need more memory than they have bytes.
var (
	denseNodeObject = `{"kind":"Node","apiVersion":"v1","metadata":{"name":"n-%d","resourceVersion":"%d","labels":{` + denseLabels() + `}},` +
		`"status":{"conditions":[{}` + strings.Repeat(",{}", 63) + `]}}`
	denseNode = `{"type":"%s","object":` + denseNodeObject + `}`
)

func denseLabels() string {
	labels := make([]string, 60)
	for i := range labels {
		labels[i] = fmt.Sprintf(`"l%d":""`, i)
	}
	return strings.Join(labels, ",")
}

// bodies are the answers to reads.
var bodies = []body{
	{"empty objects", asJSON, `{"kind":"NodeList` + listHead + "{}", always(",{}")},
	{"nulls", asJSON, `{"kind":"NodeList` + listHead + "null", always(",null")},
	{"conditions", asJSON, `{"kind":"NodeList` + listHead + `{"status":{"conditions":[{}`, always(",{}")},
	{"conditions of one Node", asJSON, `{"kind":"Node","apiVersion":"v1","status":{"conditions":[{}`, always(",{}")},
	{"containers", asJSON, `{"kind":"PodList` + listHead + `{"spec":{"containers":[{}`, always(",{}")},
	{"dense Nodes", asJSON, `{"kind":"NodeList` + listHead + "{}", func(i int) string { return "," + fmt.Sprintf(denseNodeObject, i, i+1) }},
	{"groups", asJSON, `{"kind":"APIGroupDiscoveryList","items":[{}`, always(",{}")},
	{"labels", asJSON, `{"kind":"Node","metadata":{"labels":{"a":""`, func(i int) string { return fmt.Sprintf(`,"k%d":""`, i) }},
	{"brackets", asJSON, "", always("[")},
	{"objects in objects", asJSON, "", always(`{"a":`)},
	{"a text", asJSON, `{"kind":"Node","apiVersion":"v1","metadata":{"name":"`, always(strings.Repeat("x", 4096))},
	{"spaces", asJSON, "", always(strings.Repeat(" ", 4096))},
	{"aliases", "application/yaml", "a: &a [x]\n", func(i int) string { return fmt.Sprintf("b%d: [*a,*a,*a]\n", i) }},
	{"no format", "", "", always(strings.Repeat("x", 4096))},
	{"empty objects in protobuf", asProtobuf, inProtobuf("NodeList", ""), always("\x12\x00")},
	{"conditions in protobuf", asProtobuf, inProtobuf("Node", "\x1a"+varint(1<<29)), always("\x22\x00")},
	{"Leases in protobuf", asProtobuf, inProtobuf("LeaseList", ""), always("\x12\x00")},
}

// watches are the answers to watches.
var watches = []body{
	{"new Nodes", asJSON, "", func(i int) string {
		return fmt.Sprintf(newNode, i, i+1, "")
	}},
	{"large new Nodes", asJSON, "", func(i int) string {
		return fmt.Sprintf(newNode, i, i+1, strings.Repeat("x", 1000))
	}},
	{"dense new Nodes", asJSON, "", func(i int) string {
		return fmt.Sprintf(denseNode, "ADDED", i, i+1)
	}},
	{"an event without an end", asJSON, `{"type":"ADDED","object":{"kind":"Node","status":{"conditions":[{}`, always(",{}")},
	{"a text without an end", asJSON, `{"type":"`, always(strings.Repeat("x", 4096))},
	{"an event in protobuf", asProtobuf, "\x7f\xff\xff\xff", always("\x12\x00")},
}

// attack is one endpoint at which an API server answers anything, and answers that were sent there.
type attack struct {
	name string
	// machines is how many the Cluster has, whose Nodes do not exist: few are read one by one, and many with a list.
	machines int
	paths    func(r *http.Request) bool
	bodies   []body

	mu   sync.Mutex
	dice *rand.Rand
	sent map[string]int
}

// answer sends what the dice draw: a body without an end or with one, at once or slowly, with a status.
func (a *attack) answer(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	drawn, megabytes := a.bodies[a.dice.IntN(len(a.bodies))], []int{2, 15, 1 << 20}[a.dice.IntN(3)]
	slow, status := a.dice.IntN(6) == 0, []int{200, 200, 200, 200, 404, 500}[a.dice.IntN(6)]
	redirect := a.dice.IntN(10) == 0
	a.sent[drawn.name]++
	a.mu.Unlock()
	if redirect {
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
		return
	}
	if drawn.format != "" {
		w.Header().Set("Content-Type", drawn.format)
	}
	w.WriteHeader(status)
	_, err := io.WriteString(w, drawn.begin)
	var block bytes.Buffer
	for i, sent := 0, 0; err == nil && sent < megabytes<<20 && r.Context().Err() == nil; sent += block.Len() {
		block.Reset()
		for ; block.Len() < 64<<10; i++ {
			block.WriteString(drawn.unit(i))
		}
		_, err = w.Write(block.Bytes())
		if slow {
			select {
			case <-r.Context().Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
}

// attacks returns one for each endpoint that the manager reads.
func attacks(seed uint64) []*attack {
	ends := func(suffix string) func(r *http.Request) bool {
		return func(r *http.Request) bool {
			return strings.HasSuffix(r.URL.Path, suffix) && !r.URL.Query().Has("watch")
		}
	}
	all := []*attack{
		{name: "probes", machines: 1, paths: func(r *http.Request) bool {
			return r.URL.Path == "/readyz" || r.URL.Path == "/" || r.URL.Path == "/api"
		}},
		{name: "discovery", machines: 1, paths: func(r *http.Request) bool {
			return strings.HasPrefix(r.URL.Path, "/api") && strings.Count(r.URL.Path, "/") < 4 && !strings.HasSuffix(r.URL.Path, "/nodes")
		}},
		{name: "lists", machines: 16, paths: ends("/nodes")},
		{name: "watches", machines: 8, paths: func(r *http.Request) bool { return r.URL.Query().Has("watch") }, bodies: watches},
		{name: "Nodes", machines: 1, paths: func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/nodes/") }},
		{name: "others", machines: 1, paths: func(r *http.Request) bool {
			return strings.HasSuffix(r.URL.Path, "/leases") || strings.HasSuffix(r.URL.Path, "/pods")
		}},
	}
	for i, a := range all {
		if a.sent, a.dice = map[string]int{}, rand.New(rand.NewPCG(seed, uint64(i))); a.bodies == nil {
			a.bodies = bodies
		}
	}
	return all
}

// serve is an API server that is honest but for the attack. It streams no lists, so that they are read.
func (a *attack) serve(t *testing.T) *rest.Config {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	honest := honestProxy(NewWithT(t), plane.Admin)
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case a.paths(r):
			a.answer(w, r)
		case r.URL.Query().Has("sendInitialEvents"):
			w.Header().Set("Content-Type", asJSON)
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
		default:
			honest.ServeHTTP(w, r)
		}
	})
	server.StartTLS()
	t.Cleanup(server.CloseClientConnections)
	return &rest.Config{Host: server.URL, BearerToken: "any", TLSClientConfig: rest.TLSClientConfig{
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}}
}

// clusterOf creates a Cluster with Machines and a check for them.
func clusterOf(t *testing.T, namespace, name string, to *rest.Config, machines int) *remedyv1.MachineHealthCheck {
	t.Helper()
	g, ctx := NewWithT(t), t.Context()
	kubeconfig, err := controlplane.Kubeconfig(to)
	g.Expect(err).ToNot(HaveOccurred())
	plane.CreateUntilEnd(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-kubeconfig"}, Data: map[string][]byte{"value": kubeconfig},
	})
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "example.com", Kind: "AnyCluster", Name: name}
	g.Expect(plane.API.Create(ctx, cluster)).To(Succeed())
	g.Expect(plane.API.Status().Patch(ctx, cluster, merge(`{status: {
		initialization: {infrastructureProvisioned: true, controlPlaneInitialized: true},
		conditions: [{type: ControlPlaneInitialized, status: "True", reason: a, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"},
		{type: InfrastructureReady, status: "True", reason: a, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}}`))).To(Succeed())
	for i := range machines {
		machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("%s-%d", name, i), Labels: map[string]string{clusterv1.ClusterNameLabel: name, "pool": name},
		}}
		machine.Spec.ClusterName, machine.Spec.ProviderID, machine.Spec.Bootstrap.DataSecretName = name, "test:///"+machine.Name, ptr.To("a")
		machine.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "example.com", Kind: "AnyMachine", Name: name}
		// The Leases and Pods of a control plane are read before the owner replaces a member.
		machine.Labels[clusterv1.MachineControlPlaneLabel] = ""
		machine.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: "controlplane.cluster.x-k8s.io/v1beta2", Kind: "KubeadmControlPlane", Name: name, UID: "1", Controller: ptr.To(true)},
		}
		g.Expect(plane.API.Create(ctx, machine)).To(Succeed())
		g.Expect(plane.API.Status().Patch(ctx, machine, merge("{status: {nodeRef: {name: "+machine.Name+"}}}"))).To(Succeed())
	}
	check := &remedyv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	check.Spec.ClusterName = name
	check.Spec.Selector.MatchLabels = map[string]remedyv1.LabelValue{"pool": remedyv1.LabelValue(name)}
	check.Spec.UnhealthyConditions = []remedyv1.UnhealthyNodeCondition{
		{Type: "Ready", Status: "False", Timeout: remedyv1.Duration{Duration: metav1.Duration{Duration: time.Hour}}},
	}
	g.Expect(plane.API.Create(ctx, check)).To(Succeed())
	return check
}

// memoryLimit is that of the manager here. GOMEMLIMIT is nine tenths of it, as in the Deployment.
const memoryLimit = 512 << 20

// A tenant with six Clusters, each of which answers anything at another endpoint: the manager keeps its memory limit, and the Node of
// another tenant is read within five seconds.
func TestAnswers_AnythingAnywhere_HarmsNoOther(t *testing.T) {
	g, ctx := installed(t), t.Context()
	t.Setenv("GOMEMLIMIT", "460MiB")
	seed, lasts := uint64(1), 8*time.Second
	if depth.Full() {
		seed, lasts = rand.Uint64(), 5*time.Minute
	}
	t.Logf("seed %d", seed)
	victim := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "honest-0"}, Spec: corev1.NodeSpec{ProviderID: "test:///honest-0"}}
	plane.CreateUntilEnd(t, victim)
	check := clusterOf(t, teamB, "honest", plane.Admin, 1)
	ready := func(status corev1.ConditionStatus) {
		before := victim.DeepCopy()
		victim.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.Now()}}
		g.Expect(plane.API.Status().Patch(ctx, victim, client.MergeFrom(before))).To(Succeed())
	}
	ready(corev1.ConditionTrue)
	unhealthy := func() (int, error) {
		err := plane.API.Get(ctx, client.ObjectKeyFromObject(check), check)
		return len(check.Status.UnhealthyTargets), err
	}
	manager, _ := plane.StartManager(t)
	g.Eventually(unhealthy).Should(BeZero())
	all := attacks(seed)
	for _, a := range all {
		clusterOf(t, teamA, strings.ToLower(a.name), a.serve(t), a.machines)
	}
	var longest time.Duration
	for begin := time.Now(); time.Since(begin) < lasts; {
		for _, status := range []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue} {
			ready(status)
			want, since := map[corev1.ConditionStatus]int{corev1.ConditionFalse: 1}[status], time.Now()
			g.Eventually(unhealthy, time.Minute, 50*time.Millisecond).Should(Equal(want))
			longest = max(longest, time.Since(since))
		}
		g.Expect(manager.Exited()).ToNot(BeClosed())
	}
	for _, a := range all {
		a.mu.Lock()
		t.Logf("%s: %v", a.name, a.sent)
		g.Expect(a.sent).ToNot(BeEmpty(), a.name)
		a.mu.Unlock()
	}
	peak := peakMemory(g, manager.PID())
	outcome(t, "answers of any shape at every endpoint: the manager used %d MiB of %d, and another cluster was read within %s",
		peak>>20, memoryLimit>>20, longest.Round(time.Millisecond))
	g.Expect(peak).To(BeNumerically("<", memoryLimit))
	g.Expect(longest).To(BeNumerically("<", 5*time.Second))
}

// peakMemory is the most memory that a process has used so far.
func peakMemory(g *WithT, pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	g.Expect(err).ToNot(HaveOccurred())
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	var kilobytes int64
	_, err = fmt.Sscan(after, &kilobytes)
	g.Expect(err).ToNot(HaveOccurred())
	return kilobytes << 10
}
