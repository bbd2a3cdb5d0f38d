// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"reflect"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	testingclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/intree"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// Stage is a namespace with a Cluster and the workload cluster behind it.
type Stage struct {
	T testing.TB
	*WithT
	// Ctx lasts longer than the test, because what is left behind is inspected after it.
	Ctx context.Context
	// Admin is an admin's client of the management cluster, Workload one of the workload cluster.
	Admin, Workload client.Client
	Namespace       string
	// readiness is the last status of Ready that the test has set on the Node of each Machine.
	readiness sync.Map
	// recorder is nil if nothing is recorded.
	recorder *Recorder
	Cluster  *clusterv1.Cluster
	// Clock is the reconcilers' clock; nil is the real one.
	Clock *testingclock.FakeClock
	// Proxy leads to the workload cluster; nil is a direct connection.
	Proxy *faults.Proxy
	// forwarder records the writes in the workload cluster; nil does not.
	forwarder *forwarder
	// workers is how many checks are reconciled at the same time; 0 is one.
	workers int
	// SyncPeriod is how often the reconcilers resync; nil is the default.
	SyncPeriod *time.Duration
	// WatchFilter and Observe are the manager's flags, and RefuseInsecure is its --insecure-kubeconfigs=Refuse.
	WatchFilter string
	// AllNamespaces: the manager watches all namespaces. WatchFilter keeps the instances of two tests apart.
	AllNamespaces bool
	// workloadNodes: Nodes are in the workload cluster nevertheless.
	workloadNodes bool
	// selfHosted: the Cluster is the management cluster.
	selfHosted              bool
	Observe, RefuseInsecure bool
	// TakesOver selects the in-tree checks to adopt. The test plays the in-tree controller.
	TakesOver intree.AdoptionPolicy
	// PollInterval is the time between two reads of the requests in the workload cluster; the reconcilers' own if it is zero.
	PollInterval time.Duration
	// Remediators is what the played remediators remember besides their requests, such as the servers of Metal3.
	Remediators remediator.Memory
	// NodeDeletion: Metal3 deletes Nodes and restores them.
	NodeDeletion bool
	// OwnTimes: times of transitions are corrected by what the manager has read. Otherwise, tests play failures of long ago.
	OwnTimes bool
	// OnFirstRead is called when an instance has read a check from its cache for the first time.
	OnFirstRead func(c *Instance)
}

// New creates a namespace with a Cluster. What the controllers leave behind is inspected at the end of the test.
func New(t testing.TB, changes ...func(*Stage)) *Stage {
	t.Helper()
	s := &Stage{T: t, WithT: NewWithT(t), Ctx: context.WithoutCancel(t.Context()), PollInterval: 2 * time.Second}
	s.SetDefaultEventuallyTimeout(Timeout)
	s.SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	testenv.Use(t, Management, Workload)
	s.Admin, s.Workload = testenv.NewClient(t, Management.Admin), testenv.NewClient(t, Workload.Admin)
	s.Namespace = Management.Namespace(t)
	for _, change := range changes {
		change(s)
	}
	s.CreateCluster("prod")
	t.Cleanup(func() {
		defer s.deleteObjects()
		s.inspect()
	})
	return s
}

// playedTimes is how old a transition may be that a test plays.
const playedTimes = 100 * 365 * 24 * time.Hour

// WithOwnTimes corrects times of transitions, as the manager does.
func WithOwnTimes(s *Stage) { s.OwnTimes = true }

// WithClock gives the controllers a clock that the test advances.
func WithClock(s *Stage) { s.Clock = testingclock.NewFakeClock(time.Now()) }

// WithAllNamespaces starts the manager for all namespaces, with the namespace of the test as --watch-filter.
func WithAllNamespaces(s *Stage) { s.AllNamespaces, s.WatchFilter = true, s.Namespace }

// WithTenants starts the manager for all namespaces, with the Nodes in the workload cluster.
func WithTenants(s *Stage) {
	WithAllNamespaces(s)
	s.workloadNodes = true
}

// WithSelfHosted makes the Cluster of the stage the management cluster, as after clusterctl move.
func WithSelfHosted(s *Stage) { s.selfHosted = true }

// WithWorkers lets a controller reconcile several checks at the same time.
func WithWorkers(s *Stage) { s.workers = 10 }

// WithProxy connects to the workload cluster through a proxy that the test can break.
func WithProxy(s *Stage) { s.UseProxy() }

// WithOwnPollInterval reads the requests in the workload cluster as rarely as in production.
func WithOwnPollInterval(s *Stage) { s.PollInterval = 0 }

// WithAdoption lets the controllers adopt all in-tree checks.
func WithAdoption(s *Stage) { s.TakesOver = intree.AdoptionPolicy{All: true} }

// Create creates an object in the management cluster.
func (s *Stage) Create(o client.Object) {
	s.T.Helper()
	s.Expect(s.Admin.Create(s.Ctx, o)).To(Succeed())
}

// Change reads an object, changes it and patches it.
func (s *Stage) Change(o client.Object, change func()) {
	s.T.Helper()
	s.Expect(s.Admin.Get(s.Ctx, client.ObjectKeyFromObject(o), o)).To(Succeed())
	before := o.DeepCopyObject().(client.Object)
	change()
	s.Expect(s.Admin.Patch(s.Ctx, o, client.MergeFrom(before))).To(Succeed())
}

// ChangeStatus reads an object, changes its status and patches it.
func (s *Stage) ChangeStatus(o client.Object, change func()) {
	s.T.Helper()
	s.Expect(s.Admin.Get(s.Ctx, client.ObjectKeyFromObject(o), o)).To(Succeed())
	before := o.DeepCopyObject().(client.Object)
	change()
	s.Expect(s.Admin.Status().Patch(s.Ctx, o, client.MergeFrom(before))).To(Succeed())
}

// Annotate sets an annotation, or removes it if the value is empty.
func (s *Stage) Annotate(o client.Object, key, value string) {
	s.T.Helper()
	s.Change(o, func() {
		annotations := o.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = value
		if value == "" {
			delete(annotations, key)
		}
		o.SetAnnotations(annotations)
	})
}

// Get returns a function that reads an object again.
func Get[T client.Object](s *Stage, o T) func() T {
	return func() T {
		s.T.Helper()
		s.Expect(s.Admin.Get(s.Ctx, client.ObjectKeyFromObject(o), o)).To(Succeed())
		return o
	}
}

// Key returns the key of an object.
func Key(namespace, name string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: name}
}

// Advance advances the clock and triggers a reconcile of every check.
func (s *Stage) Advance(d time.Duration) {
	s.T.Helper()
	s.Clock.Step(d)
	s.Wake()
}

// stuckTime is how long a test with a fake clock waits before Eventually plays a heartbeat, and before it and RunUntilIdle advance
// the clock.
const stuckTime = Timeout / 5

// Eventually is Gomega's. A fake clock does not advance by itself, but a reconciler can wait for a later time: on a busy machine a
// connection is lost, and the reconnect grace period counts by that clock. So after a long wait, the clock is advanced by the time that the
// test has waited. Before that, the kubelets report: an API server can lose the event of a change, and the next one heals the cache.
func (s *Stage) Eventually(actual any, intervals ...any) types.AsyncAssertion {
	s.T.Helper()
	poll := reflect.ValueOf(actual)
	if s.Clock == nil || poll.Kind() != reflect.Func || poll.Type().NumIn() > 0 {
		return s.WithT.Eventually(actual, intervals...)
	}
	began, reported := time.Now(), false
	advancing := reflect.MakeFunc(poll.Type(), func([]reflect.Value) []reflect.Value {
		waited := time.Since(began)
		switch {
		case waited > stuckTime && !reported:
			s.T.Logf("after %s, the kubelets report", waited)
			s.heartbeat()
			reported = true
		case waited > 2*stuckTime:
			began, reported = time.Now(), false
			s.T.Logf("the clock is advanced by %s", waited)
			s.Advance(waited)
		}
		return poll.Call(nil)
	})
	return s.WithT.Eventually(advancing.Interface(), intervals...)
}
