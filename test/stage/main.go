// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// Management is the management cluster of all tests of a package. They change the manager's permissions in it and count its requests, so
// no two packages share it. It has the namespace of the Leases, as an operator of medik8s creates it; the workload cluster has not.
var Management = testenv.New(
	testenv.ClusterAPIKinds(), testenv.RemedyKinds, testenv.ManagerRoles,
	testenv.Namespaces(workload.NodeLeaseKey("").Namespace), testenv.Manifests("components/medik8s-leases/role.yaml"),
	testenv.RemediationKinds(remediator.Kinds()...), aggregateRemediators,
)

// Workload is the cluster that serves the Nodes of all workload clusters of a package.
var Workload = testenv.New()

// Timeout is how long a test waits for a state. It only has to be long enough for a busy machine: nothing else depends on it.
const Timeout = 10 * time.Minute

// OutcomeTimeout is how long a test waits for the outcome that it is about. Mutation tests shorten it, because a mutant prevents that
// outcome.
const OutcomeTimeout = Timeout

func aggregateRemediators(ctx context.Context, management *testenv.Environment) error {
	for _, kind := range remediator.Kinds() {
		if err := aggregate(ctx, management, kind.Rules()...); err != nil {
			return err
		}
	}
	return nil
}
