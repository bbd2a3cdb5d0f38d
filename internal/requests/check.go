// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Check names a check. A move to another management cluster does not change it.
type Check struct {
	// Kind tells the kinds of checks apart. It must be another one for those of Cluster API, which can have the same name as ours.
	Kind string
	// Namespace is empty where checks have none.
	Namespace, Name string
}

// String is the form that requests carry: kind/namespace/name.
func (c Check) String() string { return c.Kind + "/" + c.Namespace + "/" + c.Name }

// ParseCheck is the check that a request carries; false if it does not name one.
func ParseCheck(text string) (Check, bool) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 || parts[0] == "" || parts[2] == "" {
		return Check{}, false
	}
	return Check{Kind: parts[0], Namespace: parts[1], Name: parts[2]}, true
}

// text is how messages name it.
func (c Check) text() string {
	if c.Namespace == "" {
		return c.Kind + " " + c.Name
	}
	return c.Kind + " " + c.Namespace + "/" + c.Name
}

// Label identifies the check and the Cluster that it looks after, where requests live in that cluster: a name can be too long for a label.
func (c Check) Label(cluster client.ObjectKey) string {
	sum := sha256.Sum256([]byte(c.String() + " " + cluster.String()))
	return "check-" + hex.EncodeToString(sum[:20])
}
