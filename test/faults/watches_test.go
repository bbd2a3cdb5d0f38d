// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
)

// informed is a process with a real cache of the ConfigMaps of one namespace, one of which is there.
type informed struct {
	*faults.Process
	cache  cache.Cache
	object *corev1.ConfigMap
	// lists counts how often everything was listed, in either way.
	lists atomic.Int32
	// untyped: it is read as JSON; otherwise as protobuf.
	untyped bool
}

func newInformed(t *testing.T, untyped bool) *informed {
	t.Helper()
	g := NewWithT(t)
	i := &informed{Process: faults.Start(t.Context()), object: configMap(namespaceFor(t), "a"), untyped: untyped}
	g.Expect(admin.Create(t.Context(), i.object)).To(Succeed())
	config := rest.CopyConfig(cp.Admin)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			query := r.URL.Query()
			if r.Method == http.MethodGet && (!query.Has("watch") || query.Get("sendInitialEvents") == "true") {
				i.lists.Add(1)
			}
			return next.RoundTrip(r)
		})
	})
	var err error
	i.cache, err = cache.New(i.Config(config), cache.Options{DefaultNamespaces: map[string]cache.Config{i.object.Namespace: {}}})
	g.Expect(err).ToNot(HaveOccurred())
	stopped := make(chan error, 1)
	go func() { stopped <- i.cache.Start(i.Context()) }()
	t.Cleanup(func() {
		i.Crash()
		NewWithT(t).Expect(<-stopped).To(Succeed())
	})
	_, err = i.cache.GetInformer(t.Context(), i.empty())
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(i.cache.WaitForCacheSync(t.Context())).To(BeTrue())
	g.Expect(i.cached(t)).To(Equal("a"))
	return i
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (i *informed) empty() client.Object {
	if !i.untyped {
		return &corev1.ConfigMap{}
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	return u
}

// cached is what the cache has.
func (i *informed) cached(t *testing.T) string {
	t.Helper()
	return i.read(t, i.cache)
}

func (i *informed) read(t *testing.T, from client.Reader) string {
	t.Helper()
	object := i.empty()
	NewWithT(t).Expect(from.Get(t.Context(), client.ObjectKeyFromObject(i.object), object)).To(Succeed())
	if u, is := object.(*unstructured.Unstructured); is {
		says, _, err := unstructured.NestedString(u.Object, "data", "text")
		NewWithT(t).Expect(err).ToNot(HaveOccurred())
		return says
	}
	return object.(*corev1.ConfigMap).Data["text"]
}

func (i *informed) change(t *testing.T, says string) {
	t.Helper()
	i.object.Data["text"] = says
	NewWithT(t).Expect(admin.Update(t.Context(), i.object)).To(Succeed())
}

// Events come in protobuf and in JSON.
func TestWatches_HoldAndLag_CacheIsStale(t *testing.T) {
	for name, untyped := range map[string]bool{"protobuf": false, "JSON": true} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			i := newInformed(t, untyped)
			i.Watches().Hold("configmaps")
			i.change(t, "b")
			i.change(t, "c")
			g.Eventually(func() int { return i.Watches().BlockedBack("configmaps") }).Should(Equal(2))
			g.Expect(i.cached(t)).To(Equal("a"))
			g.Expect(i.read(t, clientOf(t, i.Config(cp.Admin)))).To(Equal("c"), "only the cache is stale")
			i.Watches().Lag(1, "configmaps")
			g.Eventually(func() string { return i.cached(t) }).Should(Equal("b"))
			g.Eventually(func() int { return i.Watches().BlockedBack("configmaps") }).Should(Equal(1))
			i.Watches().Release()
			g.Eventually(func() string { return i.cached(t) }).Should(Equal("c"))
		})
	}
}

// What was held back is lost with its watch. After a cut, the cache continues from its last event, and after an expiry it lists again.
func TestWatches_CutAndExpire_CacheWatchesAgain(t *testing.T) {
	g := NewWithT(t)
	i := newInformed(t, false)
	end := func(says string, watches func(...string) int) {
		i.Watches().Hold()
		i.change(t, says)
		g.Eventually(func() int { return i.Watches().BlockedBack() }).Should(Equal(1))
		g.Expect(watches("secrets")).To(BeZero())
		g.Expect(watches("configmaps")).To(Equal(1))
		i.Watches().Release()
		g.Eventually(func() string { return i.cached(t) }).Should(Equal(says))
	}
	before := i.lists.Load()
	i.change(t, "seen")
	g.Eventually(func() string { return i.cached(t) }).Should(Equal("seen"))
	end("b", i.Watches().Cut)
	g.Expect(i.lists.Load()).To(Equal(before))
	end("c", i.Watches().Expire)
	g.Expect(i.lists.Load()).To(BeNumerically(">", before))
}

// A dropped event never comes, also not after the watch has continued. The next event of the object, or a list, heals the cache.
func TestWatches_Drop_CacheIsStaleUntilNextEvent(t *testing.T) {
	g := NewWithT(t)
	i := newInformed(t, false)
	i.Watches().Drop("configmaps")
	i.change(t, "b")
	g.Eventually(func() int { return i.Watches().Dropped("configmaps") }).Should(Equal(1))
	i.Watches().Release()
	g.Expect(i.cached(t)).To(Equal("a"))
	i.change(t, "c")
	g.Eventually(func() string { return i.cached(t) }).Should(Equal("c"))
	i.Watches().Drop("configmaps")
	i.change(t, "d")
	g.Eventually(func() int { return i.Watches().Dropped("configmaps") }).Should(Equal(2))
	i.Watches().Release()
	i.Watches().Expire()
	g.Eventually(func() string { return i.cached(t) }).Should(Equal("d"))
}
