// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/manifests"
)

var (
	numbered  = regexp.MustCompile(`^remedy([0-9]{1,4})$`)
	notInName = regexp.MustCompile(`[^a-z0-9]+`)
	// cleanResources are spellings. The first one is that of the document.
	cleanResources = []string{"clean-resourece", "clean-resource", "clean-resources", "cleanResources"}
)

// convertRemedy converts a Configuration.
func convertRemedy(from *unstructured.Unstructured) (*Converted, error) {
	r := &reader{}
	to := &fencingv1.NodeRemedy{
		TypeMeta: metav1.TypeMeta{APIVersion: fencingv1.GroupVersion.String(), Kind: "NodeRemedy"},
		Spec:     fencingv1.NodeRemedySpec{Namespace: namespace, Pace: remedyv1.Pace{Mode: remedyv1.ObserveMode}},
	}
	top := r.fields("", from.Object)
	top.take("apiVersion")
	top.take("kind")
	r.Add("It monitors the Nodes of the cluster in which it is applied, and namespace is that of the fencing manager. For another cluster, " +
		"set clusterRef, and namespace to that of the Cluster")
	to.ObjectMeta = r.metadata(top)
	to.Spec.NodeSelector = r.selector(top.take("nodeSelector"))
	if to.Name == "" {
		to.Name = cmp.Or(derivedName(to.Spec.NodeSelector), "node-remedy")
		r.Add("metadata.name is %s: the Configuration has no name", to.Name)
	}
	if !labelName.MatchString(to.Name) {
		r.fail("metadata.name must have at most 63 lower case letters, digits or '-'")
	}
	to.Spec.ThresholdConfigs = r.thresholds(top.objects("thresholdConfigs"))
	for _, config := range top.objects("remedyConfigs") {
		name := config.name("name")
		if slices.ContainsFunc(to.Spec.RemedyConfigs, func(c fencingv1.RemedyConfig) bool { return string(c.Name) == name }) {
			r.fail("%s: the remedy %s is defined twice", config.path, name)
		}
		to.Spec.RemedyConfigs = append(to.Spec.RemedyConfigs, fencingv1.RemedyConfig{
			Name: fencingv1.RemedyName(name), PodTemplate: r.podTemplate(config.object("podTemplate")),
		})
		config.end()
	}
	top.end()
	r.uses(&to.Spec)
	return &Converted{Object: to, Sources: []string{"a Configuration"}, Notes: r.Notes}, r.err
}

// derivedName is made of the values of a selector, such as compute for type=compute.
func derivedName(selector *remedyv1.Selector) string {
	if selector == nil {
		return ""
	}
	var values []string
	for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
		values = append(values, string(selector.MatchLabels[key]))
	}
	name := notInName.ReplaceAllString(strings.ToLower(strings.Join(values, "-")), "-")
	return strings.Trim(name[:min(len(name), 63)], "-")
}

// selector converts text such as type=compute, labels, or a selector of Kubernetes.
func (r *reader) selector(value any) *remedyv1.Selector {
	selector := &metav1.LabelSelector{}
	var err error
	switch from := value.(type) {
	case nil:
		r.Add("Without nodeSelector, all Nodes are selected but those of the control plane")
		return nil
	case string:
		r.Add("nodeSelector is a selector of Kubernetes")
		if selector, err = metav1.ParseToLabelSelector(from); err == nil {
			if parts := len(selector.MatchLabels) + len(selector.MatchExpressions); parts == 0 || parts <= strings.Count(from, ",") &&
				len(selector.MatchExpressions) == 0 {
				r.fail("nodeSelector is empty, or has a label twice: use text such as type=compute")
			}
		}
	default:
		err = strict(value, selector)
	}
	if err == nil {
		_, err = metav1.LabelSelectorAsSelector(selector)
	}
	if err != nil {
		r.fail("nodeSelector is invalid: use text such as type=compute, or matchLabels and matchExpressions")
		return nil
	}
	return manifests.Selector(selector)
}

func (r *reader) thresholds(all []fields) (to []fencingv1.ThresholdConfig) {
	if len(all) == 0 {
		r.fail("thresholdConfigs is missing: it has the conditions of Nodes that are remediated")
	}
	for _, f := range all {
		t := fencingv1.ThresholdConfig{
			NodeConditionType: remedyv1.NodeConditionType(f.text("nodeConditionType")), NodeConditionStatus: f.status("nodeConditionStatus"),
			NodeConditionPeriod: *f.duration("nodeConditionPeriod", 0), Remedies: f.remedies(),
		}
		if value := f.take("recovery"); value != nil {
			recovery := r.fields(f.at("recovery"), value)
			t.Recovery = &fencingv1.RecoveryUse{Name: fencingv1.RemedyName(recovery.name("name"))}
			r.Add("recovery is an object instead of a list")
			recovery.end()
		}
		f.end()
		if t.NodeConditionType == "" {
			r.fail("%s.nodeConditionType is missing", f.path)
		}
		if t.NodeConditionType == "Ready" && t.NodeConditionStatus == "False" {
			r.Add("A Node that does not answer has Ready=Unknown, not False: add a threshold for Unknown. Only with Unknown are all Pods of the " +
				"Node removed")
		}
		to = append(to, t)
	}
	return to
}

// status returns a status, which YAML reads as a boolean if it has no quotes.
func (f fields) status(key string) remedyv1.ConditionStatus {
	value := f.take(key)
	if _, is := value.(bool); is {
		f.Add(`nodeConditionStatus has quotes: it is "True", "False" or Unknown`)
	}
	for _, status := range []string{"True", "False", "Unknown"} {
		if strings.EqualFold(fmt.Sprint(value), status) {
			return remedyv1.ConditionStatus(status)
		}
	}
	f.fail("%s must be true, false or Unknown", f.at(key))
	return ""
}

// remedies returns remedy1, remedy2 and so on, in this order.
func (f fields) remedies() (to []fencingv1.RemedyUse) {
	number := func(key string) int {
		n, _ := strconv.Atoi(numbered.FindStringSubmatch(key)[1])
		return n
	}
	keys := slices.DeleteFunc(slices.Sorted(maps.Keys(f.values)), func(key string) bool { return !numbered.MatchString(key) })
	slices.SortStableFunc(keys, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	if len(keys) > 0 {
		f.Add("remedy1, remedy2 and so on are the list remedies, in the order of their numbers")
	}
	for _, key := range keys {
		one := f.object(key)
		use := fencingv1.RemedyUse{Name: fencingv1.RemedyName(one.name("name"))}
		if _, has := one.values["period"]; has {
			use.Period = one.duration("period", time.Minute)
		}
		for _, spelling := range cleanResources {
			value, has := one.values[spelling]
			clean, is := value.(bool)
			if !has {
				continue
			}
			if !is {
				f.fail("%s must be true or false", one.at(spelling))
			}
			if spelling != "cleanResources" {
				f.Add("%s is cleanResources", spelling)
			}
			use.CleanResources = use.CleanResources || clean
			one.take(spelling)
		}
		one.end()
		if slices.ContainsFunc(to, func(o fencingv1.RemedyUse) bool { return o.Name == use.Name }) {
			f.fail("%s uses the remedy %s twice: give its copy in remedyConfigs another name", f.path, use.Name)
		}
		to = append(to, use)
	}
	return to
}

// uses compares the names that are used with those that are defined.
func (r *reader) uses(spec *fencingv1.NodeRemedySpec) {
	defined := map[fencingv1.RemedyName]*fencingv1.RemedyConfig{}
	for i := range spec.RemedyConfigs {
		defined[spec.RemedyConfigs[i].Name] = &spec.RemedyConfigs[i]
	}
	for _, threshold := range spec.ThresholdConfigs {
		for _, use := range threshold.Remedies {
			switch config := defined[use.Name]; {
			case config == nil:
				r.Add("The remedy %s is defined nowhere, so the NodeRemedy is not valid: add it to remedyConfigs, with a podTemplate, or with a "+
					"fence that names a FenceProfile", use.Name)
			case use.CleanResources:
				config.PowerOff = true
				r.Add("%s has powerOff: true, because resources are cleaned only when the Node is proven off. Its image must do the action in "+
					"REMEDY_ACTION, which is on, off or status. It answers status with \"Status: ON\" and exit code 0, or \"Status: OFF\" and exit "+
					"code 2. An image that does not read REMEDY_ACTION would act for status, too", use.Name)
			}
		}
		if recovery := threshold.Recovery; recovery != nil && defined[recovery.Name] == nil {
			r.Add("The recovery %s is defined nowhere: only what was switched off is switched on. Add it to remedyConfigs to run more",
				recovery.Name)
		}
	}
}

// podTemplate converts the template of a Pod.
func (r *reader) podTemplate(from fields) *runtime.RawExtension {
	spec := from.object("spec")
	volumes, _ := spec.values["volumes"].([]any)
	count := 0
	for _, list := range []string{"initContainers", "containers"} {
		containers := spec.objects(list)
		var converted []any
		for _, container := range containers {
			volumes = container.sources(volumes)
			converted = append(converted, container.values)
		}
		if spec.values[list] = converted; converted == nil {
			delete(spec.values, list)
		}
		count = len(converted)
	}
	if count == 0 {
		r.fail("%s.spec.containers is missing", from.path)
	}
	if policy, has := spec.values["restartPolicy"]; has && policy != "Never" {
		r.Add("%s.restartPolicy has no effect: the Pod of a remedy is not restarted", spec.path)
	}
	if len(volumes) > 0 {
		spec.values["volumes"] = volumes
	}
	from.values["spec"] = spec.values
	if err := strict(from.values, &corev1.PodTemplateSpec{}); err != nil {
		r.fail("%s is not a template of a Pod: %s", from.path, err)
	}
	content, err := json.Marshal(from.values)
	if err != nil {
		r.fail("%s is not a template of a Pod: %s", from.path, err)
	}
	return &runtime.RawExtension{Raw: content}
}

// sources converts names in env and configmaps into Secrets and ConfigMaps, and returns the volumes of the Pod.
func (f fields) sources(volumes []any) []any {
	named := func(key string) (names []string, others []any) {
		value := f.take(key)
		items, is := value.([]any)
		if !is && value != nil {
			f.fail("%s must be a list", f.at(key))
		}
		for _, item := range items {
			name, is := item.(string)
			if !is {
				others = append(others, item)
				continue
			}
			if !labelName.MatchString(name) {
				f.fail("%s has an entry that is not the name of a Secret or ConfigMap: use the form of Kubernetes, with name and valueFrom", f.at(key))
			}
			names = append(names, name)
		}
		return names, others
	}
	secrets, env := named("env")
	configs, others := named("configmaps")
	if len(env) > 0 {
		f.values["env"] = env
	}
	if len(others) > 0 {
		f.fail("%s must be a list of names", f.at("configmaps"))
	}
	for _, name := range secrets {
		from, _ := f.values["envFrom"].([]any)
		f.values["envFrom"] = append(from, map[string]any{"secretRef": map[string]any{"name": name}})
		f.Add("env %s is read as the Secret %s/%s, and each key of it is a variable. Create the Secret, or the Pod does not start",
			name, namespace, name)
	}
	for _, name := range configs {
		mounts, _ := f.values["volumeMounts"].([]any)
		f.values["volumeMounts"] = append(mounts, map[string]any{"name": name, "mountPath": "/etc/" + name, "readOnly": true})
		if !slices.ContainsFunc(volumes, func(v any) bool { m, _ := v.(map[string]any); return m["name"] == name }) {
			volumes = append(volumes, map[string]any{"name": name, "configMap": map[string]any{"name": name}})
		}
		f.Add("configmaps %s is a volume at /etc/%s. Copy the ConfigMap to the namespace %s, or the Pod does not start", name, name, namespace)
	}
	return volumes
}

// strict decodes a value. An unknown field is an error.
func strict(value, into any) error {
	content, err := json.Marshal(value)
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(content))
		decoder.DisallowUnknownFields()
		err = decoder.Decode(into)
	}
	return err
}
