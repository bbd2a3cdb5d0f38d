// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"net"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

var cp = testenv.Shared(controlplane.Management)

func TestMain(m *testing.M) { testenv.Main(m, cp) }

// newNamespace is one of the test's own.
func newNamespace(ctx context.Context) (string, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "story-"}}
	err := cp.API.Create(ctx, namespace)
	return namespace.Name, err
}

func namespaceFor(t *testing.T) string {
	t.Helper()
	name, err := newNamespace(t.Context())
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	return name
}

func clientOf(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{})
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	return c
}

// ownConnections makes clients of this config share no connection with any other.
func ownConnections(config *rest.Config) *rest.Config {
	own := rest.CopyConfig(config)
	own.Dial = (&net.Dialer{}).DialContext
	return own
}

func configMap(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{"text": name}}
}

// there are the names of the ConfigMaps that are really there, but for the one that every namespace has.
func there(t *testing.T, namespace string) []string {
	t.Helper()
	list := &corev1.ConfigMapList{}
	NewWithT(t).Expect(cp.API.List(t.Context(), list, client.InNamespace(namespace))).To(Succeed())
	names := []string{}
	for i := range list.Items {
		if list.Items[i].Name != "kube-root-ca.crt" {
			names = append(names, list.Items[i].Name)
		}
	}
	return names
}

func what(writes []faults.Write) []string {
	texts := make([]string, 0, len(writes))
	for _, w := range writes {
		texts = append(texts, w.What())
	}
	return texts
}
