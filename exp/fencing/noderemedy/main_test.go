// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package noderemedy

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

var scheme = testenv.NewScheme()

// env is an API server with the permissions of the fencing manager, and all policies for what it writes.
var env = testenv.New(
	testenv.RemedyKinds, fencingKinds, testenv.Namespaces("remedy-system"),
	testenv.Manifests("fencing/rbac/*.yaml"), testenv.Manifests("fencing/policy/*.yaml"), testenv.Manifests("policy/templates.yaml"),
)

var fencingManager = controlplane.ServiceAccount("remedy-system", "remedy-fencing-manager")

func fencingKinds(_ context.Context, e *testenv.Environment) error {
	return e.InstallCRDs(filepath.Join("..", "..", "..", "config", "fencing", "crd", "bases"))
}

func TestMain(m *testing.M) {
	utilruntime.Must(fencingv1.AddToScheme(scheme))
	testenv.Main(m)
}

var errKilled = errors.New("the manager was killed")

// fixture is a namespace with a reconciler. If mortal, the manager is killed after its first write, then after its second one, and so on.
type fixture struct {
	*WithT
	t         *testing.T
	api       client.Client
	r         *Reconciler
	namespace string
	mortal    bool
	// kills is how often it was killed, and writes how often it has written since then.
	kills, writes int
	// forbidden is a kind that the API server rejects.
	forbidden string
	// meanwhile happens once, between the reads and the first write of a reconcile.
	meanwhile func()
}

func newFixture(t *testing.T) *fixture {
	env.Use(t)
	f := &fixture{WithT: NewWithT(t), t: t, namespace: env.Namespace(t)}
	var err error
	f.api, err = client.New(env.Admin, client.Options{Scheme: scheme})
	f.Expect(err).ToNot(HaveOccurred())
	live, err := client.NewWithWatch(env.ConfigOf(t, fencingManager), client.Options{Scheme: scheme})
	f.Expect(err).ToNot(HaveOccurred())
	after := func(err error) error {
		if f.writes++; err == nil && f.mortal && f.writes > f.kills {
			f.kills, f.writes = f.kills+1, 0
			return errKilled
		}
		return err
	}
	manager := interceptor.NewClient(live, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			return after(c.Patch(ctx, o, patch, options...))
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			if content, is := o.(client.Object); is && content.GetObjectKind().GroupVersionKind().Kind == f.forbidden {
				return apierrors.NewForbidden(remedyv1.GroupVersion.WithResource("x").GroupResource(), content.GetName(), errKilled)
			}
			if meanwhile := f.meanwhile; meanwhile != nil {
				f.meanwhile = nil
				meanwhile()
			}
			err := c.Apply(ctx, o, options...)
			if applied := (&client.ApplyOptions{}); len(applied.ApplyOptions(options).DryRun) > 0 {
				return err
			}
			return after(err)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			return after(c.Delete(ctx, o, options...))
		},
	})
	f.r = &Reconciler{Client: manager, Live: live, Clock: clocktesting.NewFakePassiveClock(time.Now()), OwnNodesNamespace: f.namespace}
	return f
}

// remedy returns the sample of the documentation.
func remedy(name, namespace string, change ...func(*fencingv1.NodeRemedy)) *fencingv1.NodeRemedy {
	minutes := func(n time.Duration) remedyv1.Duration {
		return remedyv1.Duration{Duration: metav1.Duration{Duration: n * time.Minute}}
	}
	three := minutes(3)
	pod := func(name string) *runtime.RawExtension {
		return &runtime.RawExtension{Raw: []byte(`{"spec":{"containers":[{"name":"` + name + `","image":"example.com/` + name + `:1"}]}}`)}
	}
	r := &fencingv1.NodeRemedy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	r.Spec = fencingv1.NodeRemedySpec{
		Namespace: namespace, NodeSelector: &remedyv1.Selector{MatchLabels: map[string]remedyv1.LabelValue{"type": "compute"}},
		ThresholdConfigs: []fencingv1.ThresholdConfig{
			{
				NodeConditionType: "Ready", NodeConditionStatus: "False", NodeConditionPeriod: minutes(5),
				Remedies: []fencingv1.RemedyUse{{Name: "repair", Period: &three}, {Name: "terminate", CleanResources: true}},
				Recovery: &fencingv1.RecoveryUse{Name: "recovery"},
			},
			{
				NodeConditionType: "DiskPressure", NodeConditionStatus: "True", NodeConditionPeriod: minutes(10),
				Remedies: []fencingv1.RemedyUse{{Name: "storage-fence", CleanResources: true}}, Recovery: &fencingv1.RecoveryUse{Name: "built-in"},
			},
		},
		RemedyConfigs: []fencingv1.RemedyConfig{
			{Name: "repair", PodTemplate: pod("repair")},
			{Name: "terminate", PodTemplate: pod("terminate"), PowerOff: true},
			{Name: "recovery", PodTemplate: pod("recovery")},
			{Name: "storage-fence", Fence: &fencingv1.NodeFenceSpec{ProfileName: "rack-a", PowerManagement: &[]fencingv1.PowerLevel{}}},
		},
	}
	for _, c := range change {
		c(r)
	}
	return r
}

// create creates a NodeRemedy, which is deleted with all of its objects at the end.
func (f *fixture) create(change ...func(*fencingv1.NodeRemedy)) *fencingv1.NodeRemedy {
	r := remedy(f.namespace, f.namespace, change...)
	f.Expect(f.api.Create(f.t.Context(), r)).To(Succeed())
	f.t.Cleanup(func() {
		for _, o := range []client.Object{r, &remedyv1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: r.Name}}} {
			f.Expect(client.IgnoreNotFound(f.api.Patch(context.Background(), o, client.RawPatch("application/merge-patch+json",
				[]byte(`{"metadata":{"finalizers":null}}`))))).To(Succeed())
			f.Expect(client.IgnoreNotFound(f.api.Delete(context.Background(), o))).To(Succeed())
		}
	})
	return r
}

// reconcile reconciles until a reconcile ends without a kill, and reads the NodeRemedy.
func (f *fixture) reconcile(r *fencingv1.NodeRemedy) ctrl.Result {
	for range 40 {
		result, err := f.r.Reconcile(f.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(r)})
		if errors.Is(err, errKilled) {
			continue
		}
		f.Expect(err).ToNot(HaveOccurred())
		err = f.api.Get(f.t.Context(), client.ObjectKeyFromObject(r), r)
		f.Expect(client.IgnoreNotFound(err)).To(Succeed())
		return result
	}
	f.t.Fatal("the manager was killed too often")
	return ctrl.Result{}
}

func (f *fixture) edit(r *fencingv1.NodeRemedy, change func(*fencingv1.NodeRemedy)) {
	f.Expect(f.api.Get(f.t.Context(), client.ObjectKeyFromObject(r), r)).To(Succeed())
	change(r)
	f.Expect(f.api.Update(f.t.Context(), r)).To(Succeed())
}

// valid is the condition Valid: its status, its reason and its message.
func valid(r *fencingv1.NodeRemedy) string { return condition(r, fencingv1.NodeRemedyValidCondition) }

func condition(r *fencingv1.NodeRemedy, kind string) string {
	c := meta.FindStatusCondition(r.Status.Conditions, kind)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason + ": " + c.Message
}

// owned are the objects that exist with the label of a NodeRemedy.
func (f *fixture) owned(r *fencingv1.NodeRemedy) (objects []client.Object) {
	for _, list := range []client.ObjectList{
		&remedyv1.NodeHealthCheckList{}, &fencingv1.NodeFenceTemplateList{}, &fencingv1.FenceProfileList{},
	} {
		f.Expect(f.api.List(f.t.Context(), list, client.MatchingLabels{fencingv1.NodeRemedyLabel: r.Name})).To(Succeed())
		items, err := meta.ExtractList(list)
		f.Expect(err).ToNot(HaveOccurred())
		for _, item := range items {
			objects = append(objects, item.(client.Object))
		}
	}
	return objects
}

// generated are their names.
func (f *fixture) generated(r *fencingv1.NodeRemedy) (names []string) {
	for _, object := range f.owned(r) {
		names = append(names, nameOf(object))
	}
	return names
}
