// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// probed is a cluster whose API server answers as the test sets, and its connections.
type probed struct {
	*bench
	remote *connections

	mu      sync.Mutex
	answers map[string]http.HandlerFunc
	asked   []string
}

func newProbed(t *testing.T) *probed {
	t.Helper()
	g := NewWithT(t)
	p := &probed{bench: newBench(t), answers: map[string]http.HandlerFunc{}}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.asked = append(p.asked, r.URL.Path)
		answer := p.answers[r.URL.Path]
		p.mu.Unlock()
		switch {
		case answer != nil:
			answer(w, r)
		case r.URL.Path == "/api":
			reply(http.StatusOK, `{"kind":"APIVersions","versions":["v1"]}`)(w, r)
		case r.URL.Path == "/apis":
			reply(http.StatusOK, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)(w, r)
		case r.URL.Path == "/api/v1":
			reply(http.StatusOK, `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"nodes","kind":"Node","verbs":["get"]}]}`)(w, r)
		}
	}))
	t.Cleanup(server.Close)
	kubeconfig := goodKubeconfig()
	kubeconfig.Clusters[canary].Server = server.URL
	kubeconfig.Clusters[canary].CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	content, err := clientcmd.Write(*kubeconfig)
	g.Expect(err).ToNot(HaveOccurred())
	p.remote = &connections{
		clusters: p.Clusters, kubeconfigs: &kubeconfigReader{Reader: &secrets{content: content}, checked: p.kubeconfigChecked},
		options: &Options{UserAgent: "test"}, scheme: clientgoscheme.Scheme, clock: p.clock, all: map[client.ObjectKey]*connectionState{}, shares: map[string]answerMemory{},
		probeInterval: probeInterval, probeTimeout: probeTimeout, connectInterval: connectInterval,
	}
	p.Clusters.remote = p.remote
	return p
}

func reply(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// set changes the answer for a path; nil is the usual one.
func (p *probed) set(path string, answer http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers[path], p.asked = answer, nil
}

// reconcile runs once, and returns after which time it has to run again.
func (p *probed) reconcile(t *testing.T) time.Duration {
	t.Helper()
	result, err := p.remote.Reconcile(t.Context(), reconcile.Request{NamespacedName: prod})
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	return result.RequeueAfter
}

// A connection is made once, probed in its interval, and closed after five probes that failed.
func TestConnections_FailedProbes_CloseConnection(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	p := newProbed(t)
	g.Expect(p.reconcile(t)).To(Equal(probeInterval))
	g.Expect(p.connection(t).Up).To(BeTrue())
	g.Expect(p.asked).To(ContainElement("/readyz"))
	g.Expect(p.notifications()).To(Equal(1))
	p.set("/readyz", reply(http.StatusInternalServerError, ""))
	p.clock.Step(probeInterval)
	p.reconcile(t)
	g.Expect(p.connection(t).Up).To(BeTrue(), "only a part of it is not ready")
	p.set("/api", reply(http.StatusInternalServerError, ""))
	g.Expect(p.reconcile(t)).To(Equal(probeInterval), "the next probe is not due")
	g.Expect(p.asked).To(BeEmpty())
	for n := range probeFailuresUntilClosed {
		g.Expect(p.remote.linkTo(prod)).ToNot(BeNil())
		p.clock.Step(probeInterval)
		g.Expect(p.reconcile(t)).To(Equal(map[bool]time.Duration{true: connectInterval, false: probeInterval}[n == probeFailuresUntilClosed-1]))
		g.Expect(p.connection(t).Up).To(Equal(n == 0), "two failures in a row are an outage")
	}
	g.Expect(p.remote.linkTo(prod)).To(BeNil())
	p.set("/readyz", nil)
	p.set("/api", nil)
	p.clock.Step(connectInterval)
	p.reconcile(t)
	g.Expect(p.connection(t).Up).To(BeTrue())
}

// The API server may have been unreachable until the first connection of this process. The kube-controller-manager shows that it was not.
func TestConnections_FirstOne_GivesKubeletsTime(t *testing.T) {
	t.Parallel()
	const now, grace = 0, ReconnectGracePeriod
	for name, test := range map[string]struct {
		holder            string
		acquired, renewed time.Duration
		waits             bool
	}{
		"no Lease":                {waits: true},
		"held long enough":        {"a", grace, now, false},
		"renewed a while ago":     {"a", time.Hour, ShortOutage - time.Second, false},
		"not long enough":         {"a", grace - time.Second, now, true},
		"too long ago":            {"a", time.Hour, ShortOutage, true},
		"lasts longer":            {"a", time.Hour, now, true},
		"released":                {"", time.Hour, now, true},
		"by another clock":        {"a", now, -time.Hour, true},
		"not since an hour hence": {"a", -time.Hour, -2 * time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, p := NewWithT(t), newProbed(t)
			p.observed = &ManagementAPI{clock: p.clock}
			p.set(controllerManager, reply(http.StatusNotFound, ""))
			if name != "no Lease" {
				at := func(ago time.Duration) string {
					return p.clock.Now().UTC().Add(-ago).Format("2006-01-02T15:04:05.000000Z")
				}
				p.set(controllerManager, reply(http.StatusOK, fmt.Sprintf(`{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","spec":{"leaseDurationSeconds":%d,"holderIdentity":%q,"acquireTime":%q,"renewTime":%q}}`,
					map[bool]int{false: 15, true: 16}[name == "lasts longer"], test.holder, at(test.acquired), at(test.renewed))))
			}
			until := map[bool]time.Time{true: p.clock.Now().Add(grace)}[test.waits]
			p.reconcile(t)
			g.Expect(p.connection(t).KubeletsUntil).To(Equal(until))
			// Later connections have the grace period of an outage.
			p.set("/readyz", reply(http.StatusUnauthorized, ""))
			p.clock.Step(probeInterval)
			p.reconcile(t)
			p.set("/readyz", nil)
			p.reconcile(t)
			g.Expect(p.connection(t).Up).To(BeTrue())
			g.Expect(p.connection(t).KubeletsUntil).To(Equal(until))
		})
	}
}

// An API server that does not serve /readyz, or not for this user, is probed by discovery. With a kubeconfig that was renewed, the manager
// connects again at once.
func TestConnections_OtherAnswers_HaveTheirMeaning(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	p := newProbed(t)
	p.set("/readyz", reply(http.StatusNotFound, ""))
	g.Expect(p.reconcile(t)).To(Equal(probeInterval))
	first := p.remote.linkTo(prod)
	g.Expect(first).ToNot(BeNil())
	p.set("/readyz", reply(http.StatusForbidden, ""))
	p.clock.Step(probeInterval)
	p.reconcile(t)
	g.Expect(p.remote.Probes(prod)).To(Equal(probes{succeeded: p.clock.Now()}))
	p.set("/readyz", reply(http.StatusUnauthorized, ""))
	p.clock.Step(probeInterval)
	g.Expect(p.reconcile(t)).To(Equal(time.Millisecond))
	g.Expect(p.remote.linkTo(prod)).To(BeNil())
	p.set("/readyz", nil)
	p.reconcile(t)
	g.Expect(p.remote.linkTo(prod)).ToNot(Or(BeNil(), BeIdenticalTo(first)))
	p.management.initialized = false
	p.reconcile(t)
	g.Expect(p.remote.linkTo(prod)).To(BeNil())
}

// A Cluster that was deleted and created again has another API server.
func TestConnections_OtherUID_ConnectsAgain(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	p := newProbed(t)
	p.reconcile(t)
	first := p.remote.linkTo(prod)
	p.remote.all[prod].uid = "earlier"
	p.reconcile(t)
	g.Expect(p.remote.linkTo(prod)).ToNot(Or(BeNil(), BeIdenticalTo(first)))
}

// Probes and discovery follow no redirect, and read no answer without an end.
func TestConnections_HostileAnswers_DoNotConnect(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	redirect := func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }
	endless := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, neverEnding('x')) }
	for _, path := range []string{"/readyz", "/api", "/apis"} {
		for name, answer := range map[string]http.HandlerFunc{"redirect": redirect, "endless": endless} {
			p := newProbed(t)
			p.set(path, answer)
			g.Expect(p.reconcile(t)).To(Equal(connectInterval), path+" "+name)
			g.Expect(p.asked).ToNot(ContainElement("/elsewhere"))
			g.Expect(p.remote.linkTo(prod)).To(BeNil())
		}
	}
}
