// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"slices"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/profile"
)

// podTemplate is the Pod of an agent, or that of the profile.
func podTemplate(r *Request) (*corev1.PodTemplateSpec, error) {
	template := r.Method.PodTemplate.DeepCopy()
	if template == nil {
		template = agentPod(r)
	}
	spec := &template.Spec
	spec.RestartPolicy = corev1.RestartPolicyNever
	for i := range spec.Containers {
		spec.Containers[i].RestartPolicy, spec.Containers[i].RestartPolicyRules = nil, nil
	}
	if r.Method.ServiceAccountName != "" {
		spec.ServiceAccountName = r.Method.ServiceAccountName
	}
	if spec.ServiceAccountName == "" && spec.AutomountServiceAccountToken == nil {
		spec.AutomountServiceAccountToken = ptr.To(false)
	}
	env := []corev1.EnvVar{{Name: "REMEDY_DIR", Value: folder}}
	if r.Method.PodTemplate != nil {
		if r.Node.ProviderID != "" && !profile.IsNodeText(r.Node.ProviderID) {
			return nil, errors.New("the provider ID of the Node cannot be passed on")
		}
		env = append(env, corev1.EnvVar{Name: "REMEDY_CLUSTER", Value: r.Node.ClusterName},
			corev1.EnvVar{Name: "REMEDY_NODE", Value: r.Node.Name}, corev1.EnvVar{Name: "REMEDY_NODE_UID", Value: string(r.Node.UID)},
			corev1.EnvVar{Name: "REMEDY_PROVIDER_ID", Value: r.Node.ProviderID},
			corev1.EnvVar{Name: "REMEDY_METHOD", Value: string(r.Method.Name)}, corev1.EnvVar{Name: "REMEDY_ACTION", Value: string(r.Action.Action)})
	}
	first := &spec.Containers[0]
	if first.TerminationMessagePolicy == "" {
		first.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	}
	// These come first, so that others can refer to them.
	first.Env = append(env, slices.DeleteFunc(first.Env, func(e corev1.EnvVar) bool {
		return slices.ContainsFunc(env, func(o corev1.EnvVar) bool { return o.Name == e.Name })
	})...)
	first.VolumeMounts = append(slices.DeleteFunc(first.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == folder }),
		corev1.VolumeMount{Name: "remedy", MountPath: folder, ReadOnly: true})
	spec.Volumes = append(slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == "remedy" }), files(r))
	return template, avoid(spec, r.AvoidNode)
}

// files are the parameters, and the keys of the Secret. A missing one does not keep the Pod from starting: the script reports it.
func files(r *Request) corev1.Volume {
	sources := []corev1.VolumeProjection{{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
		Path: "parameters", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['" + ParametersAnnotation + "']"},
	}}}}}
	if r.Method.SecretName != "" {
		secret := &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: r.Method.SecretName}, Optional: ptr.To(true),
		}
		for _, key := range r.Method.SecretKeys {
			secret.Items = append(secret.Items, corev1.KeyToPath{Key: string(key), Path: "secrets/" + string(key)})
		}
		sources = append(sources, corev1.VolumeProjection{Secret: secret})
	}
	return corev1.Volume{Name: "remedy", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}}}
}

// agentPod is the Pod of an agent. It meets the restricted Pod Security Standard.
func agentPod(r *Request) *corev1.PodTemplateSpec {
	keys := make([]string, 0, len(r.Method.SecretKeys))
	for _, key := range r.Method.SecretKeys {
		keys = append(keys, string(key))
	}
	return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		EnableServiceLinks: ptr.To(false),
		// A shell that is the first process ignores SIGTERM, so that the whole period would pass.
		TerminationGracePeriodSeconds: ptr.To[int64](5),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](unprivileged), RunAsGroup: ptr.To[int64](unprivileged),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Tolerations: []corev1.Toleration{
			{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule},
			{Key: "node-role.kubernetes.io/master", Effect: corev1.TaintEffectNoSchedule},
		},
		Containers: []corev1.Container{{
			Name: "agent", Image: r.Method.Image, Command: []string{"/bin/sh", "-c", script, r.Method.Agent}, Args: keys,
			// The kubelet mounts the termination log, so that a read-only root does not matter to it.
			TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
			VolumeMounts: []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}},
		}},
		Volumes: []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	}}
}

// avoid keeps the Pod off a Node: one that is switched off cannot report that it is.
func avoid(spec *corev1.PodSpec, node string) error {
	if node == "" {
		return nil
	}
	if spec.NodeName == node {
		return errors.Errorf("its podTemplate runs on the Node %s that is fenced", node)
	}
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	required := &spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if *required == nil || len((*required).NodeSelectorTerms) == 0 {
		*required = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}
	}
	// A Node needs to match only one of the terms.
	for i := range (*required).NodeSelectorTerms {
		term := &(*required).NodeSelectorTerms[i]
		term.MatchFields = append(term.MatchFields,
			corev1.NodeSelectorRequirement{Key: "metadata.name", Operator: corev1.NodeSelectorOpNotIn, Values: []string{node}})
	}
	return nil
}
