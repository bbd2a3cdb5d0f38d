// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// Reference names a template.
type Reference struct {
	APIVersion, Kind, Namespace, Name string
}

// TemplateKind is the kind of the template.
func (r Reference) TemplateKind() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(r.APIVersion, r.Kind)
}

// RequestKind is the kind of the requests that are created from it.
func (r Reference) RequestKind() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(r.APIVersion, strings.TrimSuffix(r.Kind, clusterv1.TemplateSuffix))
}

// Same reports whether both name the same template, in any version.
func (r Reference) Same(other Reference) bool {
	return r.Kind == other.Kind && r.Name == other.Name && r.Namespace == other.Namespace &&
		r.TemplateKind().Group == other.TemplateKind().Group
}

// Naming is the names of the templates of one check in messages and in steps: kind and name, and more if two would have the same name.
type Naming []Reference

// Text is the name of a template, such as Metal3RemediationTemplate/m3.
func (n Naming) Text(r Reference) string {
	kind, name := r.Kind, r.Name
	var otherGroup, otherNamespace bool
	for _, other := range n {
		if other.Kind == r.Kind && other.Name == r.Name {
			otherGroup = otherGroup || other.TemplateKind().Group != r.TemplateKind().Group
			otherNamespace = otherNamespace || other.Namespace != r.Namespace
		}
	}
	if otherGroup {
		kind += "." + r.TemplateKind().Group
	}
	if otherNamespace {
		name = r.Namespace + "/" + name
	}
	return kind + "/" + name
}

// StepID identifies the step with this order and template.
func (n Naming) StepID(order int32, r Reference) remediation.StepID {
	return remediation.StepID{Order: order, Template: n.Text(r)}
}

// pluralEntry is one entry of the annotation with plurals. The admission policy has the same pattern.
var pluralEntry = regexp.MustCompile("^[A-Z][A-Za-z0-9]*=[a-z0-9]([-a-z0-9]*[a-z0-9])?$")

// Plural is the plural of a request kind for which admission has verified the permission of the author of the check: the one in the
// annotation, or else the kind with an s.
func Plural(annotation, kind string) string {
	for entry := range strings.SplitSeq(annotation, ",") {
		entry = strings.TrimSpace(entry)
		if named, plural, _ := strings.Cut(entry, "="); named == kind && pluralEntry.MatchString(entry) {
			return plural
		}
	}
	return strings.ToLower(kind) + "s"
}

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

// LabelIn is the label of requests in a place; empty outside of a workload cluster.
func (c Check) LabelIn(place Place, cluster client.ObjectKey) string {
	if place != InWorkload {
		return ""
	}
	return c.Label(cluster)
}

// Label is the label of requests in a workload cluster. It identifies the check and the Cluster by a hash, because a name can be too long.
func (c Check) Label(cluster client.ObjectKey) string {
	sum := sha256.Sum256([]byte(c.String() + " " + cluster.String()))
	return "check-" + hex.EncodeToString(sum[:20])
}
