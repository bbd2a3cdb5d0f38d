// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"context"
	"testing"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// checkReader lists checks, and records how many.
type checkReader struct {
	client.Reader
	checks []remedyv1.NodeHealthCheck
	listed *int
}

func (r checkReader) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	all, asked := list.(*remedyv1.NodeHealthCheckList), (&client.ListOptions{}).ApplyOptions(options)
	for i := range r.checks {
		if asked.LabelSelector == nil || asked.LabelSelector.Matches(labels.Set(r.checks[i].Labels)) {
			all.Items = append(all.Items, r.checks[i])
		}
	}
	*r.listed += len(all.Items)
	return nil
}

// Events of Nodes, Machines and Clusters reconcile only the check of this instance, and read none of the thousand of another one.
func TestWatches_ChecksOfOtherInstance_AreNotRead(t *testing.T) {
	g := NewWithT(t)
	reader := checkReader{checks: make([]remedyv1.NodeHealthCheck, 1001), listed: new(int)}
	for i := range reader.checks {
		reader.checks[i].Name, reader.checks[i].Labels = "other", map[string]string{clusterv1.WatchLabel: "other"}
	}
	reader.checks[7].Name, reader.checks[7].Labels = "own", map[string]string{clusterv1.WatchLabel: "own"}
	watches := watchesFor(&healthcheck.Environment{WatchFilter: "own", Cache: reader})
	own := types.NamespacedName{Name: "own"}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	g.Expect(watches.Node(t.Context(), workload.NodeChange{Name: "n", Before: node, After: node})).To(ConsistOf(own))
	g.Expect(watches.Cluster(t.Context(), client.ObjectKey{Namespace: "a", Name: "c"})).To(ConsistOf(own))
	machine := &clusterv1.Machine{Status: clusterv1.MachineStatus{NodeRef: clusterv1.MachineNodeReference{Name: "n"}}}
	g.Expect(watches.Objects[1].Checks(t.Context(), machine)).To(HaveEach(own))
	g.Expect(*reader.listed).To(Equal(4))
}

// Another check of the same Nodes reads the selector, the mode, the deletion and the running remediations of a check, and nothing else.
func TestClaimant_ChangeOthersDoNotRead_WakesNone(t *testing.T) {
	for name, test := range map[string]struct {
		change func(check *remedyv1.NodeHealthCheck)
		wakes  bool
	}{
		"conditions": {func(check *remedyv1.NodeHealthCheck) {
			check.Spec.UnhealthyConditions = make([]remedyv1.LastingNodeCondition, 1)
		}, false},
		"limit":      {func(check *remedyv1.NodeHealthCheck) { check.Spec.MaxInFlight = ptr.To(intstr.FromInt32(1)) }, false},
		"annotation": {func(check *remedyv1.NodeHealthCheck) { check.Annotations = map[string]string{"a": "b"} }, false},
		"selector":   {func(check *remedyv1.NodeHealthCheck) { check.Spec.Selector = &remedyv1.Selector{} }, true},
		"mode":       {func(check *remedyv1.NodeHealthCheck) { check.Spec.Mode = remedyv1.ObserveMode }, true},
		"deletion":   {func(check *remedyv1.NodeHealthCheck) { check.DeletionTimestamp = ptr.To(metav1.Now()) }, true},
		"remediation": {
			func(check *remedyv1.NodeHealthCheck) {
				check.Status.InFlightRemediations = map[string]metav1.Time{"n": metav1.Now()}
			}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := &remedyv1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: "a", Generation: 1}}
			after := before.DeepCopy()
			after.Generation++
			test.change(after)
			changed := Claimant{}.Changes().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})
			NewWithT(t).Expect(changed).To(Equal(test.wakes))
		})
	}
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
	g.Expect(watchesFor(e).Cluster(ctx, client.ObjectKey{Namespace: "a", Name: "c"})).To(BeEmpty())
	g.Expect(lines).To(ConsistOf(And(ContainSubstring("a/c"), ContainSubstring("no index"))))
}
