// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"strings"

	"github.com/pkg/errors"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// podOf returns the one Deployment of a provider's namespace, and its one container: what a node would run.
func (w *World) podOf(ctx context.Context, p provider) (*appsv1.Deployment, *corev1.Container, error) {
	found := &appsv1.DeploymentList{}
	labels := client.MatchingLabels{"cluster.x-k8s.io/provider": p.label}
	if err := w.Client.List(ctx, found, client.InNamespace(w.namespaces[p.process]), labels); err != nil {
		return nil, nil, errors.Wrapf(err, "failed to look for the Deployment of %s", p.label)
	}
	if len(found.Items) != 1 || len(found.Items[0].Spec.Template.Spec.Containers) != 1 {
		return nil, nil, errors.Errorf("%s should have one Deployment with one container, and has %d", p.label, len(found.Items))
	}
	return &found.Items[0], &found.Items[0].Spec.Template.Spec.Containers[0], nil
}

// environment is what the kubelet would make of the container's environment; given wins over it.
func environment(d *appsv1.Deployment, c *corev1.Container, given []string) ([]string, error) {
	set := map[string]bool{}
	for _, pair := range given {
		name, _, _ := strings.Cut(pair, "=")
		set[name] = true
	}
	made := given
	for _, e := range c.Env {
		if set[e.Name] {
			continue
		}
		value := e.Value
		if e.ValueFrom != nil {
			if e.ValueFrom.FieldRef == nil {
				return nil, errors.Errorf("%s of Deployment %s: nothing but a fieldRef can be filled in here", e.Name, d.Name)
			}
			switch path := e.ValueFrom.FieldRef.FieldPath; path {
			case "metadata.namespace":
				value = d.Namespace
			case "metadata.name":
				value = d.Name + "-world"
			case "metadata.uid":
				value = string(d.UID)
			case "status.podIP":
				value = "127.0.0.1"
			default:
				return nil, errors.Errorf("%s of Deployment %s: %s cannot be filled in here", e.Name, d.Name, path)
			}
		}
		made = append(made, e.Name+"="+value)
	}
	return made, nil
}

// override replaces flags of a command line by others of the same name, and adds those that it does not have.
func override(args, flags []string) []string {
	wins := map[string]bool{}
	for _, flag := range flags {
		wins[flagName(flag)] = true
	}
	var kept []string
	for _, arg := range args {
		if !wins[flagName(arg)] {
			kept = append(kept, arg)
		}
	}
	return append(kept, flags...)
}

// flagName takes --name out of --name=value. The arguments of a Deployment always have this form: a value is never an argument of its own.
func flagName(arg string) string {
	name, _, _ := strings.Cut(arg, "=")
	return "--" + strings.TrimLeft(name, "-")
}
