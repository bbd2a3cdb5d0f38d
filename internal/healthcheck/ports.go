// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// Check is a check of any kind. It is immutable: a write returns another one.
type Check struct {
	ID requests.Check
	// Object is the check itself. Its metadata is read and written; events are about it.
	Object client.Object
	// Cluster is where its targets are; workload.ManagementCluster for the management cluster.
	Cluster client.ObjectKey
	// Paused: the check itself is paused.
	Paused bool
	Status remedyv1.CheckStatus
	// Templates are those of its steps, in their order, and Naming returns their names in steps.
	Templates []requests.Reference
	Naming    requests.Naming
	// Selector selects its targets by their labels; nil if it is invalid.
	Selector labels.Selector
	Health   health.Policy
	Policy   remediation.Policy
	// PauseRequests are the reasons for which users have paused remediation.
	PauseRequests []string
	// Place is where its requests are, and InFlight are the Nodes that it remediates according to its status. Only checks of Nodes have them.
	Place    requests.Place
	InFlight []string
	// Claim is compared with those of other checks that select the same targets.
	Claim remediation.Claim
}

// RequestLabel is the label of the check's requests in a workload cluster; empty if they are elsewhere.
func (c *Check) RequestLabel() string { return c.ID.LabelIn(c.Place, c.Cluster) }

// created reports whether a request was created for the check.
func (c *Check) created(r *requests.Request) bool { return r.CreatedBy(c.ID, c.RequestLabel()) }

// Title returns the kind and the name of a check for messages.
func (c *Check) Title() string { return title(c.ID.Kind, client.ObjectKeyFromObject(c.Object)) }

func title(kind string, key client.ObjectKey) string {
	if key.Namespace == "" {
		return kind + " " + key.Name
	}
	return kind + " " + key.String()
}

// MarkedBy returns the value of the annotation with which a check signs its targets.
func (c *Check) MarkedBy() string { return c.ID.Kind + "/" + c.ID.Name }

// Signed reports whether the check has signed a target.
func (c *Check) Signed(target client.Object) bool {
	return notes.ResponsibleCheck(target.GetAnnotations()) == c.MarkedBy()
}

func (c *Check) deleting() bool { return !c.Object.GetDeletionTimestamp().IsZero() }

// ofNodes reports whether its targets are Nodes.
func (c *Check) ofNodes() bool { return c.Claim.Rank == remediation.NodeHealthCheck }

// inManagementCluster reports whether its Nodes are those of the management cluster.
func (c *Check) inManagementCluster() bool { return c.Cluster == workload.ManagementCluster }

// LeaseHolder is the holder of the Leases of Nodes and of the control plane that this check acquires.
func (c *Check) LeaseHolder() string { return c.ID.Holder(c.Cluster) }

// Target is a Machine with its Node, or a Node with its Machine.
type Target struct {
	// Object is the target itself: its annotations carry the history of its remediations.
	Object client.Object
	// Machine is nil for a Node without one.
	Machine *clusterv1.Machine
	// ControlPlane: it belongs to the control plane.
	ControlPlane bool
	// NodeTarget identifies its Node, and Subject is the target of its requests.
	NodeTarget workload.Target
	Subject    requests.Target
	// Reading is the result of reading its Node.
	Reading workload.Reading
}

func (t *Target) name() string { return t.Object.GetName() }

// uid identifies a target. It is the UID, if it has one.
func (t *Target) uid() types.UID {
	return requests.Object{Name: t.name(), UID: t.Object.GetUID()}.Identity()
}

// title returns the kind and the name of a target for messages.
func (t *Target) title() string {
	if t.Subject.OfNode {
		return title("Node", client.ObjectKeyFromObject(t.Object))
	}
	return title("Machine", client.ObjectKeyFromObject(t.Object))
}

// Claim is another check that may select the same targets.
type Claim struct {
	remediation.Claim
	// Title is that of the check.
	Title string
	// Check is the name of the check in its requests, and MarkedBy in its annotation on targets; empty if it has none. Label is that of its
	// requests in a workload cluster.
	Check           requests.Check
	MarkedBy, Label string
	// InTree: the in-tree controller is responsible for what it selects.
	InTree bool
	// Deleting: only its running remediations count, because it is being deleted, or may be a check of another cluster.
	Deleting bool
	Selects  func(t *Target) bool
	// InFlight are the Nodes that it remediates according to its status, and Namespaces those in which a cluster-scoped check has requests.
	InFlight   map[string]bool
	Namespaces []string
}

// Store reads the checks of one kind and writes their status.
type Store interface {
	Kind() string
	// Object is an empty object of the kind.
	Object() client.Object
	// Find reads a check and its Cluster, which is nil if it does not exist.
	Find(ctx context.Context, reader client.Reader, key client.ObjectKey) (*Check, *clusterv1.Cluster, error)
	// WriteStatus writes a status, unless the check has it already, and returns the new check. While the check is paused,
	// fields that only this kind has stay unchanged.
	WriteStatus(ctx context.Context, check *Check, status *remedyv1.CheckStatus, evaluation *explain.Evaluation) (*Check, error)
}

// Source reads what the checks of one kind monitor.
type Source interface {
	// Targets returns those that a check selects, and others of its Cluster, sorted by name. It does not read the Nodes of Machines. If the
	// targets are Nodes that cannot be read, the error is a workload.ReadError.
	Targets(ctx context.Context, reader client.Reader, check *Check, live bool) (selected, others []*Target, err error)
	// Get returns one target, and whether the check selects it; nil if it does not exist.
	Get(ctx context.Context, reader client.Reader, check *Check, name string) (target *Target, selected bool, err error)
	// Facts returns the facts of a target. It writes those of its Machine to the given address.
	Facts(check *Check, target *Target, machine *health.MachineFacts) (health.Target, remediation.Target)
}

// Actor writes to targets of one kind, which are in or belong to a cluster. Each write fails if the object has changed since it was read,
// and returns the new object.
type Actor interface {
	Annotate(ctx context.Context, cluster client.ObjectKey, object client.Object, n notes.Notes) (client.Object, error)
	// Reported reports whether the conditions of the object are up to date. Report writes them.
	Reported(object client.Object, facts *explain.Facts, check *remediation.Check) bool
	Report(ctx context.Context, object client.Object, facts *explain.Facts, check *remediation.Check, now time.Time) (client.Object, error)
	// CancelOwnerRemediation removes the request for owner remediation, and ClearConditions all conditions that the check has set.
	CancelOwnerRemediation(ctx context.Context, object client.Object) (client.Object, error)
	ClearConditions(ctx context.Context, object client.Object) (client.Object, error)
}

// Claimant reads the checks of one kind that may select the same targets as other checks. Every kind has one, and every reconciler uses
// all.
type Claimant interface {
	// Claims returns those of the checks of a Cluster, without the check itself.
	Claims(ctx context.Context, reader client.Reader, check *Check, cluster *clusterv1.Cluster) ([]Claim, error)
	// Object returns an empty object of the kind, Cluster the Cluster of a check, and Changes the changes that other checks read.
	Object() client.Object
	Cluster(check client.Object) client.ObjectKey
	Changes() predicate.Predicate
}

// Adoption decides which checks of a kind the manager reconciles. Without one, it reconciles all that --watch-filter selects.
type Adoption interface {
	// Admit executes the next step of the adoption or release of a check, and returns whether the manager reconciles it now. It releases a
	// check that this instance has adopted and for which another one is responsible now.
	Admit(ctx context.Context, key client.ObjectKey, now time.Time) (admitted bool, wakeUp time.Time, err error)
	// Forget drops the memory of a check that no longer exists.
	Forget(key client.ObjectKey)
	// HasAdopted reports whether this instance has adopted a check. Changed reports whether an update may change that.
	HasAdopted(check client.Object) bool
	Changed(before, after client.Object) bool
	// OwnsStatus reports whether the manager writes the status of a check and the conditions of its targets.
	OwnsStatus(check *Check) bool
	// AdoptsRequest reads live whether a request that the manager did not create can only be one of this check.
	AdoptsRequest(ctx context.Context, check *Check, cluster *clusterv1.Cluster, target *Target) (bool, error)
}
