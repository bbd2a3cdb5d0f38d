// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

// remedy runs `kubectl remedy` as a user types it.
func remedy(t *testing.T, w *world.World, words ...string) (string, error) {
	t.Helper()
	plugin, err := w.Plugin(t.Context())
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	cmd := exec.CommandContext(t.Context(), w.Plane.Kubectl, append(append([]string{"remedy"}, words...), "--kubeconfig", w.Kubeconfig)...)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(plugin)+":"+os.Getenv("PATH"))
	said, err := cmd.CombinedOutput()
	t.Logf("kubectl remedy %s\n%s", strings.Join(words, " "), said)
	return string(said), err
}

// exempt are the CustomResourceDefinitions of Remedy, and Events, which expire after an hour.
var exempt = []string{"CustomResourceDefinition", "APIService", "Event"}

// traces are all objects of a cluster, of every kind that is served, that contain the prefix of Remedy anywhere: in text as the API server returns
// it. A kind may be deleted during the search.
func traces(ctx context.Context, g Gomega, config *rest.Config, but func(*unstructured.Unstructured) bool) []string {
	lists, err := discovery.NewDiscoveryClientForConfigOrDie(config).ServerPreferredResources()
	g.Expect(err).ToNot(HaveOccurred())
	config = rest.CopyConfig(config)
	config.QPS, config.Burst, config.WarningHandler = 1000, 2000, rest.NoWarnings{}
	api := dynamic.NewForConfigOrDie(config)
	kinds := 0
	var found []string
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		g.Expect(err).ToNot(HaveOccurred())
		for i := range list.APIResources {
			r := &list.APIResources[i]
			if !slices.Contains(r.Verbs, "list") || slices.Contains(exempt, r.Kind) {
				continue
			}
			kinds++
			all, err := api.Resource(group.WithResource(r.Name)).List(ctx, metav1.ListOptions{})
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				continue
			}
			g.Expect(err).ToNot(HaveOccurred(), r.Name)
			for i := range all.Items {
				if o := &all.Items[i]; mentions(g, o) && !but(o) {
					found = append(found, o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName())
				}
			}
		}
	}
	g.Expect(kinds).To(BeNumerically(">", 20), "or this looks at nothing")
	slices.Sort(found)
	return slices.Compact(found)
}

// mentions reports whether an object contains the prefix. The group of a check of Remedy does not count.
func mentions(g Gomega, o *unstructured.Unstructured) bool {
	if o.GetAPIVersion() == remedyv1.GroupVersion.String() {
		o.SetAPIVersion("")
		o.SetManagedFields(nil)
	}
	text, err := json.Marshal(o.Object)
	g.Expect(err).ToNot(HaveOccurred())
	return strings.Contains(string(text), remedyv1.GroupVersion.Group)
}

// installed reports whether clusterctl deletes an object with the provider: what it has installed, and the roles that the API server
// aggregates of them.
func installed(o *unstructured.Unstructured) bool {
	label := o.GetLabels()["cluster.x-k8s.io/provider"]
	return label == "infrastructure-remedy" || o.GetKind() == "ClusterRole" && slices.Contains([]string{"admin", "edit", "view"}, o.GetName())
}

func none(*unstructured.Unstructured) bool { return false }
