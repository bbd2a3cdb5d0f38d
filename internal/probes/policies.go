// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/pkg/errors"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// Policies verifies after the start that the policies of a release limit the manager: it tries a change that they deny, as a dry run, of an
// object of each kind. A policy finds the manager by labels of a ClusterRoleBinding, which tools can change without an error.
type Policies struct {
	Kinds []schema.GroupVersionKind
	// Folder is where the policies are, and Binding the ClusterRoleBinding by which they find the manager.
	Folder, Binding string

	Reader client.Reader
	Client client.Client
	Clock  clock.WithTicker
	Log    logr.Logger
	// Namespace is the only namespace with Machines that the manager reads; empty for all.
	Namespace string

	mu      sync.Mutex
	detail  string
	allowed error
}

// policiesInterval is the time between two attempts, until the changes are denied. The API server enforces new policies after a moment.
const policiesInterval = 10 * time.Second

// permitted is a patch that the policies and the permissions of the manager allow. It changes nothing. Without it, a missing permission
// would look like a policy.
var permitted = client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+remedyv1.AttemptsAnnotation+`":null}}}`))

// denied is a change of a label, which the manager never makes.
var denied = client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"remedy.cluster.x-k8s.io/denied":"dry-run"}}}`))

// PoliciesOfChecks verifies those of config/policy.
func PoliciesOfChecks() *Policies {
	return &Policies{Folder: "config/policy", Binding: "remedy-system-manager", Kinds: []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("Node"), clusterv1.GroupVersion.WithKind("Machine"),
	}}
}

// PoliciesOfFencing verifies those of config/fencing/policy. The manager is not allowed to change Machines.
func PoliciesOfFencing() *Policies {
	return &Policies{
		Folder: "config/fencing/policy", Binding: "remedy-system-fencing-manager",
		Kinds: []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("Node")},
	}
}

// NeedLeaderElection is false because the probes of a standby instance need the result, too.
func (p *Policies) NeedLeaderElection() bool { return false }

// Start tries the changes until the API server has denied all of them, or the context ends.
func (p *Policies) Start(ctx context.Context) error {
	ticker := p.Clock.NewTicker(policiesInterval)
	defer ticker.Stop()
	for {
		// Discovery does not end with the context, and an API server that hangs would delay the end of the manager.
		final := make(chan bool, 1)
		go func() { final <- p.verify(ctx) }()
		select {
		case <-ctx.Done():
			return nil
		case done := <-final:
			if done {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// Check returns a probe that fails if the API server allows a change that the policies deny.
func (p *Policies) Check() Check {
	return Check{Name: "policies", Probe: func(context.Context) (string, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.detail == "" {
			return "not verified yet", nil
		}
		return p.detail, p.allowed
	}}
}

// verify tries the changes, and reports whether the result is final.
func (p *Policies) verify(ctx context.Context) (final bool) {
	limited, err := p.isLimited(ctx)
	if err == nil && !limited {
		p.set("they limit ServiceAccounts only, and the manager runs as another user", nil)
		return true
	}
	var allowed, pending []string
	for _, kind := range p.Kinds {
		switch err := p.try(ctx, kind); {
		case err == nil:
			allowed = append(allowed, kind.Kind)
		case !errors.Is(err, errDenied):
			pending = append(pending, kind.Kind)
			p.Log.V(4).Info("The policies could not be verified", "kind", kind.Kind, "reason", err.Error())
		}
	}
	switch {
	case len(allowed) > 0:
		p.set("the manager is allowed to change labels of each "+strings.Join(allowed, " and "), errors.Errorf(
			"no policy limits the manager: apply %s, and keep the labels of the ClusterRoleBinding %s", p.Folder, p.Binding))
	case len(pending) > 0:
		p.set("not verified yet for any "+strings.Join(pending, " and "), nil)
	default:
		p.set("they limit the manager", nil)
	}
	return len(allowed)+len(pending) == 0
}

func (p *Policies) set(detail string, allowed error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.detail, p.allowed = detail, allowed
}

// isLimited reports whether the manager runs as a ServiceAccount. Every user is allowed to ask for its own name.
func (p *Policies) isLimited(ctx context.Context) (bool, error) {
	review := &authenticationv1.SelfSubjectReview{}
	err := p.Client.Create(ctx, review)
	return strings.HasPrefix(review.Status.UserInfo.Username, "system:serviceaccount:"), errors.Wrap(err, "failed to review the own user")
}

// errDenied means: a change is denied by a policy, or the manager has no permission for any object of the kind.
var errDenied = errors.New("denied")

// try changes any object of a kind.
func (p *Policies) try(ctx context.Context, kind schema.GroupVersionKind) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind)
	options := []client.ListOption{client.Limit(1)}
	if kind.Group == clusterv1.GroupVersion.Group {
		options = append(options, client.InNamespace(p.Namespace))
	}
	switch err := p.Reader.List(ctx, list, options...); {
	case apierrors.IsForbidden(err) && kind.Kind == "Node" && p.Namespace != "":
		// A manager of one namespace has no permission for Nodes.
		return errDenied
	case err != nil:
		return errors.Wrap(err, "failed to list objects")
	}
	if len(list.Items) == 0 {
		return errors.New("there is none")
	}
	object := &list.Items[0]
	object.SetGroupVersionKind(kind)
	if err := p.Client.Patch(ctx, object.DeepCopy(), permitted, client.DryRunAll); err != nil {
		return errors.Wrap(err, "failed to change an annotation as a dry run")
	}
	err := p.Client.Patch(ctx, object, denied, client.DryRunAll)
	if apierrors.IsForbidden(err) {
		return errDenied
	}
	return errors.WithStack(err)
}
