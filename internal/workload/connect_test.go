// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// shaky is a manager whose API server may not answer. It counts runnables and event handlers.
type shaky struct {
	manager.Manager
	fails            bool
	added, followers int
}

func (s *shaky) Add(manager.Runnable) error {
	s.added++
	return nil
}

func (s *shaky) GetCache() ctrlcache.Cache { return &shakyCache{Cache: s.Manager.GetCache(), mgr: s} }

type shakyCache struct {
	ctrlcache.Cache
	mgr *shaky
}

func (c *shakyCache) GetInformer(context.Context, client.Object, ...ctrlcache.InformerGetOption) (ctrlcache.Informer, error) {
	if c.mgr.fails {
		return nil, errors.New("no answer")
	}
	return &followed{mgr: c.mgr}, nil
}

// followed is an informer that only counts event handlers.
type followed struct {
	ctrlcache.Informer
	mgr *shaky
}

func (f *followed) AddEventHandler(toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	f.mgr.followers++
	return nil, nil //nolint:nilnil // no caller reads it.
}

// A manager accepts a controller of one name only once, so an attempt that fails must not have added it.
func TestConnect_AfterFailure_Succeeds(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	made, err := ctrl.NewManager(&rest.Config{Host: "https://127.0.0.1:1"}, ctrl.Options{
		Scheme: testenv.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Logger: logr.Discard(),
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	g.Expect(err).ToNot(HaveOccurred())
	mgr := &shaky{Manager: made, fails: true}
	clusters, err := workload.New(made, clock.RealClock{})
	g.Expect(err).ToNot(HaveOccurred())

	g.Expect(clusters.Connect(t.Context(), mgr, workload.Options{UserAgent: "test"})).To(MatchError(ContainSubstring("no answer")))
	g.Expect(mgr.added).To(BeZero())

	mgr.fails = false
	g.Expect(clusters.Connect(t.Context(), mgr, workload.Options{})).ToNot(Succeed(), "a user agent is required")
	g.Expect(mgr.added).To(BeZero())

	g.Expect(clusters.Connect(t.Context(), mgr, workload.Options{UserAgent: "test"})).To(Succeed())
	g.Expect(mgr.added).To(Equal(1), "the controller of connections")
	g.Expect(mgr.followers).To(Equal(1))
}

// A cluster that is still being created is not connected: each attempt would fail. It is connected when its control plane is initialized.
func TestConnect_ControlPlaneNotInitialized_Waits(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := newStage(t)
	way := newProxy(t, addressOf(t, second))
	key := client.ObjectKey{Namespace: s.namespace, Name: "new"}
	s.putKubeconfig(key, kubeconfigOf(t, second.Admin, way))
	cluster := s.createCluster(key)
	s.provision(cluster, false)
	// Clusters are handled in the order of their events, so the first one was handled by then.
	s.up(s.cluster("other", second, nil))
	g.Expect(way.count()).To(BeZero())
	g.Expect(s.Get(key).Connection(t.Context()).Up).To(BeFalse())
	s.provision(cluster, true)
	s.up(key)
	g.Expect(way.count()).ToNot(BeZero())
}

// A real API server sends Nodes in protobuf. The fields that no check reads are removed before the client decodes them, and the watch
// continues: a bookmark ends the first list, and a change follows.
func TestTrimNodes_RealServer_DeliversTrimmedNodes(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	admin, err := first.Client()
	g.Expect(err).ToNot(HaveOccurred())
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "trimmed", Labels: map[string]string{"trimmed": "yes"}}}
	node.Spec.ProviderID = "test://trimmed"
	g.Expect(admin.Create(t.Context(), node)).To(Succeed())
	node.Status.Images = []corev1.ContainerImage{{Names: []string{"image"}}}
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "ready",
		LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
	}}
	g.Expect(admin.Status().Update(t.Context(), node)).To(Succeed())
	t.Cleanup(func() { g.Expect(admin.Delete(context.Background(), node)).To(Succeed()) })

	// The config of a connection has a timeout for short calls.
	short := rest.CopyConfig(first.Admin)
	short.Timeout = time.Millisecond
	watcher, err := client.NewWithWatch(workload.Trimmed(short), client.Options{})
	g.Expect(err).ToNot(HaveOccurred())
	events, err := watcher.Watch(t.Context(), &corev1.NodeList{}, client.MatchingLabels{"trimmed": "yes"}, &client.ListOptions{Raw: &metav1.ListOptions{
		SendInitialEvents: ptr.To(true), AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}})
	g.Expect(err).ToNot(HaveOccurred())
	t.Cleanup(events.Stop)
	next := func(kind watch.EventType) *corev1.Node {
		var event watch.Event
		g.Eventually(events.ResultChan()).Should(Receive(&event))
		g.Expect(event.Type).To(Equal(kind))
		return event.Object.(*corev1.Node)
	}
	added := next(watch.Added)
	g.Expect(added.Name).To(Equal("trimmed"))
	g.Expect(added.Spec.ProviderID).To(Equal("test://trimmed"))
	g.Expect(added.Labels).To(HaveKeyWithValue("trimmed", "yes"))
	g.Expect(added.Status.Images).To(BeEmpty())
	g.Expect(added.ManagedFields).To(BeEmpty())
	g.Expect(added.Status.Conditions).To(ConsistOf(And(
		HaveField("Reason", "KubeletReady"), HaveField("Message", ""), HaveField("LastHeartbeatTime.Time", BeZero()),
	)))
	g.Expect(next(watch.Bookmark).Annotations).To(HaveKeyWithValue(metav1.InitialEventsAnnotationKey, "true"))
	g.Expect(admin.Patch(t.Context(), node, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"changed":"yes"}}}`)))).To(Succeed())
	g.Expect(next(watch.Modified).Labels).To(HaveKeyWithValue("changed", "yes"))
}
