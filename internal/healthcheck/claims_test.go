// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"context"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
)

// A request of the in-tree controller has no annotation of a check, so its check is empty. A claim of a check that is not known is empty,
// too: it must not match.
func TestHolds_RequestNamesNoCheck_HoldsNothing(t *testing.T) {
	g := NewWithT(t)
	target := &Target{Object: &clusterv1.Machine{}}
	own := requests.Check{Kind: "MachineHealthCheck", Namespace: "a", Name: "b"}
	unnamed := &snapshot{elsewhere: map[types.UID][]*requests.Request{"": {{}}}}
	g.Expect(unnamed.holds(&Claim{}, target)).To(BeFalse())
	g.Expect(unnamed.holds(&Claim{Check: own}, target)).To(BeFalse())
	named := &snapshot{elsewhere: map[types.UID][]*requests.Request{"": {{Check: own}}}}
	g.Expect(named.holds(&Claim{Check: own}, target)).To(BeTrue())
}

// The manager does not read all kinds of such an annotation, so there may be requests of the others.
func TestUnreadRequests_TooManyKinds_AreReported(t *testing.T) {
	g := NewWithT(t)
	machine := &clusterv1.MachineHealthCheck{}
	s := &snapshot{check: &Check{Object: machine}}
	g.Expect(s.unreadRequests()).To(BeEmpty())
	kinds := strings.Repeat("A.v1.example.com,", notes.MaxRequestKinds)
	machine.Annotations = map[string]string{remedyv1.RequestKindsAnnotation: kinds + "B.v1.example.com"}
	g.Expect(s.unreadRequests()).To(ContainSubstring(remedyv1.RequestKindsAnnotation + " has more than 32 kinds"))
}

// Claims are compared for every target of every reconcile, so a target that no other check selects costs no memory.
func TestResponsible_NotSelectedByOthers_AllocatesNothing(t *testing.T) {
	g := NewWithT(t)
	s := &snapshot{check: &Check{}, claims: []Claim{{MarkedBy: "MachineHealthCheck/other", Selects: func(*Target) bool { return false }}}}
	target, facts := &Target{Object: &clusterv1.Machine{}}, &remediation.Target{}
	g.Expect(testing.AllocsPerRun(100, func() { s.responsible(target, facts) })).To(BeZero())
}

// kindReader only returns the kinds of objects.
type kindReader struct{ client.Client }

func (kindReader) GroupVersionKindFor(runtime.Object) (schema.GroupVersionKind, error) {
	return clusterv1.GroupVersion.WithKind("MachineHealthCheck"), nil
}

// unservedClaimant reads a kind that is not served.
type unservedClaimant struct{ Claimant }

func (unservedClaimant) Object() client.Object { return &clusterv1.MachineHealthCheck{} }

func (unservedClaimant) Claims(context.Context, client.Reader, *Check, *clusterv1.Cluster) ([]Claim, error) {
	return nil, &meta.NoKindMatchError{}
}

// Another check may be responsible for the targets, so a kind that cannot be read stops the reconcile. Without Cluster API, there are no
// checks of it.
func TestClaims_KindNotServed_FailWithClusterAPI(t *testing.T) {
	g := NewWithT(t)
	e := &Environment{Client: kindReader{}, Claimants: []Claimant{unservedClaimant{}}}
	_, err := e.Claims(t.Context(), &Check{}, nil)
	g.Expect(meta.IsNoMatchError(err)).To(BeTrue())
	e.NoClusterAPI.Store(true)
	g.Expect(e.Claims(t.Context(), &Check{}, nil)).To(BeEmpty())
}
