// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package attacks_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// readCounter counts GET requests by path.
type readCounter struct {
	next http.RoundTripper
	mu   sync.Mutex
	gets map[string]int
}

// RoundTrip implements http.RoundTripper.
func (c *readCounter) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		c.mu.Lock()
		c.gets[r.URL.Path]++
		c.mu.Unlock()
	}
	return c.next.RoundTrip(r)
}

// total returns how many GET requests had a path with this part.
func (c *readCounter) total(part string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for path, gets := range c.gets {
		if strings.Contains(path, part) {
			n += gets
		}
	}
	return n
}

// A tenant who can annotate checks lists thousands of kinds of requests, and thousands of Machines that are being replaced. Of each check,
// the manager reads a limited number, and asks only once for kinds that are not served. Another tenant gets a request meanwhile.
func TestAttack_LongAnnotations_CostLittle(t *testing.T) {
	t.Parallel()
	const checks, entries = 10, 1000
	s := stage.New(t, stage.WithTenants, stage.WithClock)
	attacker := s.Namespace + "-attacker"
	s.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: attacker}})
	for i := range checks {
		check := &remedyv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{
			Namespace: attacker, Name: fmt.Sprintf("check-%d", i), Labels: map[string]string{clusterv1.WatchLabel: s.WatchFilter},
		}}
		kinds, replacing := make([]string, entries), make([]string, entries)
		for n := range entries {
			kinds[n] = fmt.Sprintf("Kind.v1.g%d-%d.attack.example.com", i, n)
			replacing[n] = fmt.Sprintf("m-%d MachineSet/attack-%d-%d", n, i, n)
		}
		check.Annotations = map[string]string{
			remedyv1.RequestKindsAnnotation: strings.Join(kinds, ","), remedyv1.ReplacingAnnotation: strings.Join(replacing, ","),
		}
		check.Spec.ClusterName = "none"
		check.Spec.Selector.MatchLabels = map[string]remedyv1.LabelValue{"pool": "workers"}
		check.Spec.UnhealthyConditions = []remedyv1.UnhealthyNodeCondition{
			{Type: "Ready", Status: "Unknown", Timeout: stage.Duration(5 * time.Minute)},
		}
		s.Create(check)
	}
	s.CreateUnhealthyMachine("m-1")
	s.CreateCheck("workers", stage.ByNewTemplate(s))

	counter := &readCounter{gets: map[string]int{}}
	user := rest.CopyConfig(s.User())
	user.Wrap(func(next http.RoundTripper) http.RoundTripper {
		counter.next = next
		return counter
	})
	c, err := s.StartAs(faults.Start(s.Ctx), user)
	s.Expect(err).ToNot(HaveOccurred())
	t.Cleanup(c.StopIdle)
	s.WaitRequest(remediator.Metal3, "m-1")
	for i := range checks {
		s.Eventually(func() bool { return c.Reconciles(fmt.Sprintf("check-%d", i)).Load() > 0 }).Should(BeTrue())
	}
	c.WaitNoReconciles()

	discovered, owners := counter.total("attack.example.com"), counter.total("/machinesets/attack-")
	outcome(t, "annotations of %d checks with %d entries each: %d GETs for discovery, %d for owners", checks, entries, discovered, owners)
	// A group that is not served costs one GET of the version and one of the group.
	s.Expect(discovered).To(And(BeNumerically(">", 0), BeNumerically("<=", checks*notes.MaxRequestKinds*2)))
	counter.mu.Lock()
	for path, gets := range counter.gets {
		if strings.Contains(path, "attack.example.com") {
			s.Expect(gets).To(Equal(1), path)
		}
	}
	distinct := 0
	for path := range counter.gets {
		if strings.Contains(path, "/machinesets/attack-") {
			distinct++
		}
	}
	counter.mu.Unlock()
	s.Expect(distinct).To(And(BeNumerically(">", 0), BeNumerically("<=", checks*remediation.HighestMaxInFlight)))
}
