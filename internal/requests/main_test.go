// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

var (
	admin client.Client
	// cp starts when the first test needs it: those of the pure part and fuzzing do not.
	cp = testenv.Shared(controlplane.Management, testenv.AdminClient(&admin))
)

func TestMain(m *testing.M) { testenv.Main(m) }

// scene is a test's own: a kind of remediator, a namespace, and a manager with the permissions that the test grants.
type scene struct {
	*WithT
	t         *testing.T
	kind      remediator.Kind
	namespace string
	user      controlplane.User
	role      *rbacv1.ClusterRole
	clock     *testingclock.FakeClock
	traffic   *traffic
	requests  *Requests
	stop      context.CancelFunc
	woken     workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// newScene has a kind of this name in its own group. Nothing is installed or granted.
func newScene(t *testing.T, kind string) *scene {
	t.Helper()
	// Most of a test is waiting, and no two share anything.
	t.Parallel()
	return newSceneAlone(t, kind)
}

func newSceneAlone(t *testing.T, kind string) *scene {
	t.Helper()
	s := &scene{WithT: NewWithT(t), t: t, clock: testingclock.NewFakeClock(noon), traffic: &traffic{}}
	s.namespace = cp.Use(t).Namespace(t)
	s.kind = remediator.NewKind(s.namespace+".example.io", "v1", kind)
	s.user = controlplane.User{Name: s.namespace}
	s.woken = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(s.woken.ShutDown)
	s.begin(t.Context(), s.config())
	return s
}

// settled is a scene where everything is in place.
func settled(t *testing.T) *scene {
	t.Helper()
	t.Parallel()
	return settledAlone(t)
}

// settledAlone is that for a test that counts what the whole process does.
func settledAlone(t *testing.T) *scene {
	t.Helper()
	s := newSceneAlone(t, "Reboot")
	s.provide()
	s.usable(s.check("a"), s.reference())
	return s
}

// provide installs the kinds, grants the permissions and makes the template.
func (s *scene) provide() {
	s.t.Helper()
	s.install(s.kind.CRDs()...)
	s.grant(s.kind.Rules()...)
	s.template()
}

func (s *scene) config() *rest.Config {
	s.t.Helper()
	config := s.quietConfig()
	config.Wrap(s.traffic.count)
	return config
}

// quietConfig is how the manager reaches the API server, without counting.
func (s *scene) quietConfig() *rest.Config {
	s.t.Helper()
	return cp.ConfigOf(s.t, s.user)
}

// begin is a start of the manager.
func (s *scene) begin(parent context.Context, config *rest.Config) {
	ctx, cancel := context.WithCancel(parent)
	c, err := client.New(config, client.Options{})
	s.Expect(err).ToNot(HaveOccurred())
	s.requests, err = New(ctx, Options{Client: c, Config: config, Clock: s.clock})
	s.Expect(err).ToNot(HaveOccurred())
	requests := s.requests
	s.stop = func() {
		cancel()
		requests.running.Wait()
	}
	s.t.Cleanup(s.stop)
	for _, kind := range []string{machineCheck.Kind, nodeCheck.Kind} {
		s.Expect(s.requests.Source(kind).Start(ctx, s.woken)).To(Succeed())
	}
}

func (s *scene) install(crds ...*apiextensionsv1.CustomResourceDefinition) {
	s.t.Helper()
	s.Expect(cp.InstallCRDObjects(crds...)).To(Succeed())
}

func (s *scene) uninstall(crds ...*apiextensionsv1.CustomResourceDefinition) {
	s.t.Helper()
	for _, crd := range crds {
		s.Expect(admin.Delete(s.t.Context(), crd)).To(Succeed())
		s.Eventually(func() bool {
			return apierrors.IsNotFound(admin.Get(s.t.Context(), client.ObjectKeyFromObject(crd), crd.DeepCopy()))
		}).Should(BeTrue())
	}
}

// grant gives the manager these permissions in all namespaces, and removes all others.
func (s *scene) grant(rules ...rbacv1.PolicyRule) {
	s.t.Helper()
	if s.role == nil {
		s.role = cp.Grant(s.t, s.user, "", rules...)
		return
	}
	s.role.Rules = rules
	s.Expect(admin.Update(s.t.Context(), s.role)).To(Succeed())
}

// template makes the template, a good one.
func (s *scene) template() {
	s.t.Helper()
	s.Expect(admin.Create(s.t.Context(), s.kind.NewTemplate(s.namespace, "soft", map[string]any{"strategy": "reboot"}))).To(Succeed())
}

func (s *scene) reference() Reference {
	return Reference{APIVersion: s.kind.GroupVersion().String(), Kind: s.kind.Template().Kind, Namespace: s.namespace, Name: "soft"}
}

func (s *scene) check(name string) Check {
	return Check{Kind: machineCheck.Kind, Namespace: s.namespace, Name: name}
}

// resolved is the result for the only template of a check. The clock advances until it is known.
func (s *scene) resolved(c Check, plurals string, reference Reference) Resolved {
	s.t.Helper()
	var one Resolved
	s.Eventually(func() error {
		if one = s.requests.Resolve(s.t.Context(), c, plurals, reference)[0]; one.Err != nil {
			s.clock.Step(failedFor)
		}
		return one.Err
	}).Should(Succeed())
	return one
}

// trouble waits until this is the trouble, while time goes by.
func (s *scene) trouble(c Check, reference Reference, reason, detail string) Resolved {
	s.t.Helper()
	var one Resolved
	s.Eventually(func(g Gomega) {
		one = s.requests.Resolve(s.t.Context(), c, "", reference)[0]
		s.clock.Step(missingFor)
		g.Expect(one.Err).ToNot(HaveOccurred())
		g.Expect(one.Problem).ToNot(BeNil())
		g.Expect([]string{one.Problem.Reason, one.Problem.Detail}).To(Equal([]string{reason, detail}))
		g.Expect(one.Problem.Template).To(Equal(Naming{reference}.Text(reference)))
	}).Should(Succeed())
	return one
}

// notServed waits until it is the trouble that a kind is not served.
func (s *scene) notServed(c Check, kind string) {
	s.t.Helper()
	s.trouble(c, s.reference(), remedyv1.KindNotServedReason,
		kind+" is not served in "+s.kind.Group+"/v1: install the remediator, or correct the reference")
}

// usable waits until requests can be made, and until it is known which there are, while time goes by.
func (s *scene) usable(c Check, reference Reference) {
	s.t.Helper()
	s.Eventually(func(g Gomega) {
		one := s.requests.Resolve(s.t.Context(), c, "", reference)[0]
		_, err := s.requests.OfCheck(s.t.Context(), c, reference.RequestKind())
		s.clock.Step(missingFor)
		g.Expect(one.Usable()).To(BeTrue(), "%v %v", one.Problem, one.Err)
		g.Expect(err).ToNot(HaveOccurred())
	}).Should(Succeed())
}

// draft is a request for a Machine, which is made up.
func (s *scene) draft(c Check, machine Object) *Draft {
	return &Draft{Check: c, Target: OfMachine(machine, Object{"node-" + machine.Name, "uid-of-node-" + machine.UID}), Template: s.reference(), Order: 1, Attempt: 1, Started: noon}
}

func (s *scene) create(c Check, machine Object) *Request {
	s.t.Helper()
	found, created, err := s.requests.Create(s.t.Context(), s.draft(c, machine))
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(created).To(BeTrue())
	return found
}

// there is what really is there; nil if there is nothing.
func (s *scene) there(name string) *unstructured.Unstructured {
	s.t.Helper()
	request := s.kind.NewRequest(s.namespace, name)
	err := admin.Get(s.t.Context(), client.ObjectKeyFromObject(request), request)
	if apierrors.IsNotFound(err) {
		return nil
	}
	s.Expect(err).ToNot(HaveOccurred())
	return request
}

// wokenFor waits until the check a is woken and finds this. It may be woken for something older before that, and finds nothing.
func (s *scene) wokenFor(this func() bool) {
	s.t.Helper()
	s.Eventually(func() bool { return slices.Contains(s.wakes(), "a") && this() }).Should(BeTrue())
}

// wakes are the checks that were woken since it was asked last, by name.
func (s *scene) wakes() []string {
	names := []string{}
	for s.woken.Len() > 0 {
		request, _ := s.woken.Get()
		names = append(names, request.Name)
		s.woken.Forget(request)
		s.woken.Done(request)
	}
	slices.Sort(names)
	return names
}

// traffic counts what the API server is asked.
type traffic struct {
	mu    sync.Mutex
	asked []string
}

func (t *traffic) count(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		t.mu.Lock()
		t.asked = append(t.asked, fmt.Sprintf("%s %s", request.Method, request.URL.Path))
		t.mu.Unlock()
		return next.RoundTrip(request)
	})
}

// since are the questions since it was asked last.
func (t *traffic) since() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	asked := t.asked
	t.asked = nil
	return asked
}

// lists are those among them that read or watch what there is of a kind.
func (t *traffic) lists(plural string) int {
	n := 0
	for _, asked := range t.since() {
		if strings.HasPrefix(asked, "GET ") && strings.HasSuffix(asked, "/"+plural) {
			n++
		}
	}
	return n
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
