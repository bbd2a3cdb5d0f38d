// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"strings"
	"time"

	"github.com/pkg/errors"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig is how one reaches an API server as this user, as the Secret of a workload cluster holds it.
func Kubeconfig(user *rest.Config) ([]byte, error) {
	tls := user.TLSClientConfig
	content, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {
			Server: user.Host, CertificateAuthorityData: tls.CAData, TLSServerName: tls.ServerName,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {ClientCertificateData: tls.CertData, ClientKeyData: tls.KeyData}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	})
	return content, errors.Wrap(err, "failed to make a kubeconfig")
}

// UntilAllowed waits until a user has the first permission of a rule in a namespace, or lost it: the API server applies RBAC rules a moment
// after they were written. Without a namespace, it waits for the permission in all of them.
func (c *ControlPlane) UntilAllowed(ctx context.Context, namespace, user string, rule *rbacv1.PolicyRule, allowed bool) error {
	admin, err := c.Client()
	if err != nil {
		return err
	}
	spec := authorizationv1.SubjectAccessReviewSpec{User: user}
	if len(rule.NonResourceURLs) > 0 {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: rule.NonResourceURLs[0], Verb: rule.Verbs[0]}
	} else {
		spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: rule.Resources[0],
			Name: strings.Join(rule.ResourceNames[:min(len(rule.ResourceNames), 1)], ""),
		}
	}
	return errors.Wrap(wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, startLimit, true, func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: spec}
		err := admin.Create(ctx, review)
		return err == nil && review.Status.Allowed == allowed, err
	}), "the API server does not apply the RBAC rules")
}
