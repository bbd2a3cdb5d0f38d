// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// The dashboard has a panel for each metric of the table.
func TestDocs_Dashboard_IsUpToDate(t *testing.T) {
	made, err := json.MarshalIndent(dashboard(), "", "  ")
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	upToDate(t, "../../config/components/grafana-dashboard/remedy.json", string(made)+"\n")
}

// ofFences are the metrics of the fencing manager. A test of exp/fencing/checks compares them with those that it registers.
func ofFences() []*family {
	made := func(name, kind, help string, labels ...string) *family {
		return &family{name: name, kind: kind, help: help, labels: labels}
	}
	return []*family{
		made("remedy_fences_active", gauge, "Fences that are admitted and have not ended."),
		made("remedy_fences_failed", gauge, "Fences that have failed, and whose NodeFence is not withdrawn."),
		made("remedy_fence_blocked", gauge, "Fences that are not admitted, by the reason.", "reason"),
		made("remedy_fences_total", counter, "Fences that have ended, by template, result and evidence.", "template", "result", "evidence"),
		made("remedy_fence_step_duration_seconds", histogram, "How long phases of steps of fences took.", "step", "phase"),
		made("remedy_fence_actions_total", counter, "Actions of devices that have ended.", "profile", "method", "action", "result"),
		made("remedy_fence_device_reachable", gauge, "1 if the devices of a method answered in the last checks of all Nodes of a FenceProfile, "+
			"0 if one did not.", "namespace", "profile", "method"),
		made("remedy_fence_oldest_off_start_time_seconds", gauge, "Time since when a Node is off that was switched off and is not on again, in "+
			"seconds since 1970, for the oldest one."),
		made("remedy_fences_left_off_total", counter, "Fences that have ended with a Node that may be off."),
		made("remedy_fence_repeats_total", counter, "Fences of a Node that was fenced before within repeatPeriod.", "template"),
		made("remedy_fence_released_pods_total", counter, "Pods that were terminating when a Node was proven off, of releases that have ended."),
	}
}

type object = map[string]any

var source = object{"type": "prometheus", "uid": "${datasource}"}

// checkLabels are the labels that name a check, and the variables of the dashboard.
var checkLabels = ofCheck()

func dashboard() object {
	variables := make([]object, 0, 1+len(checkLabels))
	variables = append(variables, object{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "data source"})
	for _, label := range checkLabels {
		variables = append(variables, object{
			// A NodeHealthCheck has no namespace, so all values are also none.
			"name": label, "type": "query", "datasource": source, "includeAll": true, "multi": true, "allValue": ".*", "refresh": 2,
			"query":   object{"query": "label_values(" + checkCondition.name + ", " + label + ")", "refId": label},
			"current": object{"text": "All", "value": "$__all"},
		})
	}
	all := append(families(), ofFences()...)
	panels := make([]object, 0, len(all))
	for i, f := range all {
		panels = append(panels, f.panel(i))
	}
	return object{
		"uid": "remedy", "title": "Remedy", "tags": []string{"cluster-api", "remedy"}, "schemaVersion": 39, "editable": true,
		"time": object{"from": "now-6h", "to": "now"}, "refresh": "1m", "templating": object{"list": variables}, "panels": panels,
	}
}

// panel returns the panel of a metric: two are next to each other.
func (f *family) panel(i int) object {
	query, legend := f.query()
	unit := "short"
	if strings.HasSuffix(f.name, "_seconds") {
		unit = "s"
	}
	return object{
		"id": i + 1, "type": "timeseries", "title": f.name, "description": f.help, "datasource": source,
		"gridPos":     object{"x": i % 2 * 12, "y": i / 2 * 8, "w": 12, "h": 8},
		"fieldConfig": object{"defaults": object{"unit": unit, "min": 0}, "overrides": []any{}},
		"targets":     []object{{"refId": "A", "datasource": source, "expr": query, "legendFormat": legend}},
	}
}

// query returns the query of a metric and the legend of its series. Of several managers, only the leader has series of checks.
func (f *family) query() (query, legend string) {
	var selected []string
	shown := make([]string, 0, len(f.labels))
	for _, label := range f.labels {
		if slices.Contains(checkLabels, label) && slices.Contains(f.labels, "name") {
			selected = append(selected, fmt.Sprintf(`%[1]s=~"$%[1]s"`, label))
		}
		shown = append(shown, "{{"+label+"}}")
	}
	selector, by, ofLabels := "", f.labels, ""
	if len(selected) > 0 {
		selector = "{" + strings.Join(selected, ",") + "}"
	}
	if f.kind == histogram {
		by = append([]string{"le"}, by...)
	}
	if len(by) > 0 {
		ofLabels = " by (" + strings.Join(by, ", ") + ")"
	}
	legend = strings.Join(shown, " ")
	switch {
	case f.kind == histogram:
		return "histogram_quantile(0.99, sum" + ofLabels + " (rate(" + f.name + "_bucket[$__rate_interval])))", "99% " + legend
	case f.kind == gauge:
		return "max" + ofLabels + " (" + f.name + selector + ")", legend
	case f.lasts:
		return "sum" + ofLabels + " (rate(" + f.name + "[$__rate_interval]))", legend
	}
	return "sum" + ofLabels + " (increase(" + f.name + selector + "[$__rate_interval]))", legend
}
