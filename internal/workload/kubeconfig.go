// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// secretTime is how long reading a Secret may take.
const secretTime = 10 * time.Second

// screenedSecrets gives Cluster API's cache only kubeconfigs that neither start a program nor read a file of ours: whoever may write a Secret
// would otherwise have it done here, with our rights.
type screenedSecrets struct {
	client.Reader
	// screened is told why the kubeconfig of a cluster is not used; nil if it is.
	screened func(cluster client.ObjectKey, refused *ReadError)
}

// Get reads a Secret, and refuses one with a kubeconfig that must not be used.
func (s *screenedSecrets) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	ctx, cancel := context.WithTimeout(ctx, secretTime)
	defer cancel()
	err := s.Reader.Get(ctx, key, object, options...)
	name, purpose, parsed := secret.ParseSecretName(key.Name)
	kubeconfig, is := object.(*corev1.Secret)
	if parsed != nil || purpose != secret.Kubeconfig || !is {
		return err
	}
	refused := refusal(key, kubeconfig, err)
	s.screened(client.ObjectKey{Namespace: key.Namespace, Name: name}, refused)
	if refused != nil {
		*kubeconfig = corev1.Secret{}
		return refused
	}
	return nil
}

// refusal is why the kubeconfig of a Secret is not used; nil if it may be.
func refusal(key client.ObjectKey, kubeconfig *corev1.Secret, read error) *ReadError {
	var why string
	switch {
	case apierrors.IsNotFound(read):
		why = "does not exist; Cluster API makes it when the control plane comes up, or it has to be put there"
	case apierrors.IsForbidden(read):
		why = "may not be read by this program; give its ServiceAccount the right to get Secrets in that namespace"
	case read != nil:
		why = "cannot be read at the moment"
	default:
		if err := Screen(kubeconfig.Data[secret.KubeconfigDataName]); err != nil {
			why = "is not used: " + err.Error()
		}
	}
	if why == "" {
		return nil
	}
	return &ReadError{Obstacle: KubeconfigRefused, details: fmt.Sprintf("the Secret %s, which should hold the kubeconfig of the cluster, %s", key, why)}
}

// Screen says what is wrong with a kubeconfig. Every entry counts, whether the current context uses it or not. Nothing of the content is said
// but which field it is: errors of parsers quote what they cannot parse.
func Screen(content []byte) error {
	if len(content) == 0 {
		return errors.Errorf("it has nothing under the key %q; put a kubeconfig there", secret.KubeconfigDataName)
	}
	config, err := clientcmd.Load(content)
	if err != nil {
		return errors.Errorf("what it has under the key %q is no kubeconfig; put one there", secret.KubeconfigDataName)
	}
	var found []string
	for _, user := range config.AuthInfos {
		found = append(found, refusedOfUser(user)...)
	}
	for _, cluster := range config.Clusters {
		if cluster.CertificateAuthority != "" {
			found = append(found, "certificate-authority (a file; use certificate-authority-data)")
		}
	}
	if len(found) > 0 {
		return errors.Errorf("its kubeconfig has %s", strings.Join(slices.Compact(slices.Sorted(slices.Values(found))), ", "))
	}
	if _, err := clientcmd.NewNonInteractiveClientConfig(*config, "", &clientcmd.ConfigOverrides{}, nil).ClientConfig(); err != nil {
		return errors.New("its kubeconfig is not complete; see that the current context exists, and names a cluster with a server and a user")
	}
	return nil
}

// refusedOfUser are the fields of a user that would start a program or read a file.
func refusedOfUser(user *clientcmdapi.AuthInfo) []string {
	const instead = "use a token, or client-certificate-data and client-key-data"
	var found []string
	for _, field := range []struct {
		set  bool
		says string
	}{
		{user.Exec != nil, "exec (a program; " + instead + ")"},
		{user.AuthProvider != nil, "auth-provider (a plugin; " + instead + ")"},
		{user.TokenFile != "", "tokenFile (a file; use token)"},
		{user.ClientCertificate != "", "client-certificate (a file; use client-certificate-data)"},
		{user.ClientKey != "", "client-key (a file; use client-key-data)"},
	} {
		if field.set {
			found = append(found, field.says)
		}
	}
	return found
}
