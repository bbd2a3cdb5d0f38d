// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package features defines the feature gates.
package features

import (
	"github.com/pkg/errors"
	"k8s.io/component-base/featuregate"
)

// WarmStandby fills the caches of an instance that does not lead, so it starts to reconcile as soon as it is elected.
// It costs a second copy of every watch.
//
// alpha: v0.1
const WarmStandby featuregate.Feature = "WarmStandby"

// NodeFencing allows a process to run the controller of exp/fencing, which switches machines off and on.
//
// alpha: v0.1
const NodeFencing featuregate.Feature = "NodeFencing"

// New returns the gates with their defaults. The flag --feature-gates changes them.
func New() (featuregate.MutableFeatureGate, error) {
	gates := featuregate.NewFeatureGate()
	err := gates.Add(map[featuregate.Feature]featuregate.FeatureSpec{
		WarmStandby: {Default: false, PreRelease: featuregate.Alpha},
		NodeFencing: {Default: false, PreRelease: featuregate.Alpha},
	})
	return gates, errors.Wrap(err, "failed to register the feature gates")
}
