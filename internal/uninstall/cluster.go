// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"encoding/json"
	"time"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/clusterapi"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/report"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
)

// Cluster is a management or workload cluster.
type Cluster struct {
	// name is how the output names it.
	name      string
	discovery discovery.DiscoveryInterface
	metadata  metadata.Interface
	client    client.Client
}

// requestTimeout limits one request to an API server.
const requestTimeout = 30 * time.Second

// conflicts is how a write is retried after a conflict: for five seconds in total.
var conflicts = wait.Backoff{Steps: 10, Duration: 10 * time.Millisecond, Factor: 2, Jitter: 0.1}

// NewCluster returns a Cluster whose API server is reached by a config.
func NewCluster(name string, config *rest.Config) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.Timeout = requestTimeout
	// The default of five requests a second is too slow for a cluster with a hundred kinds.
	config.QPS, config.Burst = 50, 100
	// Every kind is listed, deprecated ones too.
	config.WarningHandler = rest.NoWarnings{}
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, clusterv1.AddToScheme, remedyv1.AddToScheme} {
		if err := add(known); err != nil {
			return nil, errors.WithStack(err)
		}
	}
	c := &Cluster{name: name}
	var err error
	if c.discovery, err = discovery.NewDiscoveryClientForConfig(config); err != nil {
		return nil, errors.WithStack(err)
	}
	if c.metadata, err = metadata.NewForConfig(config); err != nil {
		return nil, errors.WithStack(err)
	}
	c.client, err = client.New(config, client.Options{Scheme: known})
	return c, errors.WithStack(err)
}

// removeTraces removes the traces of an object, and after a conflict those that it has by then.
func (c *Cluster) removeTraces(ctx context.Context, o *object) error {
	api, latest := c.metadata.Resource(o.resource).Namespace(o.Namespace), &o.ObjectMeta
	err := retry.RetryOnConflict(conflicts, func() error {
		t := o.tracesIn(latest)
		if t.empty() {
			return nil
		}
		patch, err := json.Marshal(t.patch(latest))
		if err != nil {
			return err
		}
		_, err = api.Patch(ctx, o.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		if !apierrors.IsConflict(err) {
			return err
		}
		now, getErr := api.Get(ctx, o.Name, metav1.GetOptions{})
		if getErr != nil {
			return getErr
		}
		if now.UID != o.UID {
			return nil
		}
		latest = &now.ObjectMeta
		return err
	})
	return errors.Wrapf(client.IgnoreNotFound(err), "failed to patch %s %s/%s", o.kind, o.Namespace, o.Name)
}

// withdraw annotates a request so that its remediation stops, and deletes it. The finalizers of the remediation provider stay.
func (c *Cluster) withdraw(ctx context.Context, o *object, now time.Time) error {
	api, err := requests.New(ctx, requests.Options{Client: c.client})
	if err != nil {
		return err
	}
	request, err := api.GetLive(ctx, o.resource.GroupVersion().WithKind(o.kind), client.ObjectKey{Namespace: o.Namespace, Name: o.Name})
	if err != nil || request == nil || request.UID != o.UID {
		return err
	}
	if err := api.StopRemediator(ctx, request, now, false); err != nil {
		return err
	}
	return api.Delete(ctx, request)
}

// cancelOwnerRemediation removes the conditions that a check has set on a Machine. The annotation that names the check is removed
// later, so an interrupted run finds the Machine again.
func (c *Cluster) cancelOwnerRemediation(ctx context.Context, o *object) error {
	machine := &clusterv1.Machine{}
	return c.patchStatus(ctx, o, machine, func() client.Patch {
		if notes.ResponsibleCheck(machine.Annotations) == "" {
			return nil
		}
		before := machine.DeepCopy()
		report.RemoveConditions(machine)
		return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	})
}

// removeConditions removes the conditions that only Remedy sets from a MachineHealthCheck of Cluster API.
func (c *Cluster) removeConditions(ctx context.Context, o *object) error {
	check := &clusterv1.MachineHealthCheck{}
	return c.patchStatus(ctx, o, check, func() client.Patch {
		if !hasConditions(check) {
			return nil
		}
		before := check.DeepCopy()
		clusterapi.RemoveConditions(check)
		return clusterapi.StatusPatch(before, check)
	})
}

// patchStatus reads an object into current and patches its status, again after a conflict. A change that returns nil makes no patch.
func (c *Cluster) patchStatus(ctx context.Context, o *object, current client.Object, change func() client.Patch) error {
	err := retry.RetryOnConflict(conflicts, func() error {
		err := c.client.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: o.Name}, current)
		if err != nil || current.GetUID() != o.UID {
			return err
		}
		if patch := change(); patch != nil {
			return c.client.Status().Patch(ctx, current, patch)
		}
		return nil
	})
	return errors.Wrapf(client.IgnoreNotFound(err), "failed to patch the status of %s %s/%s", o.kind, o.Namespace, o.Name)
}
