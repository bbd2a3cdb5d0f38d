// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// slowServer reports which writes have begun, and rejects them at the end.
type slowServer struct {
	client.Client
	begun chan string
	ended chan struct{}
	end   func()
}

var errRejected = errors.New("rejected")

func (s *slowServer) write(name string) error {
	s.begun <- name
	<-s.ended
	return errRejected
}

func (s *slowServer) Patch(_ context.Context, object client.Object, _ client.Patch, _ ...client.PatchOption) error {
	return s.write(object.GetName())
}

func (s *slowServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	http.Error(w, s.write(r.URL.Path).Error(), http.StatusInternalServerError)
}

// clusters are those of a management cluster whose requests the server answers, and whose Nodes cannot be read.
func clusters(t *testing.T, server http.Handler) *workload.Clusters {
	t.Helper()
	listener := httptest.NewServer(server)
	t.Cleanup(listener.Close)
	all, err := workload.New(testManager{host: listener.URL}, clock.RealClock{})
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	return all
}

type testManager struct {
	manager.Manager
	host string
}

func (m testManager) GetConfig() *rest.Config   { return &rest.Config{Host: m.host} }
func (testManager) GetHTTPClient() *http.Client { return http.DefaultClient }
func (testManager) GetScheme() *runtime.Scheme  { return scheme.Scheme }
func (testManager) GetClient() client.Client    { return nil }
func (testManager) GetCache() cache.Cache       { return unreachableCache{} }
func (testManager) Add(manager.Runnable) error  { return nil }
func (testManager) GetRESTMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(coordinationv1.SchemeGroupVersion.WithKind("Lease"), meta.RESTScopeNamespace)
	return mapper
}

type unreachableCache struct{ cache.Cache }

func (unreachableCache) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return nil, errRejected
}

// noSource has no targets.
type noSource struct{ Source }

func (noSource) Get(context.Context, client.Reader, *Check, string) (target *Target, selected bool, err error) {
	return nil, false, nil
}

// annotating is an actor that only annotates.
type annotating struct {
	Actor
	client.Client
}

func (a annotating) Annotate(ctx context.Context, _ client.ObjectKey, object client.Object, _ notes.Notes) (client.Object, error) {
	return object, a.Patch(ctx, object, nil)
}

func (a annotating) Report(
	ctx context.Context, object client.Object, _ *explain.Facts, _ *remediation.Check, _ time.Time,
) (client.Object, error) {
	return object, a.Patch(ctx, object, nil)
}

// newWriter returns a reconcile of a check that has not recorded the kind of its template, with one Machine.
func newWriter(t *testing.T) (*scope, *slowServer) {
	t.Helper()
	api := &slowServer{begun: make(chan string, 10), ended: make(chan struct{})}
	api.end = sync.OnceFunc(func() { close(api.ended) })
	check, machine := &remedyv1.MachineHealthCheck{}, &clusterv1.Machine{}
	check.Namespace, check.Name, machine.Namespace, machine.Name = "a", "workers", "a", "m-1"
	c := &Check{
		ID: requests.Check{Kind: "MachineHealthCheck", Namespace: "a", Name: "workers"}, Object: check, Cluster: workload.ManagementCluster,
		Templates: []requests.Reference{{APIVersion: "example.com/v1", Kind: "FixTemplate", Namespace: "a", Name: "fix"}},
	}
	now, reachable := time.Unix(0, 0), clusters(t, api)
	t.Cleanup(api.end)
	e := &Environment{Client: api, Clusters: reachable, Clock: clocktesting.NewFakePassiveClock(now)}
	p := newScope(&Reconciler{Environment: e, Source: noSource{}, Actor: annotating{Client: api}}, &record{}, c, now)
	target := &Target{Object: machine, Machine: machine}
	p.snapshot = &snapshot{check: c, targets: []*Target{target}, orphans: []orphan{{target: target}}}
	return p, api
}

// failedOnce is a decision whose history the Machine does not have.
var failedOnce = &remediation.Decision{History: remediation.History{Failures: 1}}

// The check records a new kind of requests, and acquires the control-plane Lease. The API server takes its time for both, and annotations
// of other targets are written meanwhile.
func TestWrite_SlowWriteForSeveralTargets_DelaysNoOther(t *testing.T) {
	for name, slow := range map[string]func(*scope) error{
		"workers": func(p *scope) error { return p.recordKind(t.Context(), p.check.Templates[0]) },
		"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases": func(p *scope) error {
			return p.acquireControlPlaneLease(t.Context(), p.now.Add(time.Hour))
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p, api := newWriter(t)
			go func() { _ = slow(p) }()
			g.Eventually(api.begun).Should(Receive(Equal(name)))
			go func() { _ = p.WriteTarget(t.Context(), 0, nil, failedOnce, remediation.WriteHistory) }()
			g.Eventually(api.begun).Should(Receive(Equal("m-1")))
		})
	}
}

// The log has only the error of a failed write: a name without kind and namespace would not identify the object.
func TestWrite_Failed_NamesTheObject(t *testing.T) {
	g := NewWithT(t)
	p, api := newWriter(t)
	api.end()
	evaluation := &explain.Evaluation{
		Snapshot: &health.Snapshot{Targets: make([]health.Target, 1)}, Situation: &remediation.Situation{Targets: make([]remediation.Target, 1)},
		Assessment: &health.Assessment{Verdicts: make([]health.Verdict, 1)},
		Planned:    &remediation.Planned{Decisions: []remediation.Decision{*failedOnce}},
	}
	for name, err := range map[string]error{
		"target": p.WriteTarget(t.Context(), 0, nil, failedOnce, remediation.WriteHistory),
		"orphan": p.WriteOrphan(t.Context(), 0, failedOnce, remediation.WriteHistory),
		"health": p.reportTarget(t.Context(), evaluation, 0),
	} {
		g.Expect(err).To(And(MatchError(errRejected), MatchError(HavePrefix("Machine a/m-1: "))), name)
	}
}
