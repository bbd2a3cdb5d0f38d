// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
)

func TestWhatHasLedToALook(t *testing.T) {
	g := NewWithT(t)
	noon := time.Date(2026, time.March, 14, 12, 0, 0, 0, time.UTC)
	p, check := &pace{}, types.NamespacedName{Namespace: "a", Name: "b"}
	look := func(at time.Duration) []any {
		trigger, late := p.looks(check, noon.Add(at))
		return []any{trigger, late}
	}
	g.Expect(look(0)).To(Equal([]any{metrics.ByResync, time.Duration(0)}), "nothing led to it that we know of")
	p.told(check, noon)
	p.told(check, noon.Add(time.Second))
	g.Expect(look(3*time.Second)).To(Equal([]any{metrics.ByEvent, 3 * time.Second}), "the first news count")
	p.next(check, noon.Add(time.Minute))
	g.Expect(look(time.Minute + time.Millisecond)).To(Equal([]any{metrics.ByTimer, time.Millisecond}))
	p.next(check, noon.Add(time.Minute))
	p.told(check, noon)
	g.Expect(look(time.Second)).To(Equal([]any{metrics.ByEvent, time.Second}), "news came before the deadline")
	g.Expect(look(2*time.Minute)).To(Equal([]any{metrics.ByResync, time.Duration(0)}), "and what was done is done")
	p.next(check, noon.Add(time.Minute))
	p.told(check, noon.Add(2*time.Minute))
	g.Expect(look(3*time.Minute)).To(Equal([]any{metrics.ByTimer, 2 * time.Minute}), "what was due first")
	p.told(check, noon)
	p.changed(check, noon.Add(time.Second))
	g.Expect(look(2*time.Second)).To(Equal([]any{metrics.BySpec, 2 * time.Second}), "the check itself has changed, too")
	p.forget(check)
	g.Expect(p.checks).To(BeEmpty())
}
