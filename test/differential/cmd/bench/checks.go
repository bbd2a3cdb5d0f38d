// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// templateName is the template of checks that do not leave remediation to the owner.
const templateName = "reboot"

// policy is the spec of a check of either kind.
type policy struct {
	timeout  time.Duration
	template bool
	// maxUnhealthy has a default of 100 %. Only Remedy has the other two.
	maxUnhealthy string
	maxInFlight  int
	storm        time.Duration
}

// newCheck returns a check of the kind of a system.
func (f *fleet) newCheck(s *system, cluster, name string, p *policy) client.Object {
	kind := remediator.Metal3
	if !s.isRemedy {
		check := &clusterv1.MachineHealthCheck{ObjectMeta: f.meta(name)}
		check.Spec.ClusterName, check.Spec.Selector.MatchLabels = cluster, map[string]string{checkLabel: name}
		check.Spec.Checks.UnhealthyNodeConditions = []clusterv1.UnhealthyNodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionUnknown, TimeoutSeconds: ptr.To(int32(p.timeout.Seconds())),
		}}
		if p.maxUnhealthy != "" {
			check.Spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo = ptr.To(intstr.Parse(p.maxUnhealthy))
		}
		if p.template {
			check.Spec.Remediation.TemplateRef = clusterv1.MachineHealthCheckRemediationTemplateReference{
				APIVersion: kind.GroupVersion().String(), Kind: kind.Template().Kind, Name: templateName,
			}
		}
		return check
	}
	check := &remedyv1.MachineHealthCheck{ObjectMeta: f.meta(name)}
	check.Spec.ClusterName = cluster
	check.Spec.Selector.MatchLabels = map[string]remedyv1.LabelValue{checkLabel: remedyv1.LabelValue(name)}
	check.Spec.UnhealthyConditions = []remedyv1.UnhealthyNodeCondition{{
		Type: "Ready", Status: "Unknown", Timeout: duration(p.timeout),
	}}
	if p.maxUnhealthy != "" {
		check.Spec.MaxUnhealthy = ptr.To(intstr.Parse(p.maxUnhealthy))
	}
	if p.maxInFlight > 0 {
		check.Spec.MaxInFlight = ptr.To(intstr.FromInt(p.maxInFlight))
	}
	if p.storm > 0 {
		check.Spec.StormCooldownDuration = ptr.To(duration(p.storm))
	}
	if p.template {
		check.Spec.RemediationTemplate = &remedyv1.MachineTemplateReference{TemplateKind: remedyv1.TemplateKind{
			APIVersion: kind.GroupVersion().String(), Kind: kind.Template().Kind, Name: templateName,
		}}
	}
	return check
}

func mergePatch(content string) client.Patch {
	return client.RawPatch(types.MergePatchType, []byte(content))
}

func duration(d time.Duration) remedyv1.Duration {
	return remedyv1.Duration{Duration: metav1.Duration{Duration: d}}
}

// checked is a fleet with its checks and the process that reconciles them.
type checked struct {
	*fleet
	*process
	checks []client.Object
}

// prepare is check of the fleet of a shape.
func (b *bench) prepare(ctx context.Context, s *system, of shape, p policy) *checked {
	return must(b.fleet(ctx, of).check(ctx, s, p))
}

// untilQuiet waits until the system has patched nothing for two seconds: the conditions of many Machines follow the first status. A
// leader updates its Lease all the time.
func (c *checked) untilQuiet(ctx context.Context) error {
	_, err := c.lastPatch(ctx)
	return err
}

// lastPatch waits until the system has patched nothing for two seconds, and returns when it saw the last one: at most half a
// second late.
func (c *checked) lastPatch(ctx context.Context) (at time.Time, err error) {
	const quiet = 2 * time.Second
	last := -1.0
	err = wait.PollUntilContextTimeout(ctx, quiet/4, settleTimeout, true, func(ctx context.Context) (bool, error) {
		used, err := c.usage(ctx)
		if err != nil {
			return false, err
		}
		if patches := used.sum("rest_client_requests_total", "method", http.MethodPatch); patches != last {
			last, at = patches, time.Now()
		}
		return time.Since(at) >= quiet, nil
	})
	return at, err
}

// check starts a system, creates a check for each set of Machines, and waits until all Machines count as healthy, and what follows from the
// first reconcile is over. The caller ends it.
func (f *fleet) check(ctx context.Context, s *system, p policy, args ...string) (*checked, error) {
	c, err := f.checkUnsettled(ctx, s, p, args...)
	if err != nil {
		return nil, err
	}
	err = c.untilHealthy(ctx)
	if err == nil {
		err = c.untilQuiet(ctx)
	}
	if err != nil {
		c.finish(ctx)
		return nil, err
	}
	c.untilTrusted(ctx)
	return c, nil
}

// untilTrusted waits until Remedy believes Ready=Unknown, 50 seconds after its start.
func (p *process) untilTrusted(ctx context.Context) {
	if p.isRemedy {
		sleep(ctx, max(0, workload.ReconnectGracePeriod+time.Second-time.Since(p.began)))
	}
}

// checkUnsettled is check without waiting: the checks exist before the system starts.
func (f *fleet) checkUnsettled(ctx context.Context, s *system, p policy, args ...string) (*checked, error) {
	c := &checked{fleet: f}
	err := c.createChecks(ctx, s, &p)
	if err == nil {
		c.process, err = f.run(ctx, s, args...)
	}
	if err != nil {
		c.finish(ctx)
		return nil, err
	}
	return c, nil
}

func (c *checked) createChecks(ctx context.Context, s *system, p *policy) error {
	if p.template {
		template := remediator.Metal3.NewTemplate(c.namespace, templateName, map[string]any{"strategy": "Reboot"})
		if err := client.IgnoreAlreadyExists(c.api.Create(ctx, template)); err != nil {
			return err
		}
	}
	for cluster := range c.clusters {
		for k := range c.shape.checks {
			check := c.newCheck(s, fmt.Sprintf("cluster-%d", cluster), fmt.Sprintf("check-%d-%d", cluster, k), p)
			if err := c.api.Create(ctx, check); err != nil {
				return err
			}
			c.checks = append(c.checks, check)
		}
	}
	return nil
}

// settleTimeout is for the first reconcile of a fleet with 10,000 Machines on a busy machine.
const settleTimeout = 5 * time.Minute

// untilHealthy waits until all Machines of all checks count as healthy.
func (c *checked) untilHealthy(ctx context.Context) error {
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, settleTimeout, true, func(ctx context.Context) (bool, error) {
		for _, check := range c.checks {
			if err := c.api.Get(ctx, client.ObjectKeyFromObject(check), check); err != nil {
				return false, err
			}
			var healthy *int32
			switch check := check.(type) {
			case *clusterv1.MachineHealthCheck:
				healthy = check.Status.CurrentHealthy
			case *remedyv1.MachineHealthCheck:
				healthy = check.Status.CurrentHealthy
			}
			if int(ptr.Deref(healthy, 0)) != c.targets {
				return false, nil
			}
		}
		return true, nil
	})
}

// leave ends the process and deletes the checks.
func (c *checked) leave(ctx context.Context) {
	c.end()
	ctx = context.WithoutCancel(ctx)
	for _, check := range c.checks {
		_ = c.api.Patch(ctx, check, mergePatch(`{"metadata":{"finalizers":null}}`))
		_ = c.api.Delete(ctx, check)
	}
}

// finish ends the process, deletes the checks, and makes all Machines healthy again.
func (c *checked) finish(ctx context.Context) {
	c.leave(ctx)
	ctx = context.WithoutCancel(ctx)
	requests := requestList()
	if c.api.List(ctx, requests, client.InNamespace(c.namespace)) == nil {
		for i := range requests.Items {
			_ = c.api.Delete(ctx, &requests.Items[i])
		}
	}
	_ = each(c.members, func(m member) error { return c.reset(ctx, m) })
}

// reset removes what a system has written to a Machine whose Node has failed, and makes the Node healthy. On the others it leaves the
// condition of a healthy Machine: both systems write the same one, so the next one begins as after a restart.
func (f *fleet) reset(ctx context.Context, m member) error {
	if _, touched := f.touched.LoadAndDelete(m.node); !touched {
		return nil
	}
	machine := &clusterv1.Machine{}
	if err := f.api.Get(ctx, client.ObjectKey{Namespace: f.namespace, Name: m.machine}, machine); err != nil {
		return err
	}
	if len(machine.Annotations) > 0 {
		if err := f.api.Patch(ctx, machine, mergePatch(`{"metadata":{"annotations":null}}`)); err != nil {
			return err
		}
	}
	if len(machine.Status.Conditions) > 0 || machine.Status.Deprecated != nil {
		if err := f.api.Status().Patch(ctx, machine, mergePatch(`{"status":{"conditions":null,"deprecated":null}}`)); err != nil {
			return err
		}
	}
	return f.patchConditions(ctx, m.node, conditionsOf(corev1.ConditionTrue, time.Now().Add(-time.Hour))[:1])
}

// setReady sets the condition Ready of a Node, and when it changed last.
func (f *fleet) setReady(ctx context.Context, m member, status corev1.ConditionStatus, since time.Time) error {
	f.touched.Store(m.node, true)
	return f.patchConditions(ctx, m.node, conditionsOf(status, since)[:1])
}

// heartbeat changes only the times of heartbeats, as a kubelet does.
func (f *fleet) heartbeat(ctx context.Context, node string) error {
	return f.patchConditions(ctx, node, nil)
}

func (f *fleet) patchConditions(ctx context.Context, node string, conditions []corev1.NodeCondition) error {
	now := metav1.Now()
	kinds := []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure}
	patch := make([]map[string]any, 0, len(kinds))
	for _, kind := range kinds {
		patch = append(patch, map[string]any{"type": kind, "lastHeartbeatTime": now})
	}
	for i := range conditions {
		patch[0]["status"], patch[0]["lastTransitionTime"] = conditions[i].Status, conditions[i].LastTransitionTime
	}
	content, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": patch}})
	if err != nil {
		return err
	}
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	return f.api.Status().Patch(ctx, object, client.RawPatch(types.StrategicMergePatchType, content))
}
