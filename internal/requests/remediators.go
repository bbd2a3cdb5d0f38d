// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// infrastructure is the group of infrastructure providers. Their remediators require a Machine as owner of the request, and others do not
// expect one.
const infrastructure = "infrastructure.cluster.x-k8s.io"

// NodeFence is the kind of requests of the fencing manager.
var NodeFence = schema.GroupKind{Group: remedyv1.GroupVersion.Group, Kind: "NodeFence"}

// traits are how the remediator of a kind differs from the contract.
type traits struct {
	// localNodes: it acts on the Node of that name in the cluster of the request.
	localNodes bool
	// findsNodeOfMachine: by an annotation, also if the request has the name of a Machine.
	findsNodeOfMachine bool
	// reads is the kind of Cluster API's objects that it reads in the namespace of the request; empty if it reads none.
	reads string
	// deletesNodes: it deletes Nodes and restores them, in one of its modes, and does not report which mode it is in.
	deletesNodes bool
	// failed reports a failure that is not a condition of the contract; nil if there is none.
	failed func(status map[string]any, conditions map[string]string) bool
}

// remediators are those of known kinds.
var remediators = map[schema.GroupKind]traits{
	NodeFence: {reads: "Cluster"},
	{Group: infrastructure, Kind: "Metal3Remediation"}:                                     {reads: "Machine", deletesNodes: true},
	{Group: "self-node-remediation.medik8s.io", Kind: "SelfNodeRemediation"}:               {localNodes: true},
	{Group: "fence-agents-remediation.medik8s.io", Kind: "FenceAgentsRemediation"}:         {localNodes: true, findsNodeOfMachine: true},
	{Group: "storage-based-remediation.medik8s.io", Kind: "StorageBasedRemediation"}:       {localNodes: true, failed: storageBasedFailed},
	{Group: "machine-deletion-remediation.medik8s.io", Kind: "MachineDeletionRemediation"}: {localNodes: true},
	{Group: "customized-user-remediation.medik8s.io", Kind: "CustomizedUserRemediation"}:   {localNodes: true},
}

func storageBasedFailed(_ map[string]any, conditions map[string]string) bool {
	return conditions["Ready"] == "False" && conditions["FencingInProgress"] == "False"
}

// traitsOf returns how the remediator of a kind differs from the contract. All those of infrastructure providers read Machines.
func traitsOf(kind schema.GroupKind) traits {
	known, found := remediators[kind]
	if !found && kind.Group == infrastructure {
		known.reads = "Machine"
	}
	return known
}

// NeedsMachine reports whether the remediator requires a Machine as owner of the request, in its namespace.
func (r Reference) NeedsMachine() bool {
	return traitsOf(r.RequestKind().GroupKind()).reads == "Machine"
}

// FindsNodeOfMachine reports whether the remediator finds the Node of a request that has the name of a Machine: by an annotation. The other
// ones that act on Nodes of their own cluster search for a Node of that name, or for a Machine of another API.
func (r Reference) FindsNodeOfMachine() bool {
	return traitsOf(r.RequestKind().GroupKind()).findsNodeOfMachine
}

// WrongPlace returns why the remediator does not find the Node or the Machine of a request there, and what to do; empty if it does.
func (r Reference) WrongPlace(place Place, ofNodes bool, cluster client.ObjectKey) string {
	known := traitsOf(r.RequestKind().GroupKind())
	switch {
	case !ofNodes && known.localNodes:
		return "its remediator acts on Nodes of its own cluster, and would fence a Node of the management cluster that has the name of a Node " +
			"of the workload cluster: use a NodeHealthCheck with templateLocation: Workload instead"
	case place == InManagement && known.localNodes:
		return "its remediator reads Nodes of its own cluster: create the template in the cluster of the Nodes, and set " +
			"templateLocation: Workload in a new check"
	case place == InWorkload && known.reads != "":
		return "its remediator reads " + known.reads + "s: create the template in the management cluster, in the namespace of the Cluster, and " +
			"set templateLocation: Management in a new check"
	case place == InManagement && known.reads != "" && r.Namespace != cluster.Namespace:
		return "its remediator reads the " + known.reads + " in the namespace of the request: create the template in namespace " +
			cluster.Namespace
	}
	return ""
}
