// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"testing"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
)

// checkReader lists checks.
type checkReader struct {
	client.Reader
	checks []remedyv1.MachineHealthCheck
}

// List copies what it returns, as the cache does.
func (r checkReader) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	all, asked := list.(*remedyv1.MachineHealthCheckList), (&client.ListOptions{}).ApplyOptions(options)
	for i := range r.checks {
		if asked.LabelSelector == nil || asked.LabelSelector.Matches(labels.Set(r.checks[i].Labels)) {
			all.Items = append(all.Items, r.checks[i])
		}
	}
	return nil
}

// An event of a Machine or a Node reconciles only checks that this instance is responsible for.
func TestWatches_CheckOfOtherInstance_IsNotReconciled(t *testing.T) {
	g := NewWithT(t)
	check := func(name, filter string) remedyv1.MachineHealthCheck {
		return remedyv1.MachineHealthCheck{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, Labels: map[string]string{clusterv1.WatchLabel: filter}},
		}
	}
	e := &healthcheck.Environment{
		WatchFilter: "own",
		Cache:       checkReader{checks: []remedyv1.MachineHealthCheck{check("own", "own"), check("other", "other")}},
	}
	watches := WatchesFor(e.Cache, selections(e))
	own := []types.NamespacedName{{Namespace: "a", Name: "own"}}
	g.Expect(watches.Cluster(t.Context(), client.ObjectKey{Namespace: "a", Name: "c"})).To(Equal(own))
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "m"}, Spec: clusterv1.MachineSpec{ClusterName: "c"}}
	g.Expect(watches.Objects[1].Checks(t.Context(), machine)).To(Equal(own))
}

// unreadable is a cache that cannot be read.
type unreadable struct{ client.Reader }

func (unreadable) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("no index")
}

// The checks that an event concerns cannot be read, so they are not reconciled because of it. The log has the cause.
func TestWatches_ChecksUnread_IsLogged(t *testing.T) {
	g := NewWithT(t)
	var lines []string
	ctx := ctrl.LoggerInto(t.Context(), funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}))
	e := &healthcheck.Environment{Cache: unreadable{}}
	g.Expect(WatchesFor(e.Cache, selections(e)).Cluster(ctx, client.ObjectKey{Namespace: "a", Name: "c"})).To(BeEmpty())
	g.Expect(lines).To(ConsistOf(And(ContainSubstring("a/c"), ContainSubstring("no index"))))
}
