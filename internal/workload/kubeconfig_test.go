// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// goodKubeconfig is one that may be used.
func goodKubeconfig() *clientcmdapi.Config {
	return &clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{canary: {Server: "https://127.0.0.1:1", CertificateAuthorityData: []byte(canary)}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{canary: {Token: canary}},
		Contexts:       map[string]*clientcmdapi.Context{canary: {Cluster: canary, AuthInfo: canary}},
		CurrentContext: canary,
	}
}

var kubeconfigs = []struct {
	why     string
	change  func(c *clientcmdapi.Config)
	content []byte
	// insecure are its insecure fields, for which it can be refused.
	insecure string
	says     string
}{
	{why: "a good one", change: func(*clientcmdapi.Config) {}},
	{why: "one with a proxy", change: func(c *clientcmdapi.Config) { c.Clusters[canary].ProxyURL = "http://127.0.0.1:2" }, insecure: "proxy-url"},
	{why: "one without verification", change: func(c *clientcmdapi.Config) {
		c.Clusters[canary].InsecureSkipTLSVerify, c.Clusters[canary].CertificateAuthorityData = true, nil
	}, insecure: "insecure-skip-tls-verify"},
	{why: "one without encryption", change: func(c *clientcmdapi.Config) {
		c.Clusters[canary].Server, c.Clusters[canary].CertificateAuthorityData = "http://127.0.0.1:1", nil
	}, insecure: "a server without https://"},
	{why: "one with a host alone", change: func(c *clientcmdapi.Config) { c.Clusters[canary].Server = "127.0.0.1:1" }, insecure: "a server without https://"},
	{why: "one for another user", change: func(c *clientcmdapi.Config) { c.AuthInfos[canary].Impersonate = canary }, insecure: "impersonation"},
	{why: "one with a proxy for another user twice", change: func(c *clientcmdapi.Config) {
		c.Clusters[canary].ProxyURL, c.AuthInfos[canary].Impersonate = "http://127.0.0.1:2", canary
		c.AuthInfos["other"] = &clientcmdapi.AuthInfo{Impersonate: canary, ImpersonateGroups: []string{canary}}
	}, insecure: "impersonation, proxy-url"},
	{why: "one with a client certificate", change: func(c *clientcmdapi.Config) {
		c.AuthInfos[canary] = &clientcmdapi.AuthInfo{ClientCertificateData: []byte(canary), ClientKeyData: []byte(canary)}
	}},
	{why: "a program", change: func(c *clientcmdapi.Config) {
		c.AuthInfos[canary].Exec = &clientcmdapi.ExecConfig{Command: canary, APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: "Never"}
	}, says: "exec (a program; use a token"},
	{why: "a plugin", change: func(c *clientcmdapi.Config) {
		c.AuthInfos[canary].AuthProvider = &clientcmdapi.AuthProviderConfig{Name: canary}
	}, says: "auth-provider (a plugin; use a token"},
	{why: "a token in a file", change: func(c *clientcmdapi.Config) { c.AuthInfos[canary].TokenFile = "/" + canary }, says: "tokenFile (a file; use token)"},
	{why: "a certificate in a file", change: func(c *clientcmdapi.Config) { c.AuthInfos[canary].ClientCertificate = "/" + canary }, says: "client-certificate (a file; use client-certificate-data)"},
	{why: "a key in a file", change: func(c *clientcmdapi.Config) { c.AuthInfos[canary].ClientKey = "/" + canary }, says: "client-key (a file; use client-key-data)"},
	{why: "a certificate authority in a file", change: func(c *clientcmdapi.Config) { c.Clusters[canary].CertificateAuthority = "/" + canary }, says: "certificate-authority (a file; use certificate-authority-data)"},
	{why: "exec in an unused user", change: func(c *clientcmdapi.Config) {
		c.AuthInfos["other"] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{Command: canary}}
	}, says: "exec (a program"},
	{why: "two of them, one twice", change: func(c *clientcmdapi.Config) {
		c.AuthInfos[canary].TokenFile = "/" + canary
		c.AuthInfos["other"] = &clientcmdapi.AuthInfo{ClientKey: canary, TokenFile: canary}
	}, says: "the kubeconfig has client-key (a file; use client-key-data), tokenFile (a file; use token)"},
	{why: "no context", change: func(c *clientcmdapi.Config) { c.CurrentContext = "another" }, says: "check that the current context exists"},
	{why: "no server", change: func(c *clientcmdapi.Config) { c.Clusters[canary].Server = "" }, says: "names a cluster with a server"},
	{why: "nothing", content: []byte{}, says: "key value is empty"},
	{why: "no kubeconfig", content: []byte("apiVersion: v1\nkind: Config\nusers: " + canary), says: "is not a kubeconfig"},
	{why: "no YAML", content: []byte("{" + canary), says: "is not a kubeconfig"},
}

// secrets is where Secrets are read.
type secrets struct {
	client.Reader
	content []byte
	failure error
}

func (s *secrets) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	if secret, is := object.(*corev1.Secret); is && s.failure == nil {
		secret.Data = map[string][]byte{"value": s.content}
	}
	return s.failure
}

func TestKubeconfig_ProgramOrFile_IsRefused(t *testing.T) {
	for _, test := range kubeconfigs {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			content := test.content
			if test.change != nil {
				config := goodKubeconfig()
				test.change(config)
				var err error
				content, err = clientcmd.Write(*config)
				g.Expect(err).ToNot(HaveOccurred())
			}
			b := newBench(t)
			b.wire.disconnect()
			reader := &kubeconfigReader{Reader: &secrets{content: content}, checked: b.kubeconfigChecked}
			config, err := reader.read(t.Context(), prod)
			if test.says == "" {
				g.Expect(err).ToNot(HaveOccurred())
				wanted, err := clientcmd.RESTConfigFromKubeConfig(content)
				g.Expect(err).ToNot(HaveOccurred())
				g.Expect([]any{config.Host, config.BearerToken, config.Impersonate, config.TLSClientConfig}).
					To(Equal([]any{wanted.Host, wanted.BearerToken, wanted.Impersonate, wanted.TLSClientConfig}))
				g.Expect(ReadErrorReasonOf(b.connection(t).Err)).To(Equal(NotConnected))
				g.Expect(b.connection(t).Insecure).To(Equal(test.insecure))
				reader.refuseInsecure = true
				config, err = reader.read(t.Context(), prod)
				if test.insecure == "" {
					g.Expect(err).ToNot(HaveOccurred())
					return
				}
				g.Expect(ReadErrorReasonOf(err)).To(Equal(KubeconfigRefused))
				g.Expect(err).To(MatchError(ContainSubstring("the kubeconfig has " + test.insecure + ", and the manager runs with --insecure-kubeconfigs=Refuse")))
				g.Expect(err).ToNot(MatchError(ContainSubstring(canary)))
				g.Expect(config).To(BeNil())
				return
			}
			g.Expect(ReadErrorReasonOf(err)).To(Equal(KubeconfigRefused))
			g.Expect(err).To(MatchError(ContainSubstring(test.says)))
			g.Expect(err).To(MatchError(HavePrefix("Secret team-a/prod-kubeconfig: ")))
			g.Expect(err).ToNot(MatchError(ContainSubstring(canary)))
			g.Expect(config).To(BeNil(), "it is not even handed on")
			g.Expect(b.connection(t).Err).To(Equal(err))
			g.Expect(b.notifications()).To(BeNumerically(">", 0))
		})
	}
}

func TestKubeconfig_UnreadableSecret_HasCause(t *testing.T) {
	resource := schema.GroupResource{Resource: "secrets"}
	tests := []struct {
		err  error
		says string
	}{
		{apierrors.NewNotFound(resource, "prod-kubeconfig"), "does not exist"},
		{apierrors.NewForbidden(resource, "prod-kubeconfig", errors.New(canary)), "allow its ServiceAccount to get Secrets"},
		{errors.New(canary), "failed to read the Secret"},
	}
	for _, test := range tests {
		g := NewWithT(t)
		b := newBench(t)
		b.wire.disconnect()
		reader := &kubeconfigReader{Reader: &secrets{failure: test.err}, checked: b.kubeconfigChecked}
		_, err := reader.read(t.Context(), prod)
		g.Expect(err).To(MatchError(ContainSubstring(test.says)))
		g.Expect(err).ToNot(MatchError(ContainSubstring(canary)))
		g.Expect(b.connection(t).Err).To(Equal(err))
	}
}

func TestKubeconfig_Corrected_HasNoError(t *testing.T) {
	g := NewWithT(t)
	b := newBench(t)
	b.wire.disconnect()
	source := &secrets{}
	reader := &kubeconfigReader{Reader: source, checked: b.kubeconfigChecked}
	_, err := reader.read(t.Context(), prod)
	g.Expect(err).To(HaveOccurred())
	g.Expect(ReadErrorReasonOf(b.connection(t).Err)).To(Equal(KubeconfigRefused))
	content, err := clientcmd.Write(*goodKubeconfig())
	g.Expect(err).ToNot(HaveOccurred())
	source.content = content
	_, err = reader.read(t.Context(), prod)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(ReadErrorReasonOf(b.connection(t).Err)).To(Equal(NotConnected))
}
