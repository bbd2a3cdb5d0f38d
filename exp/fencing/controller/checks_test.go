// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/profile"
)

// What is reported about a Node whose devices cannot be asked, or answer what cannot be true.
func TestChecks_EachObstacle_IsReported(t *testing.T) {
	ofProd := func(p *fencingv1.FenceProfile) { p.Spec.ClusterName = "prod" }
	prod := func(paused bool) func(*drill) {
		return func(d *drill) {
			d.Expect(d.admin.Create(t.Context(), &clusterv1.Cluster{
				ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: "prod"},
				Spec:       clusterv1.ClusterSpec{InfrastructureRef: infrastructure, Paused: ptr.To(paused)},
			})).To(Succeed())
		}
	}
	for name, c := range map[string]struct {
		profile         func(*fencingv1.FenceProfile)
		set             func(*drill)
		reason, message string
		succeeded       bool
	}{
		"all is well":     {reason: "DevicesAnswered", message: "All devices answered: ipmi ON", succeeded: true},
		"wrong password":  {set: func(d *drill) { d.answer = failing }, reason: "DeviceFailed", message: "ipmi did not answer"},
		"OFF while Ready": {set: func(d *drill) { d.off = true }, reason: "WrongMachine", message: "Correct its row in FenceProfile rack"},
		"no Node": {set: func(d *drill) {
			d.Expect(d.admin.Delete(t.Context(), d.node)).To(Succeed())
		}, reason: "NodeNotFound", message: "Node worker-1 does not exist"},
		"paused Cluster": {ofProd, prod(true), "Paused", "The NodeFence or its Cluster is paused", false},
		"no Cluster":     {ofProd, nil, "TargetDeleted", "The Machine of Node worker-1 is being deleted, or its Cluster does not exist", false},
		"cluster unreadable": {ofProd, func(d *drill) {
			prod(false)(d)
			d.r.Nodes = func(context.Context, client.ObjectKey) (client.Client, error) {
				return nil, errors.New("no connection")
			}
		}, "TargetUnreadable", "Node worker-1 cannot be read", false},
		"other provider ID": {
			func(p *fencingv1.FenceProfile) { p.Spec.Nodes[0].ProviderID = "metal://2" }, nil, "NodeReplaced", `has provider ID "metal://2"`, false,
		},
		"kernel dump only": {func(p *fencingv1.FenceProfile) {
			p.Spec.Methods[0].Agent = profile.KernelDumpAgent
		}, nil, "DevicesAnswered", "No device was asked", true},
		"run only": {func(p *fencingv1.FenceProfile) {
			p.Spec.Methods[0] = fencingv1.FenceMethod{Name: "ipmi", PodTemplate: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "a", Image: "b"}},
			}}}
			p.Spec.Run, p.Spec.PowerManagement = []fencingv1.MethodName{"ipmi"}, nil
		}, nil, "ProfileNotResolved", "mode Check does not use run", false},
		"other namespace": {set: func(d *drill) { d.r.OwnNodesNamespace = "other" }, reason: "NodeNotFound", message: "only in namespace other"},
	} {
		t.Run(name, func(t *testing.T) {
			change := c.profile
			if change == nil {
				change = func(*fencingv1.FenceProfile) {}
			}
			d := newDrill(t, change)
			if c.set != nil {
				c.set(d)
			}
			wake := d.round()
			nodes := d.rack().Status.Nodes
			d.Expect(nodes).To(HaveLen(1))
			d.Expect([]any{nodes[0].Name, nodes[0].Succeeded, nodes[0].Reason}).To(HaveExactElements("worker-1", c.succeeded, c.reason))
			d.Expect(nodes[0].Message).To(ContainSubstring(c.message))
			d.Expect(len(nodes[0].Unreachable) > 0).To(Equal(c.reason == "DeviceFailed"))
			d.Expect(wake).To(BeNumerically("~", time.Hour, 2*time.Minute))
			d.Expect(strings.ReplaceAll(strings.Join(d.played, ""), "ipmi status", "")).To(BeEmpty())
		})
	}
}

func failing(_, _ string) (int32, string) { return 1, "" }

// threeRows are rows in another order than that of their names.
func threeRows(p *fencingv1.FenceProfile) {
	for _, name := range []string{"worker-3", "worker-2"} {
		row := p.Spec.Nodes[0]
		row.Name = name
		p.Spec.Nodes = append(p.Spec.Nodes, row)
	}
}

func TestChecks_Rows_AreAskedInOrderOncePerInterval(t *testing.T) {
	d := newDrill(t, threeRows)
	d.round()
	d.Expect(d.asked).To(Equal([]string{"worker-1", "worker-3", "worker-2"}))
	d.Expect(strings.Join(d.played, ", ")).To(Equal("ipmi status, ipmi status, ipmi status"))
	// A manager that starts again does not begin again.
	d.start()
	d.round()
	d.Expect(d.asked).To(HaveLen(3))
	d.reachable("1")
	d.later(time.Hour + time.Minute)
	d.round()
	d.Expect(d.asked[3:]).To(Equal([]string{"worker-1", "worker-3", "worker-2"}))
	d.Expect(d.drained()).To(BeEmpty())
}

// What was read before the last write is no reason to write or to create again.
func TestChecks_TwoManagers_DoNotAskTwice(t *testing.T) {
	d := newDrill(t)
	d.step()
	first := d.check()
	d.start()
	d.step()
	d.Expect(d.check().UID).To(Equal(first.UID))
	d.Expect(d.asked).To(HaveLen(1))
}

func TestChecks_Transitions_AreEventsAndMetrics(t *testing.T) {
	d := newDrill(t)
	again := func() string {
		d.later(2 * time.Hour)
		d.round()
		return d.drained()
	}
	d.Expect(again()).To(BeEmpty())
	d.reachable("1")
	d.answer = failing
	d.Expect(again()).To(ContainSubstring("DeviceUnreachable"))
	d.Expect(again()).ToNot(ContainSubstring("DeviceUnreachable"))
	d.reachable("0")
	d.start()
	d.round()
	d.reachable("0")
	d.answer = nil
	d.Expect(again()).To(ContainSubstring("DeviceReachable"))
	d.reachable("1")
	d.off = true
	d.Expect(again()).To(ContainSubstring("WrongMachine"))
	d.Expect(again()).ToNot(ContainSubstring("WrongMachine"))
	d.change(func(spec *fencingv1.FenceProfileSpec) { spec.CheckInterval.Duration.Duration = 0 })
	d.round()
	d.Expect(d.series()).To(BeEmpty())
	d.Expect(d.rack().Status.Nodes).To(BeEmpty())
}

func TestChecks_ProfileDeleted_HasNoSeries(t *testing.T) {
	d := newDrill(t)
	d.round()
	d.Expect(d.series()).To(HaveLen(1))
	d.Expect(d.admin.Delete(t.Context(), d.rack())).To(Succeed())
	d.step()
	d.Expect(d.series()).To(BeEmpty())
}

func TestChecks_RowRemoved_LosesItsStatus(t *testing.T) {
	d := newDrill(t, threeRows)
	d.round()
	d.change(func(spec *fencingv1.FenceProfileSpec) { spec.Nodes = spec.Nodes[:2] })
	d.step()
	d.Expect(d.rack().Status.Nodes).To(HaveExactElements(HaveField("Name", "worker-1"), HaveField("Name", "worker-3")))
}

// A Node is not asked while it is fenced, and a check ends when a fence of its Node begins.
func TestChecks_FencedNode_IsSkipped(t *testing.T) {
	d := newDrill(t, threeRows)
	d.step()
	d.Expect(d.asked).To(Equal([]string{"worker-1"}))
	d.ready("worker-1", corev1.ConditionUnknown, "boot-1")
	f := d.fence("real")
	d.reconcile(f)
	d.Expect(d.get(f).Status.Node).ToNot(BeNil())
	d.step()
	d.Expect(d.check()).To(BeNil())
	d.Expect(d.round()).To(Equal(time.Minute))
	d.Expect(d.asked).To(Equal([]string{"worker-1", "worker-3", "worker-2"}))
	d.Expect(d.rack().Status.Nodes).To(HaveLen(2))
	d.run(f, final)
	d.round()
	d.Expect(d.asked[3:]).To(Equal([]string{"worker-1"}))
}

// One Node stands for those that nodeSelector selects. The rows do not wait for one that can be asked.
func TestChecks_NodeSelector_AsksFirstReadyNode(t *testing.T) {
	d := newDrill(t, func(p *fencingv1.FenceProfile) {
		p.Spec.NodeSelector = &remedyv1.Selector{}
		p.Spec.Methods[0].Parameters = fencingv1.Parameters{"ip": "127.0.0.1"}
	})
	d.ready("worker-2", corev1.ConditionUnknown, "boot")
	d.ready("worker-3", corev1.ConditionUnknown, "boot")
	d.Expect(d.round()).To(Equal(time.Minute))
	d.Expect(d.asked).To(Equal([]string{"worker-1"}))
	d.later(2 * time.Hour)
	d.ready("worker-3", corev1.ConditionTrue, "boot")
	d.round()
	d.Expect(d.asked[1:]).To(ConsistOf("worker-1", "worker-3"))
	d.Expect(d.rack().Status.Nodes).To(ConsistOf(
		And(HaveField("Name", "worker-1"), HaveField("Selected", false)), And(HaveField("Name", "worker-3"), HaveField("Selected", true))))
	d.later(2 * time.Hour)
	d.ready("worker-2", corev1.ConditionTrue, "boot")
	d.round()
	d.Expect(d.rack().Status.Nodes).To(ConsistOf(HaveField("Name", "worker-1"), HaveField("Name", "worker-2")))
	// The Nodes of the cluster of the manager are not for profiles of tenants.
	d.checks.OwnNodesNamespace = "other"
	d.later(2 * time.Hour)
	d.round()
	d.Expect(d.asked[len(d.asked)-1]).To(Equal("worker-1"))
}

func TestChecks_NotAllowed_BeginNone(t *testing.T) {
	for name, set := range map[string]func(*drill){
		"observing": func(d *drill) { d.checks.Observe = true },
		"filtered":  func(d *drill) { d.checks.WatchFilter = "other" },
		"paused": func(d *drill) {
			p := d.rack()
			p.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
			d.Expect(d.admin.Update(t.Context(), p)).To(Succeed())
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrill(t)
			set(d)
			d.Expect(d.step()).To(BeZero())
			d.Expect(d.check()).To(BeNil())
		})
	}
}

func TestChecks_ForeignNodeFence_IsNotUsed(t *testing.T) {
	d := newDrill(t)
	d.fence("rack-device-check", func(f *fencingv1.NodeFence) { f.Spec.Mode = fencingv1.CheckDevices })
	_, err := d.checks.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: d.namespace, Name: "rack"}})
	d.Expect(err).To(MatchError(ContainSubstring("does not belong to FenceProfile rack: delete it")))
	d.Expect(d.check()).ToNot(BeNil())
}

func TestChecks_ForgedStatus_IsDenied(t *testing.T) {
	d := newDrill(t)
	p := d.rack()
	p.Status.Nodes = []fencingv1.CheckedNode{{Name: "worker-1", CheckedAt: metav1.Now(), Succeeded: true}}
	err := d.admin.Status().Update(t.Context(), p)
	d.Expect(apierrors.IsForbidden(err)).To(BeTrue())
	d.Expect(err).To(MatchError(ContainSubstring("writes the status of a FenceProfile")))
}

// Admission does not read a podTemplate. A profile that cannot be decoded must not keep the manager from starting, nor from other checks.
func TestChecks_MalformedProfile_OthersAreChecked(t *testing.T) {
	d := newDrill(t)
	malformed := &unstructured.Unstructured{}
	malformed.SetGroupVersionKind(fencingv1.GroupVersion.WithKind("FenceProfile"))
	malformed.SetNamespace(d.namespace)
	malformed.SetName("malformed")
	malformed.Object["spec"] = map[string]any{
		"checkInterval": "1h", "powerManagement": []any{map[string]any{"methods": []any{"a"}}},
		"methods": []any{map[string]any{"name": "a", "podTemplate": map[string]any{"spec": map[string]any{
			"hostname": int64(5), "containers": []any{map[string]any{"name": "a", "image": "b"}},
		}}}},
	}
	d.Expect(d.admin.Create(t.Context(), malformed)).To(Succeed())
	mgr, err := ctrl.NewManager(env.ConfigOf(t, fencingManager), ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	d.Expect(err).ToNot(HaveOccurred())
	d.checks.Client, d.checks.Live = mgr.GetClient(), mgr.GetAPIReader()
	d.Expect(d.checks.SetupWithManager(mgr)).To(Succeed())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	d.Eventually(d.check).WithTimeout(time.Minute).ShouldNot(BeNil())
	cancel()
	d.Expect(<-done).To(Succeed())
}
