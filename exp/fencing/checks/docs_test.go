// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package checks_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/checks"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/controller"
)

// collected are the collectors that are registered.
type collected struct {
	prometheus.Registerer
	all []prometheus.Collector
}

func (c *collected) Register(collector prometheus.Collector) error {
	c.all = append(c.all, collector)
	return nil
}

// described are the labels of each metric of the fencing manager.
func described(t *testing.T) map[string][]string {
	t.Helper()
	g, c := NewWithT(t), &collected{}
	_, err := controller.NewMetrics(c)
	g.Expect(err).ToNot(HaveOccurred())
	_, err = checks.NewMetrics(c)
	g.Expect(err).ToNot(HaveOccurred())
	pattern, labels := regexp.MustCompile(`fqName: "(\w+)".*variableLabels: \{(.*)\}\}`), map[string][]string{}
	for _, collector := range c.all {
		descriptions := make(chan *prometheus.Desc, 1)
		collector.Describe(descriptions)
		found := pattern.FindStringSubmatch((<-descriptions).String())
		g.Expect(found).To(HaveLen(3))
		labels[found[1]] = strings.FieldsFunc(found[2], func(r rune) bool { return r == ',' })
	}
	return labels
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile("../../../" + path)
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	return string(content)
}

// The table of the page, the panels of the dashboard and the alerts have the metrics that the fencing manager registers, with their labels.
func TestDocs_Metrics_AreThoseOfTheManager(t *testing.T) {
	g, metrics := NewWithT(t), described(t)
	documented := map[string][]string{}
	rows := regexp.MustCompile("(?m)^\\| `(remedy_\\w+)` \\| \\w+ \\|(.*?)\\|")
	for _, row := range rows.FindAllStringSubmatch(read(t, "docs/fencing.md"), -1) {
		documented[row[1]] = strings.FieldsFunc(row[2], func(r rune) bool { return strings.ContainsRune(" `,", r) })
	}
	g.Expect(documented).To(Equal(metrics))

	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	g.Expect(json.Unmarshal([]byte(read(t, "config/components/grafana-dashboard/remedy.json")), &dashboard)).To(Succeed())
	grouped, shown := regexp.MustCompile(` by \((.*?)\)`), map[string][]string{}
	for _, panel := range dashboard.Panels {
		if !strings.HasPrefix(panel.Title, "remedy_fence") {
			continue
		}
		query := panel.Targets[0].Expr
		g.Expect(query).To(ContainSubstring(panel.Title))
		shown[panel.Title] = []string{}
		if by := grouped.FindStringSubmatch(query); by != nil {
			shown[panel.Title] = slices.DeleteFunc(strings.Split(by[1], ", "), func(label string) bool { return label == "le" })
		}
	}
	g.Expect(shown).To(Equal(metrics))

	used := regexp.MustCompile(`remedy_fence\w*`).FindAllString(read(t, "config/components/prometheus-rule/rules.yaml"), -1)
	g.Expect(len(used)).To(BeNumerically(">", 4))
	for _, metric := range used {
		g.Expect(metrics).To(HaveKey(metric))
	}
	grouped = regexp.MustCompile(`sum by \((\w+)\) \(increase\((\w+)\[`)
	for _, query := range grouped.FindAllStringSubmatch(read(t, "config/components/prometheus-rule/rules.yaml"), -1) {
		if labels, is := metrics[query[2]]; is {
			g.Expect(labels).To(ContainElement(query[1]))
		}
	}
}
