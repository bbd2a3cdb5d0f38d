// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// The manager ends a connection when the API server does not accept its token any more, and connects again at once with the new one.
func TestConnection_TokenRenewed_HasNoGracePeriod(t *testing.T) {
	for outage, restored := range map[time.Duration]bool{ShortOutage - time.Second: false, ShortOutage: true} {
		g := NewWithT(t)
		b := newBench(t, node("a", ""))
		b.connection(t)
		b.clock.Step(outage)
		b.wire.disconnect()
		g.Expect(b.connection(t).Up).To(BeFalse())
		back := noon.Add(outage)
		b.wire.connect(back)
		want := Connection{Up: true, LastSeen: back}
		if restored {
			want.RestoredAt = back
		}
		g.Expect(b.connection(t)).To(Equal(want))
		g.Expect(b.read(t, Target{Name: "a"})[0].State).To(Equal(health.Present))
	}
}

// A grace period that has begun goes on while the connection is renewed.
func TestConnection_TokenRenewedAfterOutage_KeepsGracePeriod(t *testing.T) {
	g := NewWithT(t)
	b := newBench(t, node("a", ""))
	b.connection(t)
	b.wire.disconnect()
	b.connection(t)
	b.clock.Step(time.Minute)
	back := noon.Add(time.Minute)
	b.wire.connect(back)
	b.connection(t)
	b.clock.Step(time.Second)
	b.wire.disconnect()
	b.connection(t)
	b.wire.connect(back.Add(time.Second))
	g.Expect(b.connection(t).GracePeriodEnd()).To(Equal(back.Add(50 * time.Second)))
}
