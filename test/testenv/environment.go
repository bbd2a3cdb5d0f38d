// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package testenv starts the API servers of the tests of a package, and installs in them what the tests need. It runs no controller:
// test/stage, test/instance and test/world do. Start reading at New.
package testenv

import (
	"context"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
)

// Environment is an API server that starts when a test needs it. Until then only its methods Start and Use work.
type Environment struct {
	*controlplane.ControlPlane
	// API is a client that may do everything. It serves the kinds of Scheme.
	API client.Client

	steps []Step
	start func() error
}

// Step installs something in an API server that has just started.
type Step func(context.Context, *Environment) error

// New describes an API server of this package alone. A package needs one if controlplane.Lease excludes a shared one.
func New(steps ...Step) *Environment {
	return describe(steps, func(ctx context.Context) (*controlplane.ControlPlane, error) { return controlplane.Start(ctx) })
}

// Shared describes an API server that packages share below cmd/share, with a name of test/controlplane.
func Shared(name string, steps ...Step) *Environment {
	return describe(steps, func(ctx context.Context) (*controlplane.ControlPlane, error) { return controlplane.Lease(ctx, name) })
}

func describe(steps []Step, run func(context.Context) (*controlplane.ControlPlane, error)) *Environment {
	e := &Environment{steps: steps}
	e.start = sync.OnceValue(func() error {
		ctx := context.Background()
		var err error
		if e.ControlPlane, err = run(ctx); err != nil {
			return err
		}
		AtEnd(e.Stop)
		return e.install(ctx)
	})
	return e
}

func (e *Environment) install(ctx context.Context) (err error) {
	if e.API, err = client.New(e.Admin, client.Options{Scheme: Scheme}); err != nil {
		return errors.Wrap(err, "failed to make a client")
	}
	for _, step := range e.steps {
		if err := step(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// Start starts an API server for one test.
func Start(t testing.TB, steps ...Step) *Environment {
	t.Helper()
	e := &Environment{}
	var err error
	e.ControlPlane, err = controlplane.Start(t.Context())
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	t.Cleanup(e.Stop)
	e.steps = steps
	NewWithT(t).Expect(e.install(t.Context())).To(Succeed())
	return e
}

// Use starts the API server if no test has started it. Main stops it.
func (e *Environment) Use(t testing.TB) *Environment {
	t.Helper()
	Use(t, e)
	return e
}

// Use starts several API servers at the same time.
func Use(t testing.TB, all ...*Environment) {
	t.Helper()
	NewWithT(t).Expect(start(all)).To(Succeed())
}

func start(all []*Environment) error {
	failures := make([]error, len(all))
	var started sync.WaitGroup
	for i, e := range all {
		started.Go(func() { failures[i] = e.start() })
	}
	started.Wait()
	for _, err := range failures {
		if err != nil {
			return err
		}
	}
	return nil
}
