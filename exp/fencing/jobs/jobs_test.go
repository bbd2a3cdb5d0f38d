// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package jobs_test

import (
	"encoding/json"
	"regexp"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/jobs"
)

func request(action fencingv1.Action) jobs.Request {
	return jobs.Request{
		Fence:    types.NamespacedName{Namespace: "default", Name: "worker-1-x7"},
		FenceUID: "0f1e2d3c-0000-4000-8000-000000000000", ProfileName: "rack-a",
		Node:   fencingv1.FencedNode{Name: "worker-1", UID: "node-uid", ProviderID: "metal3://1f0c", ClusterName: "prod"},
		Action: fencingv1.FenceAction{Sequence: 3, Method: "ipmi", Action: action},
		Method: fencingv1.FenceMethod{
			Name: "ipmi", Agent: "fence_ipmilan", Image: "agents:4.12",
			Parameters: fencingv1.Parameters{"lanplus": "1", "ip": "10.0.0.11", "cipher": "3"},
			SecretName: "bmc", SecretKeys: []fencingv1.ParameterName{"username", "password"},
		},
		AvoidNode: "worker-1",
	}
}

// ownPod is a request whose method has a Pod template.
func ownPod(action fencingv1.Action, change func(*corev1.PodSpec)) jobs.Request {
	r := request(action)
	r.Method.Agent, r.Method.Image = "", ""
	r.Method.PodTemplate = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "playbook", Image: "ansible:1"}, {Name: "proxy", Image: "proxy:1"},
	}}}
	change(&r.Method.PodTemplate.Spec)
	return r
}

func build(g Gomega, r jobs.Request) *batchv1.Job {
	job, err := jobs.Build(r)
	g.Expect(err).ToNot(HaveOccurred())
	job.UID = "job-uid"
	return job
}

func TestName_Fence_IsShort(t *testing.T) {
	g := NewWithT(t)
	g.Expect(jobs.Name("0f1e2d3c-0000-4000-8000-000000000000", 12)).To(Equal("nf-0f1e2d3c-12"))
	g.Expect(jobs.Name("x", 1)).To(Equal("nf-x-1"))
}

func TestDevice_SameAddress_IsSameDevice(t *testing.T) {
	g := NewWithT(t)
	method := request(fencingv1.ActionOff).Method
	device := jobs.Device("rack-a", method)
	g.Expect(validation.IsValidLabelValue(device)).To(BeEmpty())
	method.Parameters = fencingv1.Parameters{"ip": "10.0.0.11", "plug": "2"}
	g.Expect(jobs.Device("rack-a", method)).To(Equal(device), "another outlet")
	g.Expect(jobs.Device("rack-b", method)).ToNot(Equal(device))
	method.Parameters["ip"] = "10.0.0.12"
	g.Expect(jobs.Device("rack-a", method)).ToNot(Equal(device))
	method.Parameters["ip"], method.Name = "10.0.0.11", "pdu"
	g.Expect(jobs.Device("rack-a", method)).ToNot(Equal(device))
}

func TestBuild_Agent_IsOneRestrictedPod(t *testing.T) {
	g := NewWithT(t)
	r := request(fencingv1.ActionOff)
	r.Method.Timeout = &remedyv1.Duration{Duration: metav1.Duration{Duration: 90500 * time.Millisecond}}
	job := build(g, r)
	g.Expect(job.Namespace + "/" + job.Name).To(Equal("default/nf-0f1e2d3c-3"))
	g.Expect(metav1.GetControllerOf(job)).To(HaveValue(Equal(metav1.OwnerReference{
		APIVersion: "remedy.cluster.x-k8s.io/v1alpha1", Kind: "NodeFence", Name: "worker-1-x7", UID: r.FenceUID,
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(false),
	})))
	for _, labels := range []map[string]string{job.Labels, job.Spec.Template.Labels} {
		g.Expect(labels).To(And(HaveKeyWithValue(jobs.FenceLabel, string(r.FenceUID)), HaveKeyWithValue(jobs.MethodLabel, "ipmi"),
			HaveKeyWithValue(jobs.ActionLabel, "off"), HaveKeyWithValue(jobs.DeviceLabel, jobs.Device("rack-a", r.Method))))
	}
	spec := job.Spec
	g.Expect(spec.Template.Annotations).To(Equal(map[string]string{
		jobs.ParametersAnnotation: "cipher=3\nip=10.0.0.11\nlanplus=1\naction=off\n",
	}))
	g.Expect([]int32{*spec.BackoffLimit, *spec.Completions, *spec.Parallelism}).To(Equal([]int32{0, 1, 1}))
	g.Expect(spec.PodReplacementPolicy).To(HaveValue(Equal(batchv1.Failed)))
	g.Expect(spec.ActiveDeadlineSeconds).To(HaveValue(Equal(int64(91))))

	pod := spec.Template.Spec
	g.Expect(pod.RestartPolicy).To(Equal(corev1.RestartPolicyNever))
	g.Expect(pod.AutomountServiceAccountToken).To(HaveValue(BeFalse()))
	g.Expect(pod.ServiceAccountName).To(BeEmpty())
	g.Expect(pod.ActiveDeadlineSeconds).To(BeNil())
	g.Expect([]bool{pod.HostNetwork, pod.HostPID, pod.HostIPC}).To(Equal([]bool{false, false, false}))
	g.Expect(pod.SecurityContext.RunAsNonRoot).To(HaveValue(BeTrue()))
	g.Expect(pod.SecurityContext.SeccompProfile.Type).To(Equal(corev1.SeccompProfileTypeRuntimeDefault))
	g.Expect(pod.Containers).To(HaveLen(1))
	container := pod.Containers[0]
	g.Expect(container.Image).To(Equal("agents:4.12"))
	g.Expect(container.Command[:2]).To(Equal([]string{"/bin/sh", "-c"}))
	g.Expect(container.Command[3:]).To(Equal([]string{"fence_ipmilan"}))
	g.Expect(container.Args).To(Equal([]string{"username", "password"}))
	g.Expect(container.Env).To(Equal([]corev1.EnvVar{{Name: "REMEDY_DIR", Value: "/remedy"}}))
	g.Expect(container.TerminationMessagePolicy).To(Equal(corev1.TerminationMessageReadFile), "what it logs is no answer")
	g.Expect(container.SecurityContext).To(HaveValue(Equal(corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	})))
	g.Expect(container.VolumeMounts).To(ContainElement(corev1.VolumeMount{Name: "remedy", MountPath: "/remedy", ReadOnly: true}))
}

func TestBuild_Files_AreParametersAndKeysOfSecret(t *testing.T) {
	g := NewWithT(t)
	volumes := build(g, request(fencingv1.ActionOff)).Spec.Template.Spec.Volumes
	sources := volumes[len(volumes)-1].Projected.Sources
	g.Expect(sources).To(HaveLen(2))
	g.Expect(sources[0].DownwardAPI.Items).To(Equal([]corev1.DownwardAPIVolumeFile{{
		Path: "parameters", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['remedy.cluster.x-k8s.io/parameters']"},
	}}))
	g.Expect(sources[1].Secret).To(HaveValue(Equal(corev1.SecretProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: "bmc"}, Optional: ptr.To(true),
		Items: []corev1.KeyToPath{{Key: "username", Path: "secrets/username"}, {Key: "password", Path: "secrets/password"}},
	})), "only the keys of the method; if one is missing, the script reports it")
	r := request(fencingv1.ActionOff)
	r.Method.SecretName, r.Method.SecretKeys = "", nil
	job := build(g, r)
	volumes = job.Spec.Template.Spec.Volumes
	g.Expect(volumes[len(volumes)-1].Projected.Sources).To(HaveLen(1))
	g.Expect(job.Spec.Template.Spec.Containers[0].Args).To(BeEmpty())
}

func TestBuild_AvoidNode_IsInEveryTerm(t *testing.T) {
	g := NewWithT(t)
	not := corev1.NodeSelectorRequirement{Key: "metadata.name", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"worker-1"}}
	terms := func(r jobs.Request) []corev1.NodeSelectorTerm {
		return build(g, r).Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	}
	g.Expect(terms(request(fencingv1.ActionOff))).To(Equal([]corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{not}}}))
	zone := corev1.NodeSelectorRequirement{Key: "zone", Operator: corev1.NodeSelectorOpExists}
	own := ownPod(fencingv1.ActionOff, func(spec *corev1.PodSpec) {
		spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{zone}}, {MatchFields: []corev1.NodeSelectorRequirement{zone}},
			},
		}}}
	})
	for range 2 {
		g.Expect(terms(own)).To(Equal([]corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{zone}, MatchFields: []corev1.NodeSelectorRequirement{not}},
			{MatchFields: []corev1.NodeSelectorRequirement{zone, not}},
		}), "and the request is not changed")
	}
	own.AvoidNode = ""
	g.Expect(terms(own)[0].MatchFields).To(BeEmpty())
	_, err := jobs.Build(ownPod(fencingv1.ActionOff, func(spec *corev1.PodSpec) { spec.NodeName = "worker-1" }))
	g.Expect(err).To(MatchError(ContainSubstring("runs on the Node worker-1 that is fenced")))
}

func TestBuild_PodTemplate_KeepsWhatIsNotUnsafe(t *testing.T) {
	g := NewWithT(t)
	always := corev1.ContainerRestartPolicyAlways
	r := ownPod(fencingv1.ActionRun, func(spec *corev1.PodSpec) {
		spec.RestartPolicy, spec.HostNetwork, spec.ServiceAccountName = corev1.RestartPolicyOnFailure, true, "ansible"
		spec.Volumes = []corev1.Volume{{Name: "remedy"}, {Name: "inventory"}}
		spec.Containers[0].RestartPolicy, spec.Containers[0].RestartPolicyRules = &always, []corev1.ContainerRestartRule{{}}
		spec.Containers[0].Env = []corev1.EnvVar{{Name: "REMEDY_ACTION", Value: "off"}, {Name: "LIMIT", Value: "$(REMEDY_NODE)"}}
		spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "inventory", MountPath: "/inventory"}}
	})
	r.Method.PodTemplate.Labels = map[string]string{"app": "ansible", jobs.FenceLabel: "forged"}
	before := r.Method.DeepCopy()
	job := build(g, r)
	g.Expect(r.Method).To(Equal(*before), "the request is not changed")
	template := job.Spec.Template
	g.Expect(template.Labels).To(And(HaveKeyWithValue("app", "ansible"), HaveKeyWithValue(jobs.FenceLabel, string(r.FenceUID))))
	g.Expect(template.Spec.RestartPolicy).To(Equal(corev1.RestartPolicyNever))
	g.Expect(template.Spec.HostNetwork).To(BeTrue())
	g.Expect(template.Spec.ServiceAccountName).To(Equal("ansible"))
	g.Expect(template.Spec.AutomountServiceAccountToken).To(BeNil())
	g.Expect(template.Spec.SecurityContext).To(BeNil())
	g.Expect(template.Spec.Volumes).To(HaveLen(2))
	first := template.Spec.Containers[0]
	g.Expect(first.RestartPolicy).To(BeNil())
	g.Expect(first.RestartPolicyRules).To(BeNil())
	g.Expect(first.Command).To(BeNil())
	g.Expect(first.TerminationMessagePolicy).To(Equal(corev1.TerminationMessageFallbackToLogsOnError), "its answer is in its log")
	g.Expect(first.Env).To(Equal([]corev1.EnvVar{
		{Name: "REMEDY_DIR", Value: "/remedy"},
		{Name: "REMEDY_CLUSTER", Value: "prod"},
		{Name: "REMEDY_NODE", Value: "worker-1"},
		{Name: "REMEDY_NODE_UID", Value: "node-uid"},
		{Name: "REMEDY_PROVIDER_ID", Value: "metal3://1f0c"},
		{Name: "REMEDY_METHOD", Value: "ipmi"},
		{Name: "REMEDY_ACTION", Value: "run"},
		{Name: "LIMIT", Value: "$(REMEDY_NODE)"},
	}))
	g.Expect(first.VolumeMounts).To(HaveLen(2))
	g.Expect(template.Spec.Containers[1]).To(Equal(r.Method.PodTemplate.Spec.Containers[1]))

	bare := ownPod(fencingv1.ActionRun, func(*corev1.PodSpec) {})
	g.Expect(build(g, bare).Spec.Template.Spec.AutomountServiceAccountToken).To(HaveValue(BeFalse()))
	bare.Method.ServiceAccountName = "csi"
	spec := build(g, bare).Spec.Template.Spec
	g.Expect(spec.ServiceAccountName).To(Equal("csi"))
	g.Expect(spec.AutomountServiceAccountToken).To(BeNil())
}

func TestBuild_UnsafeRequest_IsRefused(t *testing.T) {
	for name, change := range map[string]func(*jobs.Request){
		"no action":            func(r *jobs.Request) { r.Action.Action = "" },
		"reboot":               func(r *jobs.Request) { r.Action.Action = "reboot" },
		"agent runs":           func(r *jobs.Request) { r.Action.Action = fencingv1.ActionRun },
		"other program":        func(r *jobs.Request) { r.Method.Agent = "/bin/sh" },
		"no agent":             func(r *jobs.Request) { r.Method.Agent = "" },
		"no image":             func(r *jobs.Request) { r.Method.Image = "" },
		"action as parameter":  func(r *jobs.Request) { r.Method.Parameters["action"] = "on" },
		"two lines":            func(r *jobs.Request) { r.Method.Parameters["ip"] = "a\naction=on" },
		"program of a Secret":  func(r *jobs.Request) { r.Method.SecretKeys = []fencingv1.ParameterName{"password-script"} },
		"file of another path": func(r *jobs.Request) { r.Method.SecretKeys = []fencingv1.ParameterName{"../parameters"} },
		"hostile provider ID": func(r *jobs.Request) {
			*r = ownPod(fencingv1.ActionOff, func(*corev1.PodSpec) {})
			r.Node.ProviderID = "$(REMEDY_DIR)"
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(fencingv1.ActionOff)
			change(&r)
			job, err := jobs.Build(r)
			NewWithT(t).Expect(err).To(HaveOccurred())
			NewWithT(t).Expect(job).To(BeNil())
		})
	}
}

// The kubelet replaces $(NAME) and $$ in a command.
func TestBuild_Script_HasNothingThatKubeletReplaces(t *testing.T) {
	g := NewWithT(t)
	job := build(g, request(fencingv1.ActionOff))
	script := job.Spec.Template.Spec.Containers[0].Command[2]
	g.Expect(regexp.MustCompile(`\$\$|\$\([A-Za-z0-9_.-]*\)`).FindString(script)).To(BeEmpty())
	text, err := json.Marshal(job)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(len(text)).To(BeNumerically("<", 8000), "a Job is small")
}
