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

// Check is a check of any kind. It is never changed: a write returns another one.
type Check struct {
	ID requests.Check
	// Object is the check itself. Its metadata is read and written; events are about it.
	Object client.Object
	// Cluster is where its targets are; workload.Home for the management cluster.
	Cluster client.ObjectKey
	// Paused: the check itself is paused.
	Paused bool
	Status remedyv1.CheckStatus
	// Templates are those that it names, in the order of its steps, and Naming is how they are called in steps.
	Templates []requests.Reference
	Naming    requests.Naming
	// Selector selects its targets by their labels; nil if it makes no sense.
	Selector labels.Selector
	Health   health.Policy
	Policy   remediation.Policy
	// PauseRequests are why it starts nothing.
	PauseRequests []string
	// Claim is the check as it stands among others that select the same targets.
	Claim remediation.Claim
}

// Title is how people know a check.
func (c *Check) Title() string { return title(c.ID.Kind, client.ObjectKeyFromObject(c.Object)) }

func title(kind string, key client.ObjectKey) string {
	if key.Namespace == "" {
		return kind + " " + key.Name
	}
	return kind + " " + key.String()
}

// Author is how a check signs its targets.
func (c *Check) Author() string { return c.ID.Kind + "/" + c.ID.Name }

func (c *Check) deleting() bool { return !c.Object.GetDeletionTimestamp().IsZero() }

// Target is a Machine with its Node, or a Node with its Machine.
type Target struct {
	// Object is the target itself: its annotations carry the history of its remediations.
	Object client.Object
	// Machine is nil for a Node without one.
	Machine *clusterv1.Machine
	// ControlPlane: it belongs to the control plane.
	ControlPlane bool
	// Question is how its Node is asked for, and Subject how requests name it.
	Question workload.Target
	Subject  requests.Target
	// Reading is its Node, once it was read.
	Reading workload.Reading
}

func (t *Target) name() string   { return t.Object.GetName() }
func (t *Target) uid() types.UID { return t.Object.GetUID() }

// Claim is another check that may select the same targets.
type Claim struct {
	remediation.Claim
	// Title is how people know it.
	Title string
	// Check is how its requests name it, and Author how it signs targets; empty if it does neither.
	Check  requests.Check
	Author string
	// InTree: the in-tree controller is responsible for what it selects.
	InTree bool
	// Deleting: it is being deleted, and only what it still has counts.
	Deleting bool
	Selects  func(t *Target) bool
	// InFlight are the Nodes that it reports to remediate.
	InFlight map[string]bool
}

// Store reads the checks of one kind and writes their status.
type Store interface {
	Kind() string
	// Object is an empty object of the kind.
	Object() client.Object
	// Find reads a check and its Cluster, which is nil if it does not exist.
	Find(ctx context.Context, reader client.Reader, key client.ObjectKey) (*Check, *clusterv1.Cluster, error)
	// WriteStatus writes a status, unless the check has it already, and returns the check as it is then. Without a pass, what only this kind
	// reports stays as it is.
	WriteStatus(ctx context.Context, check *Check, status *remedyv1.CheckStatus, pass *explain.Pass) (*Check, error)
}

// Source reads what the checks of one kind monitor.
type Source interface {
	// Targets are those that a check selects, and others of its Cluster, by name. Their Nodes are not read yet.
	Targets(ctx context.Context, reader client.Reader, check *Check, live bool) (selected, others []*Target, err error)
	// Get reads one target, and whether the check selects it; nil if it does not exist.
	Get(ctx context.Context, reader client.Reader, check *Check, name string) (target *Target, selected bool, err error)
	// Facts are what this kind knows of a target. The facts of its Machine are put into the place that is given.
	Facts(check *Check, target *Target, machine *health.MachineFacts) (health.Target, remediation.Target)
}

// Actor writes what only this kind can write. Each write is against the object as it was read, and returns it as it is then.
type Actor interface {
	Annotate(ctx context.Context, object client.Object, n notes.Notes) (client.Object, error)
	// Reported: the object reports this already. Report writes it.
	Reported(object client.Object, facts *explain.Facts, check *remediation.Check) bool
	Report(ctx context.Context, object client.Object, facts *explain.Facts, check *remediation.Check, now time.Time) (client.Object, error)
	// CancelOwnerRemediation removes what the owner was asked, and ClearConditions all conditions that the check has set.
	CancelOwnerRemediation(ctx context.Context, object client.Object) (client.Object, error)
	ClearConditions(ctx context.Context, object client.Object) (client.Object, error)
}

// Claimant knows the checks of one kind that may select the same targets as other checks. Every kind brings one, and every reconciler gets
// all.
type Claimant interface {
	// Claims are those of the checks of a Cluster, but for the check itself.
	Claims(ctx context.Context, reader client.Reader, check *Check, cluster *clusterv1.Cluster) ([]Claim, error)
	// Object is an empty object of the kind, Cluster where the targets of a check are, and Changes leaves out what no other check reads.
	Object() client.Object
	Cluster(check client.Object) client.ObjectKey
	Changes() predicate.Predicate
}

// Gatekeeper decides which checks of a kind the manager reconciles. Without one it reconciles all that its --watch-filter selects.
type Gatekeeper interface {
	// Admit brings a check one step further on its way to the manager, or back, and returns whether it is the manager's now.
	Admit(ctx context.Context, key client.ObjectKey, now time.Time) (admitted bool, wakeUp time.Time, err error)
	// It releases a check that another instance is responsible for. Forget drops what is remembered of one that no longer exists.
	Forget(key client.ObjectKey)
	// Holds reports whether this instance still has a check in its hands. Changed reports whether an update concerns that.
	Holds(check client.Object) bool
	Changed(before, after client.Object) bool
	// OwnsStatus reports whether the manager writes the status of a check and the conditions of its targets.
	OwnsStatus(check *Check) bool
	// AdoptsRequest reads live whether a request that was not created by the manager can only be that of this check.
	AdoptsRequest(ctx context.Context, check *Check, cluster *clusterv1.Cluster, target *Target) (bool, error)
}
