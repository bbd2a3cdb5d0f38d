// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
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

// laterClaims are read again at a time.
type laterClaims time.Time

func (l laterClaims) Claims(context.Context, *Check, time.Time, bool) ForeignClaims {
	return ForeignClaims{Again: time.Time(l)}
}

// A preflight check reads the claims of another project, and they are read again at the time that it returns: they are not watched.
func TestPreflight_ClaimsOfOthers_AreReadAgain(t *testing.T) {
	g := NewWithT(t)
	again := time.Unix(60, 0)
	p := &scope{
		r:        &Reconciler{Environment: &Environment{Clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0))}, Others: laterClaims(again)},
		snapshot: &snapshot{check: &Check{}, targets: []*Target{{Object: &clusterv1.Machine{}}}, requeueTime: time.Unix(3600, 0)},
	}
	fresh := *p.snapshot
	p.readOtherClaimsAgain(t.Context(), &fresh, []int{0})
	g.Expect(p.snapshot.requeueTime).To(Equal(again))
}

// localChecks has one NodeHealthCheck of the management cluster, and may fail.
type localChecks struct {
	client.Reader
	err error
}

func (l localChecks) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if checks, is := list.(*remedyv1.NodeHealthCheckList); is {
		checks.Items = make([]remedyv1.NodeHealthCheck, 1)
	}
	return l.err
}

// nodeClaimant has one claim in each cluster.
type nodeClaimant struct{ Claimant }

func (nodeClaimant) Object() client.Object                  { return &remedyv1.NodeHealthCheck{} }
func (nodeClaimant) Changes() predicate.Predicate           { return nil }
func (nodeClaimant) Cluster(client.Object) client.ObjectKey { return workload.ManagementCluster }

func (nodeClaimant) Claims(_ context.Context, _ client.Reader, check *Check, _ *clusterv1.Cluster) ([]Claim, error) {
	all := func(*Target) bool { return true }
	return []Claim{{Title: "check of " + check.Cluster.Name, InFlight: map[string]bool{"n-1": true}, Selects: all}}, nil
}

// Without the Nodes of the management cluster, the manager cannot decide whether a Cluster is the management cluster. So a check of the
// Cluster leaves only those Nodes alone that a check without a Cluster remediates already: that one starts nothing more.
func TestClaims_ManagementNodesUnread_OnlyRunningOnesCount(t *testing.T) {
	g := NewWithT(t)
	e := &Environment{Cache: localChecks{}, Clusters: clusters(t, nil), Claimants: []Claimant{nodeClaimant{}}}
	check := &Check{Cluster: client.ObjectKey{Namespace: "a", Name: "prod"}, Object: &remedyv1.NodeHealthCheck{}}
	claims, err := e.Claims(t.Context(), check, nil)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(claims).To(HaveLen(2))
	titles := func(node string) (titles []string) {
		s := &snapshot{check: check}
		for _, s.claims = range [][]Claim{claims[:1], claims[1:]} {
			_, title := s.responsible(&Target{Object: &clusterv1.Machine{}, NodeTarget: workload.Target{Name: node}}, &remediation.Target{})
			titles = append(titles, title)
		}
		return titles
	}
	g.Expect(titles("n-1")).To(Equal([]string{"check of prod", "check of "}))
	g.Expect(titles("n-2")).To(Equal([]string{"check of prod", ""}))
	check.Cluster = workload.ManagementCluster
	g.Expect(e.Claims(t.Context(), check, nil)).To(HaveLen(1), "it starts nothing, and reports why")
}

// An event of another check wakes those under the first name of a cluster. Why it does not wake those under other names is logged, but not
// while the manager stops: every read fails then.
func TestWatchOf_OtherNamesUnread_IsLogged(t *testing.T) {
	g := NewWithT(t)
	var lines []string
	log := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
	ctx, stop := context.WithCancel(ctrl.LoggerInto(t.Context(), log))
	own := types.NamespacedName{Name: "own"}
	r := &Reconciler{
		Environment: &Environment{Cache: localChecks{err: errors.New("no index")}, Claimants: []Claimant{nodeClaimant{}}},
		Watches:     Watches{Cluster: func(context.Context, client.ObjectKey) []types.NamespacedName { return []types.NamespacedName{own} }},
	}
	checks := r.watchOf(nodeClaimant{}).Checks
	g.Expect(checks(ctx, &remedyv1.NodeHealthCheck{})).To(ConsistOf(own))
	g.Expect(lines).To(ConsistOf(And(ContainSubstring("Failed to read the checks that an event concerns"), ContainSubstring("no index"))))
	stop()
	g.Expect(checks(ctx, &remedyv1.NodeHealthCheck{})).To(ConsistOf(own))
	g.Expect(lines).To(HaveLen(1))
}
