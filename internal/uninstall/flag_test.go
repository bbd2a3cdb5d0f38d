// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	cliflag "k8s.io/component-base/cli/flag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/settings"
)

// command gives the containers of a manager a command line.
func (p *place) command(containers ...corev1.Container) {
	p.t.Helper()
	d := &appsv1.Deployment{ObjectMeta: p.meta("manager")}
	p.Expect(p.api.Get(p.ctx, client.ObjectKeyFromObject(d), d)).To(Succeed())
	for i := range containers {
		containers[i].Name, containers[i].Image = "c"+string(rune('0'+i)), "example.com/manager"
	}
	d.Spec.Template.Spec.Containers = containers
	p.Expect(p.api.Update(p.ctx, d)).To(Succeed())
}

// TestWhatAManagerWasToldIsReadAsItReadsIt: where it takes all checks, one that is given back has to say that it is not to be.
func TestWhatAManagerWasToldIsReadAsItReadsIt(t *testing.T) {
	p := newPlace(t)
	p.manager()
	p.core("core")
	for name, test := range map[string]struct {
		command, args []string
		all           bool
	}{
		"nothing":                   {},
		"one word":                  {args: []string{"--core-machinehealthchecks=All"}, all: true},
		"two words":                 {args: []string{"--leader-elect", "--core-machinehealthchecks", "All", "--v=2"}, all: true},
		"two words for some":        {args: []string{"--core-machinehealthchecks", "Annotated"}},
		"underscores":               {args: []string{"--core_machinehealthchecks=Exclusive"}, all: true},
		"the command":               {command: []string{"/manager", "--core-machinehealthchecks=All"}, all: true},
		"the arguments come later":  {command: []string{"/manager", "--core-machinehealthchecks=All"}, args: []string{"--core-machinehealthchecks=Annotated"}},
		"the last one counts":       {args: []string{"--core-machinehealthchecks", "Ignore", "--core-machinehealthchecks", "All"}, all: true},
		"the last one counts, too":  {args: []string{"--core-machinehealthchecks=All", "--core-machinehealthchecks=Ignore"}},
		"another flag":              {args: []string{"--watch-filter=All", "--mode", "Observe"}},
		"a flag that ends the same": {args: []string{"--watch-filter=--core-machinehealthchecks=All"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			flags := pflag.NewFlagSet("manager", pflag.ContinueOnError)
			flags.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
			read, err := settings.New(flags)
			g.Expect(err).ToNot(HaveOccurred())
			words := append(test.command, test.args...)
			g.Expect(flags.Parse(words)).To(Succeed())
			g.Expect(read.CoreChecks == settings.All || read.CoreChecks == settings.Exclusive).To(Equal(test.all), "what the manager itself makes of it")
			g.Expect(p.tellsOff(corev1.Container{Command: test.command, Args: test.args})).To(Equal(test.all))
		})
	}
	for name, args := range map[string][]string{
		// The manager refuses one dash, and does not start. Whoever mends that means all of them.
		"one dash":            {"-core-machinehealthchecks=All"},
		"one dash, two words": {"-core-machinehealthchecks", "All"},
		// Nobody knows here what it will be.
		"a variable": {"--core-machinehealthchecks=$(WHICH)"},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(p.tellsOff(corev1.Container{Args: args})).To(BeTrue())
		})
	}
	p.Expect(p.tellsOff(corev1.Container{}, corev1.Container{Args: []string{"--core-machinehealthchecks=All"}})).To(BeTrue(), "whichever container it is")
}

// tellsOff says whether a check would be annotated so that it is not taken again, where a manager has these containers.
func (p *place) tellsOff(containers ...corev1.Container) bool {
	p.t.Helper()
	p.command(containers...)
	leaver, said := p.leaver(true)
	p.Expect(leaver.Checks(p.ctx, p.namespace, "core")).To(Succeed(), said.String())
	told, err := ContainSubstring("annotated with " + remedyv1.TakeOverAnnotation + "=false").Match(said.String())
	p.Expect(err).ToNot(HaveOccurred())
	return told
}
