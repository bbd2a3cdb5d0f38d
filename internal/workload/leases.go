// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/pkg/errors"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ControlPlaneLease is the key of the Lease that one check holds while it remediates a control plane. The Lease is in the workload cluster,
// where the checks of every management cluster find it.
var ControlPlaneLease = client.ObjectKey{Namespace: "kube-system", Name: "remedy-control-plane"}

// LeaseHolder returns the holder of a Lease; empty without a Lease.
func LeaseHolder(lease *coordinationv1.Lease) string {
	if lease == nil {
		return ""
	}
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// LeaseExpiry returns when a Lease expires unless its holder renews it; zero if it was never renewed.
func LeaseExpiry(spec *coordinationv1.LeaseSpec) time.Time {
	if spec.RenewTime == nil {
		return time.Time{}
	}
	return spec.RenewTime.Add(time.Duration(ptr.Deref(spec.LeaseDurationSeconds, 0)) * time.Second)
}

// AcquireLease creates a Lease, or renews or acquires the one that was read, with these owners: those of an earlier holder may no longer
// exist, and the Lease would be deleted with them. It fails with a conflict if another holder was faster.
func AcquireLease(
	ctx context.Context, api client.Writer, key client.ObjectKey, lease *coordinationv1.Lease, holder string, now, until time.Time,
	owners ...metav1.OwnerReference,
) (*coordinationv1.Lease, error) {
	spec := coordinationv1.LeaseSpec{
		HolderIdentity:       ptr.To(holder),
		AcquireTime:          &metav1.MicroTime{Time: now},
		RenewTime:            &metav1.MicroTime{Time: now},
		LeaseDurationSeconds: ptr.To(int32(min(math.Ceil(until.Sub(now).Seconds()), math.MaxInt32))),
	}
	if lease == nil {
		acquired := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, OwnerReferences: owners}, Spec: spec,
		}
		return acquired, errors.Wrapf(api.Create(ctx, acquired), "failed to create Lease %s", key)
	}
	acquired := lease.DeepCopy()
	switch before := LeaseHolder(lease); {
	case before == holder:
		spec.AcquireTime, spec.LeaseTransitions = lease.Spec.AcquireTime, lease.Spec.LeaseTransitions
	case before != "":
		spec.LeaseTransitions = ptr.To(ptr.Deref(lease.Spec.LeaseTransitions, 0) + 1)
	}
	acquired.Spec, acquired.OwnerReferences = spec, owners
	return acquired, errors.Wrapf(api.Update(ctx, acquired), "failed to acquire Lease %s", key)
}

// DeleteLease deletes a Lease in the version that was read. It fails with a conflict if the Lease has changed since.
func DeleteLease(ctx context.Context, api client.Writer, lease *coordinationv1.Lease) error {
	return api.Delete(ctx, lease, client.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion})
}

// NodeLeaseNamespace is where the operators of medik8s keep the Leases of Nodes that they remediate or maintain, unless their environment
// variable LEASE_NAMESPACE names another namespace.
const NodeLeaseNamespace = "medik8s-leases"

// NodeLeaseKey is the Lease that a component holds while it remediates or maintains a Node, in NodeLeaseNamespace.
func NodeLeaseKey(node string) client.ObjectKey {
	return client.ObjectKey{Namespace: NodeLeaseNamespace, Name: nodeLeaseName(node)}
}

// nodeLeaseName is the name that operators of medik8s use. They cannot create one that is too long, so no other component has that Lease:
// its name only has to be the same for all checks.
func nodeLeaseName(node string) string {
	name := "node-" + strings.ToLower(node)
	if len(name) <= validation.DNS1123SubdomainMaxLength {
		return name
	}
	hash := fmt.Sprintf("-%x", sha256.Sum256([]byte(name)))[:17]
	return strings.TrimRight(name[:validation.DNS1123SubdomainMaxLength-len(hash)], ".-") + hash
}

// NodeOwner is the owner of the Lease of a Node: both are deleted together.
func NodeOwner(node string, uid types.UID) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: node, UID: uid}
}

// NodeRemediations are the Leases of Nodes that are remediated or maintained.
type NodeRemediations struct {
	// Used: the namespace of the Leases exists. The operators of medik8s create it; without it, no other component uses these Leases.
	Used      bool
	namespace string
	leases    map[string]*coordinationv1.Lease
}

// Key is that of the Lease of a Node.
func (n *NodeRemediations) Key(node string) client.ObjectKey {
	return client.ObjectKey{Namespace: n.namespace, Name: nodeLeaseName(node)}
}

// Lease returns the Lease of a Node; nil without one.
func (n *NodeRemediations) Lease(node string) *coordinationv1.Lease {
	return n.leases[nodeLeaseName(node)]
}

// HeldBy returns the Leases of a holder.
func (n *NodeRemediations) HeldBy(holder string) []*coordinationv1.Lease {
	var held []*coordinationv1.Lease
	for _, lease := range n.leases {
		if LeaseHolder(lease) == holder {
			held = append(held, lease)
		}
	}
	return held
}

// Set replaces the Lease of a Node; nil removes it.
func (n *NodeRemediations) Set(node string, lease *coordinationv1.Lease) {
	if lease == nil {
		delete(n.leases, nodeLeaseName(node))
		return
	}
	n.leases[lease.Name] = lease
}

// maxLeases is the size of all Leases that are read.
const maxLeases = 8 << 20

// NodeRemediations reads the Leases of all Nodes that are remediated or maintained. There are few.
func (l Live) NodeRemediations(ctx context.Context) (*NodeRemediations, error) {
	namespace := l.cluster.clusters.nodeLeases
	return asError(call(ctx, l.cluster, func(ctx context.Context, api client.Client) (*NodeRemediations, error) {
		// A permission to write Leases may exist only where the namespace does.
		err := api.Get(ctx, client.ObjectKey{Name: namespace}, &corev1.Namespace{})
		if apierrors.IsNotFound(err) || err == nil && leasesNotServed(api) {
			return &NodeRemediations{}, nil
		}
		all, kept := &NodeRemediations{Used: true, namespace: namespace, leases: map[string]*coordinationv1.Lease{}}, 0
		list := &coordinationv1.LeaseList{}
		if err == nil {
			err = fetchPages(ctx, api, list, func() error {
				for i := range list.Items {
					lease := list.Items[i].DeepCopy()
					if lease.ManagedFields, kept = nil, kept+lease.Size(); kept > maxLeases {
						return errTooLarge
					}
					all.leases[lease.Name] = lease
				}
				return nil
			}, client.InNamespace(namespace))
		}
		if err != nil {
			return nil, err
		}
		return all, nil
	}))
}
