// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// maxRecent is how many remediations that have ended are kept.
const maxRecent = 10

// Status is what a check reports from now on: the new state with the times of the old one, where that has not changed.
func Status(before, now *remedyv1.CheckStatus, ended []remedyv1.RecentRemediation, generation int64, at time.Time) remedyv1.CheckStatus {
	status := *now
	status.ObservedGeneration = generation
	status.Conditions = Conditions(before.Conditions, now.Conditions, generation, at)
	status.RecentRemediations = recent(ended, before.RecentRemediations)
	return status
}

// Conditions are the new ones with the times of the old ones, where their status has not changed. What is not ours any more goes.
func Conditions(before, now []metav1.Condition, generation int64, at time.Time) []metav1.Condition {
	all := make([]metav1.Condition, 0, len(now))
	for i := range now {
		c := now[i]
		c.ObservedGeneration = generation
		c.LastTransitionTime = metav1.NewTime(at.UTC().Truncate(time.Second))
		if present := meta.FindStatusCondition(before, c.Type); present != nil && present.Status == c.Status {
			c.LastTransitionTime = present.LastTransitionTime
		}
		all = append(all, c)
	}
	return all
}

// recent are the last remediations that have ended, the latest first. A write that seemed to fail may have brought some there already.
func recent(ended, before []remedyv1.RecentRemediation) []remedyv1.RecentRemediation {
	all := make([]remedyv1.RecentRemediation, 0, maxRecent)
	for i := len(ended) - 1; i >= 0 && len(all) < maxRecent; i-- {
		if !slices.ContainsFunc(before, func(there remedyv1.RecentRemediation) bool { return equality.Semantic.DeepEqual(there, ended[i]) }) {
			all = append(all, ended[i])
		}
	}
	all = append(all, before[:min(len(before), maxRecent-len(all))]...)
	if len(all) == 0 {
		return nil
	}
	return all
}
