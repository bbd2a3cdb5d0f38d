// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// asker is what is found out about kinds, one time after the other.
type asker struct {
	kinds
	clock *testingclock.FakePassiveClock
}

// asks lets something be found when it is time, and returns after how long it is asked again.
func (a *asker) asks(err error, found ...schema.GroupVersionKind) time.Duration {
	if !a.again.IsZero() {
		a.clock.SetTime(a.again)
	}
	now := a.clock.Now()
	a.asking = make(chan struct{})
	a.learn(found, err, now)
	return a.again.Sub(now)
}

var rebootKind, resetKind = schema.GroupVersionKind{Group: "a.example.com", Version: "v1", Kind: "Reboot"}, schema.GroupVersionKind{Group: "b.example.com", Version: "v1", Kind: "Reset"}

func TestRightsThatDoNotComeAreAskedForLessAndLessOften(t *testing.T) {
	g := NewWithT(t)
	a := &asker{clock: testingclock.NewFakePassiveClock(time.Date(2026, time.March, 14, 12, 0, 0, 0, time.UTC))}
	for _, minutes := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		g.Expect(a.asks(nil, rebootKind)).To(Equal(minutes * time.Minute))
	}
	g.Expect(a.asks(nil, rebootKind, resetKind)).To(Equal(time.Minute), "a right has come, and more may")
	g.Expect(a.asks(nil, rebootKind, resetKind)).To(Equal(2 * time.Minute))
	g.Expect(a.asks(errors.New("out of order"), rebootKind)).To(Equal(remediation.RetryTime))
	g.Expect(a.asks(nil, rebootKind, resetKind)).To(Equal(time.Minute), "an API is in order again")
}

func TestAKindIsNotForgottenWithTheRightToIt(t *testing.T) {
	g := NewWithT(t)
	a := &asker{clock: testingclock.NewFakePassiveClock(time.Date(2026, time.March, 14, 12, 0, 0, 0, time.UTC))}
	a.asks(nil, rebootKind, resetKind)
	a.asks(nil, rebootKind)
	g.Expect(a.all).To(ConsistOf(rebootKind, resetKind), "there may be requests of it")
	newer := schema.GroupVersionKind{Group: resetKind.Group, Version: "v2", Kind: resetKind.Kind}
	a.asks(nil, rebootKind, newer)
	g.Expect(a.all).To(ConsistOf(rebootKind, newer))
}
