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
	panels := make([]object, 0, len(families()))
	for i, f := range families() {
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
