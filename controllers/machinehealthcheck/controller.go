// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"strings"

	"github.com/go-logr/logr"
	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// Reconciler looks after MachineHealthChecks. All fields but the last are set by whoever makes it.
type Reconciler struct {
	// Checks are those that it looks after, and Core decides which of Cluster API's checks are ours.
	Checks Checks
	Core   *CoreChecks
	// Cache is read in every pass, Live past it just before an act, and Client writes.
	Cache  client.Reader
	Live   client.Reader
	Client client.Client
	// Clusters are the workload clusters.
	Clusters *workload.Clusters
	// Requests are remediation requests in this cluster.
	Requests *requests.Requests
	Events   events.EventRecorder
	Metrics  *metrics.Metrics
	Clock    clock.PassiveClock
	// Observe is the manager's ceiling over every check.
	Observe bool
	// WatchFilter selects the checks to act for.
	WatchFilter string
	// Indices are those of the cache, shared by all who read it.
	Indices *Indices

	records records
}

// What it does in the cluster that it runs in. Machines get annotations of our own and conditions, and are never deleted. Checks are not, either:
// but some API servers let nobody set an owner who could not delete the object.
//
// +kubebuilder:rbac:groups=remedy.cluster.x-k8s.io,resources=machinehealthchecks,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=remedy.cluster.x-k8s.io,resources=machinehealthchecks/status,verbs=patch
// +kubebuilder:rbac:groups=remedy.cluster.x-k8s.io,resources=nodehealthchecks,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinehealthchecks,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinehealthchecks/status,verbs=patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines/status,verbs=patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinesets,verbs=get
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get

// SetupWithManager starts the controller with the manager, or at once if that is running.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr manager.Manager) error {
	if err := r.Indices.add(ctx, mgr.GetCache()); err != nil {
		return err
	}
	w := &watches{checks: r.Checks, cache: mgr.GetCache(), told: r.told}
	err := ctrl.NewControllerManagedBy(mgr).Named(strings.ToLower(r.Checks.kind())).
		For(r.Checks.empty(), builder.WithPredicates(r.ofItself())).
		Watches(&remedyv1.MachineHealthCheck{}, w.siblings(), builder.WithPredicates(rivalMeansSomething)).
		Watches(&clusterv1.MachineHealthCheck{}, w.siblings(), builder.WithPredicates(rivalMeansSomething)).
		Watches(&remedyv1.NodeHealthCheck{}, w.nodeChecks(), builder.WithPredicates(nodeCheckMeansSomething)).
		Watches(&clusterv1.Cluster{}, w.ofCluster(), builder.WithPredicates(clusterMeansSomething)).
		Watches(&clusterv1.Machine{}, w.ofMachine(), builder.WithPredicates(machineMeansSomething)).
		WatchesRawSource(r.Clusters.NodeSource(w.ofNode)).
		WatchesRawSource(r.Clusters.ConnectionSource(w.ofConnection)).
		WatchesRawSource(r.Requests.Source(r.Checks.kind())).
		WithLogConstructor(logConstructor(mgr.GetLogger(), r.Checks.kind())).
		Complete(r)
	return errors.Wrap(err, "failed to set up the controller of MachineHealthChecks")
}

// told notes that there is news for a check.
func (r *Reconciler) told(check types.NamespacedName) { r.records.event(check, false, r.Clock.Now()) }

// logConstructor leaves out what every line would repeat.
func logConstructor(log logr.Logger, kind string) func(*ctrl.Request) logr.Logger {
	log = log.WithName(strings.ToLower(kind))
	return func(request *ctrl.Request) logr.Logger {
		if request == nil {
			return log
		}
		return log.WithValues(kind, request.String())
	}
}

// Indices by which Machines and checks are found.
const (
	byCluster = "remedy.cluster"
	byNode    = "remedy.node"
	byAuthor  = "remedy.author"
)

// Indices are made once, as far as it goes: that can be tried again.
type Indices struct{ made int }

func (n *Indices) add(ctx context.Context, c cache.Cache) error {
	all := []struct {
		object client.Object
		field  string
		value  func(client.Object) []string
	}{
		{&clusterv1.Machine{}, byCluster, func(o client.Object) []string { return []string{o.(*clusterv1.Machine).Spec.ClusterName} }},
		{&clusterv1.Machine{}, byNode, func(o client.Object) []string { return nodeKeys(o.(*clusterv1.Machine)) }},
		{&clusterv1.Machine{}, byAuthor, signatureOf},
		{&remedyv1.MachineHealthCheck{}, byCluster, func(o client.Object) []string { return []string{o.(*remedyv1.MachineHealthCheck).Spec.ClusterName} }},
		{&clusterv1.MachineHealthCheck{}, byCluster, func(o client.Object) []string { return []string{o.(*clusterv1.MachineHealthCheck).Spec.ClusterName} }},
	}
	for _, i := range all[n.made:] {
		if err := c.IndexField(ctx, i.object, i.field, i.value); err != nil {
			return errors.Wrapf(err, "failed to index %T by %s", i.object, i.field)
		}
		n.made++
	}
	return nil
}

// nodeKeys is the Node of a Machine. The same name means another Node in another Cluster.
func nodeKeys(m *clusterv1.Machine) []string {
	if m.Status.NodeRef.Name == "" {
		return nil
	}
	return []string{nodeKey(m.Spec.ClusterName, m.Status.NodeRef.Name)}
}

func nodeKey(cluster, node string) string { return cluster + "/" + node }
