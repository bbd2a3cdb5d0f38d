// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/settings"
)

// coreChecksFlag says to a manager which checks of Cluster API are its own.
const coreChecksFlag = "core-machinehealthchecks"

// manager is what is known of our managers.
type manager struct {
	// runs: one may be at work. takesAll: it is told to take care of all checks.
	runs, takesAll bool
}

// manager looks for our managers. Whoever may not see them, such as somebody who has rights in one namespace only, has to expect the most that one could do.
func (l *Leaver) manager(ctx context.Context) manager {
	managers, err := l.Management.managers(ctx)
	if err != nil {
		return manager{runs: true, takesAll: true}
	}
	m := manager{}
	for i := range managers {
		m.runs = m.runs || wanted(&managers[i])
		m.takesAll = m.takesAll || slices.ContainsFunc(told(&managers[i]), takesAll)
	}
	return m
}

// takesAll says whether a manager that was told this may take checks that do not ask for it. What is filled in when the pod starts is not known here.
func takesAll(told settings.CoreChecks) bool {
	return told != settings.Ignore && told != settings.Annotated
}

// alone says whether a manager was told that Cluster API's own controller does not run.
func alone(manager appsv1.Deployment) bool {
	return slices.Contains(told(&manager), settings.Exclusive)
}

// told is what each container of a manager was told of Cluster API's checks, where it was told anything.
func told(manager *appsv1.Deployment) []settings.CoreChecks {
	var all []settings.CoreChecks
	for i := range manager.Spec.Template.Spec.Containers {
		if one, is := toldOne(&manager.Spec.Template.Spec.Containers[i]); is {
			all = append(all, one)
		}
	}
	return all
}

// toldOne reads a command line as the manager does: a value comes after an equals sign or as the next word, underscores are dashes, and the last one counts.
// One dash instead of two is meant as well: such a manager does not start, and somebody will mend it.
func toldOne(container *corev1.Container) (said settings.CoreChecks, is bool) {
	words := slices.Concat(container.Command, container.Args)
	for i, word := range words {
		if word == "--" {
			break
		}
		name, value, whole := strings.Cut(word, "=")
		if flag, dashed := strings.CutPrefix(name, "-"); !dashed || strings.ReplaceAll(strings.TrimPrefix(flag, "-"), "_", "-") != coreChecksFlag {
			continue
		}
		if !whole && i+1 < len(words) {
			value = words[i+1]
		}
		said, is = settings.CoreChecks(value), true
	}
	return said, is
}
