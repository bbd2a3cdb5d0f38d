// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package differential_test

import (
	"context"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// inTreeCheck is an in-tree check with its reconciler, which reconciles when the test calls it. It reads live: the test simulates a stale
// cache.
type inTreeCheck struct {
	*environment
	check      *clusterv1.MachineHealthCheck
	reconciler *inTree
	// unread is what reading a request answers; nil if it works.
	unread error
}

// inTreeCheck creates a check of all Machines with a timeout of five minutes.
func (a *environment) inTreeCheck(name string, changes ...func(*clusterv1.MachineHealthCheckSpec)) *inTreeCheck {
	a.t.Helper()
	check := a.coreCheck(name, changes...)
	a.create(check)
	c := &inTreeCheck{environment: a, check: check}
	api, err := client.NewWithWatch(server.Admin, client.Options{Scheme: scheme})
	a.Expect(err).ToNot(HaveOccurred())
	c.reconciler = newInTreeWith(interceptor.NewClient(api, interceptor.Funcs{Get: c.get}),
		clustercache.NewFakeClusterCache(a.api, client.ObjectKeyFromObject(a.cluster), nodeWatch))
	// The first reconcile only reports that it is not paused.
	c.looks()
	return c
}

// coreCheck is a check of Cluster API, which is not created yet.
func (a *environment) coreCheck(name string, changes ...func(*clusterv1.MachineHealthCheckSpec)) *clusterv1.MachineHealthCheck {
	check := &clusterv1.MachineHealthCheck{ObjectMeta: a.meta(name)}
	check.Spec.ClusterName, check.Spec.Selector.MatchLabels = clusterName, map[string]string{poolLabel: "a"}
	check.Spec.Checks.UnhealthyNodeConditions = []clusterv1.UnhealthyNodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, TimeoutSeconds: ptr.To[int32](300)}}
	for _, change := range changes {
		change(&check.Spec)
	}
	return check
}

func (c *inTreeCheck) get(ctx context.Context, api client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if request, is := o.(*unstructured.Unstructured); is && request.GetKind() == remediator.Metal3.Kind && c.unread != nil {
		return c.unread
	}
	return api.Get(ctx, key, o, options...)
}

// pass is one pass of the in-tree reconciler.
func (c *inTreeCheck) pass() (ctrl.Result, error) {
	ctx := ctrl.LoggerInto(c.ctx, logr.Discard())
	return c.reconciler.reconciler.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(c.check)})
}

// looks is a pass that has to go well.
func (c *inTreeCheck) looks() ctrl.Result {
	c.t.Helper()
	result, err := c.pass()
	c.Expect(err).ToNot(HaveOccurred())
	return result
}

// allows is whether the check reports now that remediation is allowed; empty if it reports nothing.
func (c *inTreeCheck) allows() string {
	c.t.Helper()
	c.Expect(c.api.Get(c.ctx, client.ObjectKeyFromObject(c.check), c.check)).To(Succeed())
	if said := conditions.Get(c.check, clusterv1.MachineHealthCheckRemediationAllowedCondition); said != nil {
		return string(said.Status) + " " + said.Reason
	}
	return ""
}

// templateName is the one that both remediate by, where they do so.
const templateName = "soft"

// byTheirTemplate lets a check remediate by the template.
func byTheirTemplate(spec *clusterv1.MachineHealthCheckSpec) {
	kind := remediator.Metal3
	spec.Remediation.TemplateRef = clusterv1.MachineHealthCheckRemediationTemplateReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Template().Kind, Name: templateName}
}

func (a *environment) template() {
	a.t.Helper()
	a.create(remediator.Metal3.NewTemplate(a.namespace, templateName, map[string]any{"strategy": "Reboot"}))
}

// requests are the names of all requests there are.
func (a *environment) requests() []string {
	a.t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(remediator.Metal3.GroupVersion().WithKind(remediator.Metal3.Kind + "List"))
	a.Expect(a.api.List(a.ctx, list, client.InNamespace(a.namespace))).To(Succeed())
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		names = append(names, list.Items[i].GetName())
	}
	return names
}
