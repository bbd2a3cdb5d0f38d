// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane/assets"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/instance"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/manifests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// Management is the management cluster of all tests of a package. They change the manager's permissions in it and count its requests, so
// no two packages share it.
var Management *controlplane.ControlPlane

// Workload is the cluster that serves the Nodes of all workload clusters of a package.
var Workload *controlplane.ControlPlane

// Logger writes the controllers' log with go test -v.
var Logger logr.Logger

// Timeout is how long a test waits for a state. It only has to be long enough for a busy machine: nothing else depends on it.
const Timeout = 10 * time.Minute

// OutcomeTimeout is how long a test waits for the outcome that it is about. Mutation tests shorten it, because a mutant prevents that
// outcome.
const OutcomeTimeout = Timeout

// Main starts both clusters, installs the kinds, runs the tests and returns the exit code.
func Main(m *testing.M) int {
	if flag.Parse(); !parallelIsSet() {
		// Tests wait for API servers more than for processors.
		_ = flag.Set("test.parallel", "8")
	}
	Logger = logr.Discard()
	if testing.Verbose() {
		Logger = funcr.New(func(prefix, args string) { _, _ = fmt.Fprintln(os.Stdout, prefix, args) }, funcr.Options{Verbosity: 4})
	}
	ctrl.SetLogger(Logger)
	started := []**controlplane.ControlPlane{&Management, &Workload}
	failures := make([]error, len(started))
	var all sync.WaitGroup
	for i := range started {
		all.Go(func() { *started[i], failures[i] = controlplane.Start(context.Background()) })
	}
	all.Wait()
	for i := range started {
		if failures[i] != nil {
			fmt.Fprintln(os.Stderr, failures[i])
			return 1
		}
		defer (*started[i]).Stop()
	}
	if err := prepare(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// parallelIsSet reports whether the command line has -parallel: under the race detector, tests wait for processors.
func parallelIsSet() bool {
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	return set
}

// prepare installs the kinds of Cluster API, of Remedy and of the remediators, and grants the manager its permissions.
func prepare(ctx context.Context) error {
	crds, err := controlplane.ClusterAPICRDs(ctx)
	if err != nil {
		return err
	}
	root, err := assets.ModuleDir(ctx, assets.ModulePath)
	if err != nil {
		return err
	}
	if err := Management.InstallCRDs(crds, filepath.Join(root, "config", "crd", "bases")); err != nil {
		return err
	}
	if err := instance.Grant(ctx, Management); err != nil {
		return err
	}
	if err := prepareLeases(ctx, root); err != nil {
		return err
	}
	var kinds []*apiextensionsv1.CustomResourceDefinition
	for _, kind := range remediator.Kinds() {
		kinds = append(kinds, kind.CRDs()...)
		if err := Aggregate(ctx, kind.Rules()...); err != nil {
			return err
		}
	}
	return Management.InstallCRDObjects(kinds...)
}

// prepareLeases creates the namespace of the Leases in the management cluster, as an operator of medik8s does, and gives the manager its
// permissions there. The workload cluster has no such namespace.
func prepareLeases(ctx context.Context, root string) error {
	admin, err := Management.Client()
	if err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: workload.NodeLeaseKey("").Namespace}}
	if err := admin.Create(ctx, namespace); err != nil {
		return errors.Wrap(err, "failed to create the namespace of Leases")
	}
	objects, err := manifests.Read(filepath.Join(root, "config", "components", "medik8s-leases", "role.yaml"))
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := admin.Create(ctx, object); err != nil {
			return errors.Wrapf(err, "failed to create %s", object.GetKind())
		}
	}
	return nil
}

// Scheme has the kinds that the tests read and write.
func Scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme, remedyv1.AddToScheme} {
		NewWithT(t).Expect(add(s)).To(Succeed())
	}
	return s
}
