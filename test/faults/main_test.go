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

var (
	admin client.Client
	cp    = testenv.Shared(controlplane.Management, testenv.AdminClient(&admin))
)

func TestMain(m *testing.M) { testenv.Main(m, cp) }

// newNamespace is one of the test's own.
func newNamespace(ctx context.Context) (string, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "story-"}}
	err := admin.Create(ctx, namespace)
	return namespace.Name, err
}

func namespaceFor(t *testing.T) string {
	t.Helper()
	return cp.Namespace(t)
}

func clientOf(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	return testenv.NewClient(t, config)
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
	NewWithT(t).Expect(admin.List(t.Context(), list, client.InNamespace(namespace))).To(Succeed())
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
