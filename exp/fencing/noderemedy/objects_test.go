// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package noderemedy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
)

type change = func(*fencingv1.NodeRemedy)

// spec returns the spec of a generated object as YAML; empty without it.
func spec(g *WithT, objects []client.Object, name string) string {
	for _, object := range objects {
		if nameOf(object) != name {
			continue
		}
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		g.Expect(err).ToNot(HaveOccurred())
		text, err := yaml.Marshal(fields["spec"])
		g.Expect(err).ToNot(HaveOccurred())
		return string(text)
	}
	return ""
}

func TestObjects_Sample_AreGenerated(t *testing.T) {
	g := NewWithT(t)
	objects, problems := Objects(remedy("compute", "fencing", func(r *fencingv1.NodeRemedy) {
		r.Spec.ClusterRef = &remedyv1.ClusterReference{Namespace: "fencing", Name: "prod-1"}
		r.Spec.PauseRequests = []string{"upgrade"}
		r.Annotations = map[string]string{clusterv1.PausedAnnotation: "true"}
		r.Labels = map[string]string{clusterv1.WatchLabel: "mine"}
	}))
	g.Expect(problems).To(BeEmpty())
	names := make([]string, 0, len(objects))
	for _, object := range objects {
		names = append(names, nameOf(object))
		g.Expect(object.GetLabels()).To(Equal(map[string]string{fencingv1.NodeRemedyLabel: "compute", clusterv1.WatchLabel: "mine"}))
	}
	g.Expect(names).To(Equal([]string{
		"FenceProfile fencing/compute", "NodeFenceTemplate fencing/compute-ready-false-repair",
		"NodeFenceTemplate fencing/compute-ready-false-terminate", "NodeFenceTemplate fencing/compute-diskpressure-true-storage-fence",
		"NodeHealthCheck compute",
	}))
	check := objects[4].(*remedyv1.NodeHealthCheck)
	g.Expect(check.Annotations).To(Equal(map[string]string{clusterv1.PausedAnnotation: "true"}))
	g.Expect(spec(g, objects, "NodeHealthCheck compute")).To(And(
		ContainSubstring("clusterRef:\n  name: prod-1\n  namespace: fencing\n"), ContainSubstring("pauseRequests:\n- upgrade\n"),
		ContainSubstring("selector:\n  matchLabels:\n    type: compute\n"),
		ContainSubstring("- duration: 5m0s\n  status: \"False\"\n  type: Ready\n- duration: 10m0s\n  status: \"True\"\n  type: DiskPressure\n")))
	steps := make([]string, 0, 3)
	for _, step := range check.Spec.EscalatingRemediations {
		steps = append(steps, fmt.Sprintln(step.Order, step.Timeout.Duration.Duration, step.Conditions, step.RemediationTemplate.Name))
	}
	g.Expect(steps).To(Equal([]string{
		"0 3m0s [{Ready False []}] compute-ready-false-repair\n", "1 30m0s [{Ready False []}] compute-ready-false-terminate\n",
		"10 30m0s [{DiskPressure True []}] compute-diskpressure-true-storage-fence\n",
	}))
	g.Expect(spec(g, objects, names[0])).To(And(ContainSubstring("clusterName: prod-1\n"), ContainSubstring("type: compute\n"),
		ContainSubstring("  name: repair\n"), ContainSubstring("  name: terminate\n"), ContainSubstring("  name: recovery\n")))
	const metadata = "template:\n  metadata:\n    labels:\n      cluster.x-k8s.io/watch-filter: mine\n  spec:\n    "
	g.Expect(spec(g, objects, names[1])).To(Equal(metadata + "isolation: []\n    powerManagement: []\n    profileName: compute\n" +
		"    recovery:\n    - recovery\n    release:\n      policy: None\n    run:\n    - repair\n"))
	g.Expect(spec(g, objects, names[2])).To(Equal(metadata + "isolation: []\n    powerManagement:\n    - methods:\n      - terminate\n" +
		"    profileName: compute\n    recovery:\n    - recovery\n    release:\n      policy: Workload\n    run: []\n"))
	g.Expect(spec(g, objects, names[3])).To(Equal(metadata + "powerManagement: []\n    profileName: rack-a\n"))
}

// The names follow from the content, so that a remedy that moves does not get another template.
func TestObjects_Reordered_KeepNames(t *testing.T) {
	g := NewWithT(t)
	names := func(r *fencingv1.NodeRemedy) (names []string) {
		objects, problems := Objects(r)
		g.Expect(problems).To(BeEmpty())
		for _, object := range objects {
			names = append(names, nameOf(object))
		}
		return names
	}
	ordered, reversed := remedy("compute", "fencing"), remedy("compute", "fencing")
	for _, r := range []*fencingv1.NodeRemedy{ordered, reversed} {
		long := remedyv1.NodeConditionType(strings.Repeat("x", 316))
		for _, kind := range []remedyv1.NodeConditionType{"a.b/C", "a/b.C", "a/b..C", "a/b-.C", long} {
			r.Spec.ThresholdConfigs = append(r.Spec.ThresholdConfigs, fencingv1.ThresholdConfig{
				NodeConditionType: kind, NodeConditionStatus: "Unknown", Remedies: []fencingv1.RemedyUse{{Name: "repair"}},
			})
		}
	}
	slices.Reverse(reversed.Spec.ThresholdConfigs)
	g.Expect(names(reversed)).To(ConsistOf(names(ordered)))
	g.Expect(slices.Compact(slices.Sorted(slices.Values(names(ordered))))).To(HaveLen(10))
	for _, name := range names(ordered) {
		name = name[strings.LastIndexAny(name, " /")+1:]
		g.Expect(validation.IsDNS1123Subdomain(name)).To(BeEmpty(), name)
	}
}

func TestObjects_Default_AreAsDescribed(t *testing.T) {
	g := NewWithT(t)
	objects, problems := Objects(remedy("compute", "fencing", func(r *fencingv1.NodeRemedy) {
		r.Spec.NodeSelector = nil
		r.Spec.ThresholdConfigs[0].Remedies[1].CleanResources, r.Spec.ThresholdConfigs[1].Remedies[0].CleanResources = false, false
	}))
	g.Expect(problems).To(BeEmpty())
	g.Expect(objects[0].(*fencingv1.FenceProfile).Spec.NodeSelector).To(Equal(&remedyv1.Selector{}))
	g.Expect(objects[4].(*remedyv1.NodeHealthCheck).Spec.Selector).To(BeNil())
	for _, object := range objects[1:4] {
		policy := object.(*fencingv1.NodeFenceTemplate).Spec.Template.Spec.Release.Policy
		g.Expect(policy).To(Equal(fencingv1.ReleaseNone), nameOf(object))
	}
	objects, problems = Objects(remedy("compute", "fencing", withoutPods))
	g.Expect(problems).To(BeEmpty())
	g.Expect(objects).To(HaveLen(2), "no profile without a podTemplate")
}

func TestObjects_Problem_IsReported(t *testing.T) {
	ready := func(r *fencingv1.NodeRemedy) *fencingv1.ThresholdConfig { return &r.Spec.ThresholdConfigs[0] }
	disk := func(r *fencingv1.NodeRemedy) *fencingv1.ThresholdConfig { return &r.Spec.ThresholdConfigs[1] }
	cleans := func(r *fencingv1.NodeRemedy) { ready(r).Remedies[0].CleanResources = true }
	recovers := func(name fencingv1.RemedyName) change {
		return func(r *fencingv1.NodeRemedy) { disk(r).Recovery.Name = name }
	}
	fence := func(r *fencingv1.NodeRemedy) *fencingv1.NodeFenceSpec { return r.Spec.RemedyConfigs[3].Fence }
	pod := func(text string) change {
		return func(r *fencingv1.NodeRemedy) { r.Spec.RemedyConfigs[0].PodTemplate.Raw = []byte(text) }
	}
	ends := func(name fencingv1.RemedyName) change {
		return func(r *fencingv1.NodeRemedy) { ready(r).Recovery.Name = name }
	}
	// Without a message, the remedy is valid.
	for name, row := range map[string]struct {
		change          change
		reason, message string
		applied         bool
	}{
		"undefined": {
			func(r *fencingv1.NodeRemedy) { ready(r).Remedies[0].Name = "x" },
			ReasonRemedyNotFound, "remedy x of threshold Ready=False is not in", false,
		},
		"cleans nothing": {cleans, ReasonCleansNothing, "remedy repair of threshold Ready=False cleans nothing", true},
		"releases none": {
			func(r *fencingv1.NodeRemedy) { fence(r).Release.Policy = "None" }, ReasonCleansNothing, "remedy storage-fence", true,
		},
		"not a Pod":     {pod(`{"spec":{"containers":[{"env":["a"]}]}}`), ReasonInvalidPodTemplate, "podTemplate of remedy repair", false},
		"unknown field": {pod(`{"spec":{"configmaps":[]}}`), ReasonInvalidPodTemplate, `unknown field "configmaps"`, false},
		"no remedies": {
			func(r *fencingv1.NodeRemedy) { ready(r).Remedies, disk(r).Remedies = nil, nil }, ReasonNoRemedies, "no threshold has a remedy", false,
		},
		"recovery lost":       {recovers("recovery"), ReasonInvalidRecovery, "cannot run after remedy storage-fence", false},
		"recovery powers":     {ends("terminate"), ReasonInvalidRecovery, "has powerOff", false},
		"recovery twice":      {ends("repair"), ReasonInvalidRecovery, "is a method of remedy repair", false},
		"recovery is a fence": {ends("storage-fence"), "", "", true},
		"recovery of the fence": {func(r *fencingv1.NodeRemedy) {
			recovers("recovery")(r)
			fence(r).Recovery = []fencingv1.MethodName{"own"}
		}, "", "", true},
		"own profile": {func(r *fencingv1.NodeRemedy) {
			recovers("recovery")(r)
			fence(r).ProfileName = "compute"
		}, "", "", true},
		"only reported": {func(r *fencingv1.NodeRemedy) { ready(r).Remedies = nil }, "", "", true},
		"eleven steps": {func(r *fencingv1.NodeRemedy) {
			for i := range 8 {
				name := fencingv1.RemedyName(fmt.Sprint("r", i))
				r.Spec.RemedyConfigs = append(r.Spec.RemedyConfigs, fencingv1.RemedyConfig{Name: name, Fence: &fencingv1.NodeFenceSpec{}})
				disk(r).Remedies = append(disk(r).Remedies, fencingv1.RemedyUse{Name: name})
			}
		}, ReasonTooManySteps, "have 11 remedies together, and a NodeHealthCheck has 10 steps at most: remove 1", false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			objects, problems := Objects(remedy("compute", "fencing", row.change))
			g.Expect(len(objects) > 0).To(Equal(row.applied))
			if row.reason == "" {
				g.Expect(problems).To(BeEmpty())
				return
			}
			g.Expect(problems).ToNot(BeEmpty())
			g.Expect(problems[0].Reason).To(Equal(row.reason))
			g.Expect(problems[0].Message).To(ContainSubstring(row.message))
			g.Expect(problems[0].Harmless).To(Equal(row.applied))
		})
	}
}

// What is generated from a NodeRemedy that the API server accepts is accepted as well, by the schema, the rules and the policies.
func TestObjects_Accepted_AreAccepted(t *testing.T) {
	f := newFixture(t)
	policiesWork(f)
	for name, row := range map[string]change{
		"sample": func(*fencingv1.NodeRemedy) {},
		"minimal": func(r *fencingv1.NodeRemedy) {
			r.Spec.ThresholdConfigs[1].Remedies[0].Period, r.Spec.NodeSelector = nil, nil
		},
		"long type": func(r *fencingv1.NodeRemedy) { r.Spec.ThresholdConfigs[1].NodeConditionType = "a.b-c/x_y..Z" },
		"all settings": func(r *fencingv1.NodeRemedy) {
			r.Spec.UnhealthyRange, r.Spec.Recovery, r.Spec.Mode, r.Spec.PauseRequests = "[1-3]", "Confirmed", "Observe", []string{"a"}
			r.Spec.StormCooldownDuration = r.Spec.ThresholdConfigs[0].Remedies[0].Period
			r.Spec.RemedyConfigs[3].Fence.Retries = ptr.To[int32](0)
		},
		"10 thresholds": func(r *fencingv1.NodeRemedy) {
			for i := range 8 {
				threshold := r.Spec.ThresholdConfigs[1].DeepCopy()
				threshold.NodeConditionType = remedyv1.NodeConditionType(fmt.Sprint("t", i))
				if i == 7 {
					threshold.Remedies = nil
				}
				r.Spec.ThresholdConfigs = append(r.Spec.ThresholdConfigs, *threshold)
			}
		},
		"12 remedies": func(r *fencingv1.NodeRemedy) {
			for i := range 8 {
				config := *r.Spec.RemedyConfigs[0].DeepCopy()
				config.Name = fencingv1.RemedyName(fmt.Sprint("r", i))
				r.Spec.RemedyConfigs = append(r.Spec.RemedyConfigs, config)
			}
		},
	} {
		r := f.create(row)
		f.reconcile(r)
		f.Expect(valid(r)).To(Equal("True Valid: "), name)
		f.edit(r, func(r *fencingv1.NodeRemedy) { r.Finalizers = nil })
		f.Expect(f.api.Delete(t.Context(), r)).To(Succeed())
		for _, o := range f.owned(r) {
			o.SetFinalizers(nil)
			f.Expect(f.api.Update(t.Context(), o)).To(Succeed())
			f.Expect(f.api.Delete(t.Context(), o)).To(Succeed())
		}
	}
}
