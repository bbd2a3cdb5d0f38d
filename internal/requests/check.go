// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Check identifies a check, also after a move to another management cluster.
type Check struct {
	// Kind is the kind of the check. In-tree checks have another one, because they can have the name of a check of Remedy.
	Kind string
	// Namespace is empty for cluster-scoped checks.
	Namespace, Name string
}

// String is the value of the annotation on requests: kind/namespace/name.
func (c Check) String() string { return c.Kind + "/" + c.Namespace + "/" + c.Name }

// ParseCheck parses the annotation on requests; false if it is invalid.
func ParseCheck(text string) (Check, bool) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 || parts[0] == "" || parts[2] == "" {
		return Check{}, false
	}
	return Check{Kind: parts[0], Namespace: parts[1], Name: parts[2]}, true
}

// ofCluster separates the check and the Cluster of a holder.
const ofCluster = " of Cluster "

// Holder is the check as the holder of Leases in the cluster of its Nodes: there, too, a NodeHealthCheck of its name can exist.
func (c Check) Holder(cluster client.ObjectKey) string {
	if c.Namespace != "" || cluster == (client.ObjectKey{}) {
		return c.String()
	}
	return c.String() + ofCluster + cluster.String()
}

// ParseHolder parses the holder of a Lease; false if it is not a check.
func ParseHolder(holder string) (Check, bool) {
	check, _, _ := strings.Cut(holder, ofCluster)
	return ParseCheck(check)
}

// text is its name in messages.
func (c Check) text() string {
	if c.Namespace == "" {
		return c.Kind + " " + c.Name
	}
	return c.Kind + " " + c.Namespace + "/" + c.Name
}

// Label is the label of requests in a workload cluster. It identifies the check and the Cluster by a hash, because a name can be too long.
func (c Check) Label(cluster client.ObjectKey) string {
	sum := sha256.Sum256([]byte(c.String() + " " + cluster.String()))
	return "check-" + hex.EncodeToString(sum[:20])
}
