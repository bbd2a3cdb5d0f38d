// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package differential_test

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// The objects of the walks: checks of Cluster API and of Remedy, and Machines, of which some are selected by two of
// them.

// anotherTemplate is one more to remediate by. Requests of both are of one kind, and bear the name of their Machine.
const anotherTemplate = "hard"

// pools are the Machines that each check of Cluster API selects, and ownPools those of checks of Remedy. A Machine is named after its pool.
var (
	pools = map[string][]string{
		"asks": {"asks", "common"}, "begs": {"begs", "common", "torn"}, "pleads": {"torn", "aided"}, "wants": {"wants", "twice"},
	}
	ownPools = map[string][]string{"answers": {"aided"}, "heals": {"twice"}}
)

// templates are what checks remediate by. Where there is none owners do.
var templates = map[string]string{"asks": templateName, "begs": templateName, "pleads": anotherTemplate, "answers": templateName}

// machineNames are those of all Machines there are.
var machineNames = []string{"asks-0", "asks-1", "begs-0", "begs-1", "wants-0", "wants-1", "common-0", "torn-0", "twice-0", "aided-0"}

func poolOf(machine string) string {
	pool, _, _ := strings.Cut(machine, "-")
	return pool
}

// selecting are the checks of Cluster API that select a Machine.
func selecting(machine string) []string { return selectingOf(pools, machine) }

func selectingOf(pools map[string][]string, machine string) []string {
	var checks []string
	for _, check := range slices.Sorted(maps.Keys(pools)) {
		if slices.Contains(pools[check], poolOf(machine)) {
			checks = append(checks, check)
		}
	}
	return checks
}

// ofTemplate reports whether the checks of a Machine use a template.
func ofTemplate(machine string) bool { return templates[selecting(machine)[0]] != "" }

// populate makes everything that there is when a walk begins.
func (w *walk) populate() {
	w.t.Helper()
	for _, name := range []string{templateName, anotherTemplate} {
		w.create(remediator.Metal3.NewTemplate(w.namespace, name, map[string]any{"strategy": "Reboot"}))
	}
	for _, name := range machineNames {
		w.machines[name] = w.machine(name, func(m *clusterv1.Machine) { m.Labels[poolLabel] = poolOf(name) })
	}
	for _, name := range w.checks {
		w.generate(name)
	}
	for name := range ownPools {
		w.own(name)
	}
}

// generate creates a check: the first one as a user does, the others as the topology of a Cluster does.
func (w *walk) generate(name string) bool {
	w.t.Helper()
	check := w.coreCheck(name, func(spec *clusterv1.MachineHealthCheckSpec) {
		spec.Selector = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: poolLabel, Operator: metav1.LabelSelectorOpIn, Values: pools[name]}}}
		if templates[name] != "" {
			byTheirTemplate(spec)
			spec.Remediation.TemplateRef.Name = templates[name]
		}
	})
	check.Labels = map[string]string{clusterv1.WatchLabel: oursByLabel}
	if name != w.checks[0] {
		check.Labels[clusterv1.ClusterTopologyOwnedLabel] = ""
	}
	return w.api.Create(w.ctx, check) == nil
}

// own creates a check of Remedy.
func (w *walk) own(name string) {
	w.t.Helper()
	requirement := remedyv1.SelectorRequirement{Key: poolLabel, Operator: metav1.LabelSelectorOpIn}
	for _, pool := range ownPools[name] {
		requirement.Values = append(requirement.Values, remedyv1.LabelValue(pool))
	}
	check := w.remedyCheck(name, func(spec *remedyv1.MachineHealthCheckSpec) {
		spec.Selector = remedyv1.Selector{MatchExpressions: []remedyv1.SelectorRequirement{requirement}}
		if templates[name] != "" {
			byOurTemplate(spec)
			spec.RemediationTemplate.Name = templates[name]
		}
	})
	w.changes(check, name, func() { check.Labels = map[string]string{clusterv1.WatchLabel: oursByLabel} })
}
