// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// maxRecent is the number of ended remediations in the status.
const maxRecent = 10

// Status returns the new status of a check. Times of conditions that have not changed stay.
func Status(before, now *remedyv1.CheckStatus, ended []remedyv1.RecentRemediation, generation int64, at time.Time) remedyv1.CheckStatus {
	status := *now
	status.ObservedGeneration = generation
	status.Conditions = Conditions(before.Conditions, now.Conditions, generation, at)
	status.RecentRemediations = recent(ended, before.RecentRemediations)
	return status
}

// Conditions returns the new conditions. The times of those whose status has not changed stay; conditions that are not new are dropped.
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

// recent are the last remediations that have ended, the latest first. Some may be there already, after a write whose response was lost.
func recent(ended, before []remedyv1.RecentRemediation) []remedyv1.RecentRemediation {
	all := make([]remedyv1.RecentRemediation, 0, maxRecent)
	for i := len(ended) - 1; i >= 0 && len(all) < maxRecent; i-- {
		if !slices.ContainsFunc(before, func(r remedyv1.RecentRemediation) bool { return equality.Semantic.DeepEqual(r, ended[i]) }) {
			all = append(all, ended[i])
		}
	}
	all = append(all, before[:min(len(before), maxRecent-len(all))]...)
	if len(all) == 0 {
		return nil
	}
	return all
}

// SameHealth reports whether two statuses report the same health of all targets.
func SameHealth(before, now *remedyv1.CheckStatus) bool {
	same := func(a, b remedyv1.UnhealthyTarget) bool { return a.Name == b.Name && a.Reason == b.Reason }
	return ptr.Equal(before.Unhealthy, now.Unhealthy) && ptr.Equal(before.Suspect, now.Suspect) &&
		ptr.Equal(before.Undetermined, now.Undetermined) && slices.EqualFunc(before.UnhealthyTargets, now.UnhealthyTargets, same)
}
