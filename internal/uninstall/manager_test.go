// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	cliflag "k8s.io/component-base/cli/flag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/settings"
)

func TestStopManagers_MissingPermission_ChangesNothing(t *testing.T) {
	p := newFixture(t)
	p.manager()
	core := p.inTreeCheck("core")
	for name, test := range map[string]struct {
		rule rbacv1.PolicyRule
		says string
	}{
		"missing": {
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}},
			"failed to list the Deployments of managers",
		},
		"reader": {anything("get", "list"), "failed to scale Deployment " + p.namespace + "/manager to 0"},
	} {
		before := p.get(core)
		uninstaller, said := p.user(name, test.rule)
		p.Expect(uninstaller.All(p.ctx)).To(MatchError(And(HavePrefix("nothing was changed"), ContainSubstring(test.says),
			ContainSubstring("forbidden"))))
		p.Expect(said.String()).To(BeEmpty())
		p.Expect(p.get(core)).To(Equal(before))
	}
}

// The Pod of an eviction or of a Node shutdown stays until it is deleted. A Pod that does not terminate may still write.
func TestStopManagers_RunningPod_ChangesNothing(t *testing.T) {
	p := newFixture(t)
	p.manager()
	core := p.inTreeCheck("core")
	for name, phase := range map[string]corev1.PodPhase{"evicted": corev1.PodFailed, "done": corev1.PodSucceeded} {
		pod := p.pod(name)
		pod.Status.Phase = phase
		p.Expect(p.api.Status().Update(p.ctx, pod)).To(Succeed())
	}
	running, before := p.pod("manager-1"), p.get(core)
	uninstaller, _ := p.uninstaller(false)
	uninstaller.Timeouts = expiringTimeouts
	p.Expect(uninstaller.All(p.ctx)).To(MatchError(ContainSubstring("Deployment %s/manager still has 1 Pod:", p.namespace)),
		"terminated Pods do not count")
	p.Expect(p.get(core)).To(Equal(before))

	p.Expect(p.api.Delete(p.ctx, running, client.GracePeriodSeconds(0))).To(Succeed())
	uninstaller, said := p.uninstaller(false)
	p.Expect(uninstaller.All(p.ctx)).To(Succeed(), said.String())
	p.Expect(p.get(core).GetFinalizers()).To(Equal([]string{"example.com/other"}))
}

// A GitOps tool can restore the replicas. The manager may then add its traces again.
func TestAll_ManagerScaledUpAgain_IsReported(t *testing.T) {
	p := newFixture(t)
	p.manager()
	p.inTreeCheck("core")
	uninstaller, said := p.uninstaller(false)
	uninstaller.Out = writer(func(line []byte) (int, error) {
		if strings.HasPrefix(string(line), "MachineHealthCheck") {
			d := &appsv1.Deployment{ObjectMeta: p.meta("manager")}
			p.Expect(p.api.Patch(p.ctx, d, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":1}}`)))).To(Succeed())
		}
		return said.Write(line)
	})
	p.Expect(uninstaller.All(p.ctx)).To(MatchError(ContainSubstring("incomplete")))
	p.Expect(said.String()).To(ContainSubstring("left: Deployment %s/manager was scaled up again", p.namespace))
}

// command sets the containers of the manager.
func (p *fixture) command(containers ...corev1.Container) {
	p.t.Helper()
	d := &appsv1.Deployment{ObjectMeta: p.meta("manager")}
	p.Expect(p.api.Get(p.ctx, client.ObjectKeyFromObject(d), d)).To(Succeed())
	for i := range containers {
		containers[i].Name, containers[i].Image = "c"+string(rune('0'+i)), "example.com/manager"
	}
	d.Spec.Template.Spec.Containers = containers
	p.Expect(p.api.Update(p.ctx, d)).To(Succeed())
}

// A manager that adopts all checks would adopt a released check again, unless the check is annotated.
func TestCoreChecks_Arguments_AreReadAsByTheManager(t *testing.T) {
	p := newFixture(t)
	p.manager()
	p.inTreeCheck("core")
	for name, test := range map[string]struct {
		command, args []string
		all           bool
	}{
		"no flag":              {},
		"equals sign":          {args: []string{"--in-tree-machinehealthchecks=All"}, all: true},
		"next argument":        {args: []string{"--leader-elect", "--in-tree-machinehealthchecks", "All", "--v=2"}, all: true},
		"next argument, OptIn": {args: []string{"--in-tree-machinehealthchecks", "OptIn"}},
		"underscores":          {args: []string{"--in_tree_machinehealthchecks=Replace"}, all: true},
		"command":              {command: []string{"/manager", "--in-tree-machinehealthchecks=All"}, all: true},
		"arguments after command": {
			command: []string{"/manager", "--in-tree-machinehealthchecks=All"},
			args:    []string{"--in-tree-machinehealthchecks=OptIn"},
		},
		"last value":              {args: []string{"--in-tree-machinehealthchecks", "Ignore", "--in-tree-machinehealthchecks", "All"}, all: true},
		"last value, equals sign": {args: []string{"--in-tree-machinehealthchecks=All", "--in-tree-machinehealthchecks=Ignore"}},
		"other flag":              {args: []string{"--watch-filter=All", "--mode", "Observe"}},
		"value of other flag":     {args: []string{"--watch-filter=--in-tree-machinehealthchecks=All"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			flags := pflag.NewFlagSet("manager", pflag.ContinueOnError)
			flags.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
			read, err := settings.New(flags)
			g.Expect(err).ToNot(HaveOccurred())
			words := append(test.command, test.args...)
			g.Expect(flags.Parse(words)).To(Succeed())
			g.Expect(read.InTreeChecks == settings.All || read.InTreeChecks == settings.Replace).To(Equal(test.all),
				"value that the manager reads")
			g.Expect(p.excludes(corev1.Container{Command: test.command, Args: test.args})).To(Equal(test.all))
		})
	}
	for name, args := range map[string][]string{
		// The manager does not start with a single dash. Once it is fixed, the manager adopts all checks.
		"single dash":                {"-in-tree-machinehealthchecks=All"},
		"single dash, next argument": {"-in-tree-machinehealthchecks", "All"},
		// The value is known in the Pod only.
		"variable": {"--in-tree-machinehealthchecks=$(WHICH)"},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(p.excludes(corev1.Container{Args: args})).To(BeTrue())
		})
	}
	p.Expect(p.excludes(corev1.Container{}, corev1.Container{Args: []string{"--in-tree-machinehealthchecks=All"}})).To(BeTrue(),
		"any container")
}

// excludes returns whether a release annotates a check, so a manager with these containers does not adopt it again.
func (p *fixture) excludes(containers ...corev1.Container) bool {
	p.t.Helper()
	p.command(containers...)
	uninstaller, said := p.uninstaller(true)
	p.Expect(uninstaller.Release(p.ctx, p.namespace, "core")).To(Succeed(), said.String())
	told, err := ContainSubstring("annotated with " + remedyv1.AdoptAnnotation + "=false").Match(said.String())
	p.Expect(err).ToNot(HaveOccurred())
	return told
}
