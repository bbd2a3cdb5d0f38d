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
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// secretTimeout is how long reading a Secret may take.
const secretTimeout = 10 * time.Second

// kubeconfigReader reads the kubeconfigs of Clusters. It uses only those that start no program and read no file. Otherwise every user who may
// write a Secret could do both with the permissions of the manager.
type kubeconfigReader struct {
	client.Reader
	// refuseInsecure: a kubeconfig with an insecure field is not used.
	refuseInsecure bool
	// checked is called with the insecure fields of the kubeconfig of a Cluster, and with why it is not used; nil if it is.
	checked func(cluster client.ObjectKey, insecure string, refused *ReadError)
}

// read returns the configuration of a connection to a Cluster, or an error for a kubeconfig that must not be used.
func (s *kubeconfigReader) read(ctx context.Context, cluster client.ObjectKey) (*rest.Config, error) {
	ctx, cancel := context.WithTimeout(ctx, secretTimeout)
	defer cancel()
	key := client.ObjectKey{Namespace: cluster.Namespace, Name: secret.Name(cluster.Name, secret.Kubeconfig)}
	kubeconfig := &corev1.Secret{}
	err := s.Get(ctx, key, kubeconfig)
	config, insecure, refused := s.checkSecret(key, kubeconfig, err)
	s.checked(cluster, insecure, refused)
	if refused != nil {
		return nil, refused
	}
	return config, nil
}

// checkSecret returns the configuration of a connection, its insecure fields, and why it is not used; nil if it is.
func (s *kubeconfigReader) checkSecret(key client.ObjectKey, kubeconfig *corev1.Secret, read error) (_ *rest.Config, insecure string, _ *ReadError) {
	var format, why string
	switch {
	case apierrors.IsNotFound(read):
		format = "the Secret %s with the kubeconfig of the cluster does not exist; Cluster API creates it with the control plane, otherwise create it"
	case apierrors.IsForbidden(read):
		format = "the manager is not allowed to read the Secret %s with the kubeconfig of the cluster; " +
			"allow its ServiceAccount to get Secrets in that namespace"
	case read != nil:
		format = "the manager failed to read the Secret %s with the kubeconfig of the cluster, and retries with backoff"
	default:
		config, insecure, err := parseKubeconfig(kubeconfig.Data[secret.KubeconfigDataName])
		if err == nil && insecure != "" && s.refuseInsecure {
			err = errors.Errorf("the kubeconfig has %s, and the manager runs with --insecure-kubeconfigs=Refuse", insecure)
		}
		if err == nil {
			return config, insecure, nil
		}
		format, why = "Secret %s: ", err.Error()
	}
	return nil, "", &ReadError{Reason: KubeconfigRefused, details: fmt.Sprintf(format, key) + why}
}

// ValidateKubeconfig returns what is wrong with a kubeconfig. It checks every entry, also those that the current context does not use. The
// error names fields and quotes no content, so it contains no error of a parser.
func ValidateKubeconfig(content []byte) error {
	_, _, err := parseKubeconfig(content)
	return err
}

// parseKubeconfig returns the configuration of a kubeconfig that may be used, and its insecure fields.
func parseKubeconfig(content []byte) (_ *rest.Config, insecure string, _ error) {
	if len(content) == 0 {
		return nil, "", errors.Errorf("key %s is empty; set it to a kubeconfig", secret.KubeconfigDataName)
	}
	config, err := clientcmd.Load(content)
	if err != nil {
		return nil, "", errors.Errorf("key %s is not a kubeconfig", secret.KubeconfigDataName)
	}
	var found []string
	for _, user := range config.AuthInfos {
		found = append(found, refusedUserFields(user)...)
	}
	for _, cluster := range config.Clusters {
		if cluster.CertificateAuthority != "" {
			found = append(found, "certificate-authority (a file; use certificate-authority-data)")
		}
	}
	if len(found) > 0 {
		return nil, "", errors.Errorf("the kubeconfig has %s", strings.Join(slices.Compact(slices.Sorted(slices.Values(found))), ", "))
	}
	used, err := clientcmd.NewNonInteractiveClientConfig(*config, "", &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, "", errors.New("the kubeconfig is not complete; check that the current context exists, and names a cluster with a server and a user")
	}
	return used, insecureFields(config), nil
}

// insecureFields returns the fields with which the server is not verified, not everything is encrypted, or another server or user acts.
func insecureFields(config *clientcmdapi.Config) string {
	var found []string
	add := func(set bool, field string) {
		if set && !slices.Contains(found, field) {
			found = append(found, field)
		}
	}
	for _, cluster := range config.Clusters {
		add(cluster.InsecureSkipTLSVerify, "insecure-skip-tls-verify")
		add(!strings.HasPrefix(cluster.Server, "https://"), "a server without https://")
		add(cluster.ProxyURL != "", "proxy-url")
	}
	for _, user := range config.AuthInfos {
		add(user.Impersonate != "" || user.ImpersonateUID != "" || len(user.ImpersonateGroups)+len(user.ImpersonateUserExtra) > 0, "impersonation")
	}
	slices.Sort(found)
	return strings.Join(found, ", ")
}

// refusedUserFields returns the fields of a user that would start a program or read a file.
func refusedUserFields(user *clientcmdapi.AuthInfo) []string {
	const instead = "use a token, or client-certificate-data and client-key-data"
	var found []string
	for _, field := range []struct {
		set     bool
		message string
	}{
		{user.Exec != nil, "exec (a program; " + instead + ")"},
		{user.AuthProvider != nil, "auth-provider (a plugin; " + instead + ")"},
		{user.TokenFile != "", "tokenFile (a file; use token)"},
		{user.ClientCertificate != "", "client-certificate (a file; use client-certificate-data)"},
		{user.ClientKey != "", "client-key (a file; use client-key-data)"},
	} {
		if field.set {
			found = append(found, field.message)
		}
	}
	return found
}
