// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediator_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

var (
	cp    *controlplane.ControlPlane
	admin client.Client
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	// These machines are shared: what takes long is no failure.
	SetDefaultEventuallyTimeout(10 * time.Minute)
	var err error
	if cp, err = controlplane.Lease(context.Background(), controlplane.Management); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer cp.Stop()
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, kind := range remediator.Kinds() {
		crds = append(crds, kind.CRDs()...)
	}
	if err = cp.InstallCRDObjects(crds...); err == nil {
		admin, err = cp.Client()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
