// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package noderemedy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
)

// Problem is why a NodeRemedy cannot be used as it is. With one that is not Harmless, nothing is generated.
type Problem struct {
	Reason, Message string
	Harmless        bool
}

// Reasons of a Problem.
const (
	// ReasonRemedyNotFound: a name is not in remedyConfigs.
	ReasonRemedyNotFound = "RemedyNotFound"
	// ReasonNoRemedies: there is nothing to do for any threshold.
	ReasonNoRemedies = "NoRemedies"
	// ReasonTooManySteps: a NodeHealthCheck cannot have so many steps.
	ReasonTooManySteps = "TooManySteps"
	// ReasonInvalidPodTemplate: a podTemplate is not one of Kubernetes.
	ReasonInvalidPodTemplate = "InvalidPodTemplate"
	// ReasonInvalidRecovery: the recovery of a threshold cannot run after one of its remedies.
	ReasonInvalidRecovery = "InvalidRecovery"
	// ReasonCleansNothing: cleanResources has no effect.
	ReasonCleansNothing = "CleansNothing"
)

const (
	// maxSteps is how many steps a NodeHealthCheck can have.
	maxSteps = 10
	// defaultPeriod is how long a remedy can take.
	defaultPeriod = 30 * time.Minute
	// maxName leaves room for the hash of a name.
	maxName = 240
)

var (
	notInName = regexp.MustCompile(`[^a-z0-9.]+`)
	dots      = regexp.MustCompile(`-*\.[-.]*`)
)

// generator collects what is generated from a NodeRemedy.
type generator struct {
	remedy  *fencingv1.NodeRemedy
	configs map[fencingv1.RemedyName]*fencingv1.RemedyConfig
	// meta is that of every generated object.
	meta      metav1.ObjectMeta
	check     *remedyv1.NodeHealthCheck
	templates []*fencingv1.NodeFenceTemplate
	problems  []Problem
}

// Objects returns what is generated from a NodeRemedy, each object after those that it needs, and why it cannot be used as it is. There are
// no objects if one of the problems is not harmless: half of the remedies could do less than none.
func Objects(remedy *fencingv1.NodeRemedy) ([]client.Object, []Problem) {
	g := &generator{
		remedy: remedy, configs: map[fencingv1.RemedyName]*fencingv1.RemedyConfig{},
		meta: metav1.ObjectMeta{
			Name: remedy.Name, Namespace: remedy.Spec.Namespace, Labels: map[string]string{fencingv1.NodeRemedyLabel: remedy.Name},
		},
	}
	if value, has := remedy.Labels[clusterv1.WatchLabel]; has {
		g.meta.Labels[clusterv1.WatchLabel] = value
	}
	for i := range remedy.Spec.RemedyConfigs {
		config := &remedy.Spec.RemedyConfigs[i]
		g.configs[config.Name] = config
	}
	profile := g.profile()
	g.addCheck()
	if slices.ContainsFunc(g.problems, func(p Problem) bool { return !p.Harmless }) {
		return nil, g.problems
	}
	objects := make([]client.Object, 0, len(g.templates)+2)
	if profile != nil {
		objects = append(objects, profile)
	}
	for _, template := range g.templates {
		objects = append(objects, template)
	}
	return append(objects, g.check), g.problems
}

func (g *generator) stop(reason, format string, args ...any) {
	g.problems = append(g.problems, Problem{Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// profile has a method for each podTemplate, used or not: a fence that has begun still needs the one that it began with.
func (g *generator) profile() *fencingv1.FenceProfile {
	profile := &fencingv1.FenceProfile{ObjectMeta: *g.meta.DeepCopy()}
	profile.Finalizers = []string{fencingv1.NodeRemedyFinalizer}
	if profile.Spec.NodeSelector = g.remedy.Spec.NodeSelector.DeepCopy(); profile.Spec.NodeSelector == nil {
		profile.Spec.NodeSelector = &remedyv1.Selector{}
	}
	if cluster := g.remedy.Spec.ClusterRef; cluster != nil {
		profile.Spec.ClusterName = cluster.Name
	}
	for _, config := range g.remedy.Spec.RemedyConfigs {
		if config.PodTemplate == nil {
			continue
		}
		pod := &corev1.PodTemplateSpec{}
		if err := yaml.UnmarshalStrict(config.PodTemplate.Raw, pod); err != nil {
			g.stop(ReasonInvalidPodTemplate, "podTemplate of remedy %s cannot be read: %v", config.Name, err)
		}
		method := fencingv1.FenceMethod{Name: fencingv1.MethodName(config.Name), PodTemplate: pod}
		profile.Spec.Methods = append(profile.Spec.Methods, method)
	}
	if len(profile.Spec.Methods) == 0 {
		return nil
	}
	return profile
}

func (g *generator) addCheck() {
	spec := &g.remedy.Spec
	g.check = &remedyv1.NodeHealthCheck{ObjectMeta: *g.meta.DeepCopy()}
	g.check.Namespace = ""
	if value, paused := g.remedy.Annotations[clusterv1.PausedAnnotation]; paused {
		g.check.Annotations = map[string]string{clusterv1.PausedAnnotation: value}
	}
	g.check.Spec.ClusterRef, g.check.Spec.Selector = spec.ClusterRef.DeepCopy(), spec.NodeSelector.DeepCopy()
	g.check.Spec.Limits, g.check.Spec.Pace = *spec.Limits.DeepCopy(), *spec.Pace.DeepCopy()
	for i := range spec.ThresholdConfigs {
		threshold := &spec.ThresholdConfigs[i]
		g.check.Spec.UnhealthyConditions = append(g.check.Spec.UnhealthyConditions, remedyv1.LastingNodeCondition{
			Type: threshold.NodeConditionType, Status: threshold.NodeConditionStatus, Duration: threshold.NodeConditionPeriod,
		})
		for j := range threshold.Remedies {
			g.addStep(threshold, &threshold.Remedies[j], int32(maxSteps*i+j))
		}
	}
	steps := g.check.Spec.EscalatingRemediations
	g.nameTemplates()
	switch {
	case len(steps) > maxSteps:
		g.stop(ReasonTooManySteps, "the thresholds have %d remedies together, and a NodeHealthCheck has %d steps at most: remove %d",
			len(steps), maxSteps, len(steps)-maxSteps)
	case len(steps) == 0 && len(g.problems) == 0:
		g.stop(ReasonNoRemedies, "no threshold has a remedy: add one. To only report what would be done, set mode: Observe as well")
	}
}

// addStep adds a remedy of a threshold: a step of the check, and its template.
func (g *generator) addStep(threshold *fencingv1.ThresholdConfig, use *fencingv1.RemedyUse, order int32) {
	at := fmt.Sprintf("%s=%s", threshold.NodeConditionType, threshold.NodeConditionStatus)
	config := g.configs[use.Name]
	if config == nil {
		g.stop(ReasonRemedyNotFound, "remedy %s of threshold %s is not in remedyConfigs: add it there, or correct its name", use.Name, at)
		return
	}
	fence := g.fence(config)
	if !use.CleanResources {
		fence.Release.Policy = fencingv1.ReleaseNone
	} else if fence.Release.Policy == fencingv1.ReleaseNone {
		g.problems = append(g.problems, Problem{Reason: ReasonCleansNothing, Harmless: true, Message: fmt.Sprintf(
			"cleanResources of remedy %s of threshold %s cleans nothing, because nothing proves the Node off, or because release.policy is None: "+
				"use a remedy with powerOff or with a fence that releases, or remove cleanResources. Everything else is applied", use.Name, at)})
	}
	g.addRecovery(threshold.Recovery, use, fence, at)
	template := &fencingv1.NodeFenceTemplate{ObjectMeta: *g.meta.DeepCopy()}
	template.Name = fmt.Sprintf("%s-%s-%s-%s", g.remedy.Name, threshold.NodeConditionType, threshold.NodeConditionStatus, use.Name)
	template.Spec.Template.Spec = *fence
	if value, has := g.meta.Labels[clusterv1.WatchLabel]; has {
		template.Spec.Template.Metadata.Labels = map[string]string{clusterv1.WatchLabel: value}
	}
	g.templates = append(g.templates, template)
	step := remedyv1.NodeEscalationStep{
		Order: order, Timeout: remedyv1.Duration{Duration: metav1.Duration{Duration: defaultPeriod}},
		Conditions: []remedyv1.StepCondition{{Type: threshold.NodeConditionType, Status: threshold.NodeConditionStatus}},
	}
	if use.Period != nil {
		step.Timeout = *use.Period
	}
	g.check.Spec.EscalatingRemediations = append(g.check.Spec.EscalatingRemediations, step)
}

// fence is what a remedy does. A podTemplate without powerOff proves nothing, so it releases nothing.
func (g *generator) fence(config *fencingv1.RemedyConfig) *fencingv1.NodeFenceSpec {
	if config.Fence != nil {
		return config.Fence.DeepCopy()
	}
	isolation, methods, levels := []fencingv1.MethodName{}, []fencingv1.MethodName{fencingv1.MethodName(config.Name)}, []fencingv1.PowerLevel{}
	fence := &fencingv1.NodeFenceSpec{ProfileName: g.remedy.Name, Isolation: &isolation, Run: &methods, PowerManagement: &levels}
	fence.Release.Policy = fencingv1.ReleaseNone
	if config.PowerOff {
		levels, methods = []fencingv1.PowerLevel{{Methods: methods}}, []fencingv1.MethodName{}
		fence.Release.Policy = fencingv1.ReleaseWorkload
	}
	return fence
}

// addRecovery adds the recovery of a threshold to a remedy. The own recovery of a fence replaces it.
func (g *generator) addRecovery(recovery *fencingv1.RecoveryUse, use *fencingv1.RemedyUse, fence *fencingv1.NodeFenceSpec, at string) {
	if recovery == nil || len(fence.Recovery) > 0 {
		return
	}
	config := g.configs[recovery.Name]
	if config == nil || config.PodTemplate == nil {
		return
	}
	method := fencingv1.MethodName(recovery.Name)
	switch {
	case config.PowerOff:
		g.stop(ReasonInvalidRecovery, "recovery %s of threshold %s has powerOff, and a recovery switches nothing: use another podTemplate",
			recovery.Name, at)
	case fence.ProfileName != g.remedy.Name:
		g.stop(ReasonInvalidRecovery, "recovery %s of threshold %s cannot run after remedy %s, because its fence has another FenceProfile: "+
			"set recovery of this fence to methods of its FenceProfile", recovery.Name, at, use.Name)
	case slices.Contains(methodsOf(fence), method):
		g.stop(ReasonInvalidRecovery, "recovery %s of threshold %s is a method of remedy %s, too: use another podTemplate",
			recovery.Name, at, use.Name)
	default:
		fence.Recovery = []fencingv1.MethodName{method}
	}
}

// methodsOf returns the methods that a fence names.
func methodsOf(fence *fencingv1.NodeFenceSpec) (names []fencingv1.MethodName) {
	for _, list := range []*[]fencingv1.MethodName{fence.Isolation, fence.Run} {
		if list != nil {
			names = append(names, *list...)
		}
	}
	if fence.PowerManagement != nil {
		for _, level := range *fence.PowerManagement {
			names = append(names, level.Methods...)
		}
	}
	return append(names, fence.Recovery...)
}

// nameTemplates replaces the content of a template, in its name, by a valid name: one that does not depend on the order of remedies.
func (g *generator) nameTemplates() {
	valid := func(name string) string {
		return dots.ReplaceAllString(notInName.ReplaceAllString(strings.ReplaceAll(strings.ToLower(name), "/", "."), "-"), ".")
	}
	uses := map[string]int{}
	for _, template := range g.templates {
		uses[valid(template.Name)]++
	}
	for i, template := range g.templates {
		content := template.Name
		if template.Name = valid(content); uses[template.Name] > 1 || len(template.Name) > maxName {
			sum := sha256.Sum256([]byte(content))
			template.Name = strings.TrimRight(template.Name[:min(len(template.Name), maxName)], "-.") + "-" + hex.EncodeToString(sum[:4])
		}
		g.check.Spec.EscalatingRemediations[i].RemediationTemplate = remedyv1.NodeTemplateReference{
			Namespace: template.Namespace, TemplateKind: remedyv1.TemplateKind{
				APIVersion: fencingv1.GroupVersion.String(), Kind: "NodeFenceTemplate", Name: template.Name,
			},
		}
	}
}
