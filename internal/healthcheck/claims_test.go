// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
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

// Each of thousands of checks of a Cluster would be compared with all others. The oldest ones are compared with each other. A newer one
// starts no remediation, also of targets that no other check selects. It finishes those that it has started.
func TestClaimsOf_MoreThanMaxChecks_NewestStartsNothing(t *testing.T) {
	g := NewWithT(t)
	checks := make([]remedyv1.MachineHealthCheck, explain.MaxChecks+1)
	for i := range checks {
		name := fmt.Sprintf("check-%03d", i)
		checks[i].Name, checks[i].UID = name, types.UID(name)
		checks[i].CreationTimestamp = metav1.NewTime(time.Unix(0, 0).Add(-time.Duration(i) * time.Minute))
	}
	claimOf := func(other *remedyv1.MachineHealthCheck) Claim {
		return Claim{Claim: remediation.Claim{Name: other.Name}, Title: other.Name, Selects: func(*Target) bool { return false }}
	}
	responsible := func(check *remedyv1.MachineHealthCheck, mark bool) (claims int, title string) {
		s := &snapshot{check: &Check{Object: check, Claim: remediation.Claim{Rank: remediation.MachineHealthCheck, Name: check.Name}}}
		s.claims = ClaimsOf(checks, s.check, claimOf)
		facts := &remediation.Target{}
		facts.OwnerRemediation.MarkedByThis = mark
		_, title = s.responsible(&Target{Object: &clusterv1.Machine{}}, facts)
		return len(s.claims), title
	}
	// check-000 is the newest one.
	newest, oldest := checks[0].DeepCopy(), checks[explain.MaxChecks].DeepCopy()
	claims, title := responsible(newest, false)
	g.Expect(title).To(Equal("One of 100 older checks"))
	g.Expect(claims).To(Equal(explain.MaxChecks+1), "SelectorsDisjoint reports more than MaxChecks")
	_, title = responsible(newest, true)
	g.Expect(title).To(BeEmpty(), "remediates the target already")
	claims, title = responsible(oldest, false)
	g.Expect(title).To(BeEmpty())
	g.Expect(claims).To(Equal(explain.MaxChecks - 1))
	// One that is deleted gives its place to the newest one.
	checks = checks[:explain.MaxChecks]
	claims, title = responsible(newest, false)
	g.Expect(title).To(BeEmpty())
	g.Expect(claims).To(Equal(explain.MaxChecks - 1))
}

// The selectors of so many checks that the cache has no place for all are compiled again, and each check has its own one.
func TestCompiled_MoreThanCacheHolds_AreCompiledAgain(t *testing.T) {
	g := NewWithT(t)
	const checks = 10_001
	compilations := 0
	compiledOf := func(i int) labels.Selector {
		check := &remedyv1.MachineHealthCheck{}
		check.UID = types.UID(fmt.Sprintf("compiled-%d", i))
		return Compiled(check, func() (labels.Selector, error) {
			compilations++
			return labels.SelectorFromSet(labels.Set{"pool": fmt.Sprint(i)}), nil
		})
	}
	for i := range checks {
		compiledOf(i)
	}
	g.Expect(compiledOf(checks - 1).String()).To(Equal("pool=10000"))
	g.Expect(compilations).To(Equal(checks), "the newest one is in the cache")
	g.Expect(compiledOf(0).String()).To(Equal("pool=0"))
	g.Expect(compilations).To(Equal(checks+1), "the oldest one is not")
	g.Expect(compiled.Len()).To(BeNumerically("<=", 10_000))
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
