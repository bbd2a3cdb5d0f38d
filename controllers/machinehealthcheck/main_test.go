// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

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
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane/assets"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/instance"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// management and guest are the two clusters of all tests: the one that checks live in, and the one that plays workload clusters. They belong to this
// package alone: the tests change the permissions of the manager and count its requests, and the reconcilers read all control plane Nodes and etcd Pods
// of a workload cluster, and its one control-plane lease.
var management, guest *controlplane.ControlPlane

// log is for those who want to see what happens: go test -v.
var log logr.Logger

// patience is how long a test waits until it gives up. Nothing depends on it but that. On a machine that is very busy a cluster may not answer twice in a
// row, and then its Nodes speak first for most of a minute; and a story full of errors takes many passes.
const patience = 10 * time.Minute

// suspense is how long it waits for what it is about, after everything that leads there. The proof that tests can fail keeps that from coming, and makes
// it shorter.
const suspense = patience

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	// Tests wait for API servers more than for processors.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	log = logr.Discard()
	if testing.Verbose() {
		log = funcr.New(func(prefix, args string) { _, _ = fmt.Fprintln(os.Stdout, prefix, args) }, funcr.Options{Verbosity: 4})
	}
	ctrl.SetLogger(log)
	started := []**controlplane.ControlPlane{&management, &guest}
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

// prepare installs the kinds of Cluster API, our own, and those of two remediators, and gives the manager its rights.
func prepare(ctx context.Context) error {
	crds, err := controlplane.ClusterAPICRDs(ctx)
	if err != nil {
		return err
	}
	root, err := assets.ModuleDir(ctx, assets.ModulePath)
	if err != nil {
		return err
	}
	if err := management.InstallCRDs(crds, filepath.Join(root, "config", "crd", "bases")); err != nil {
		return err
	}
	if err := instance.Grant(ctx, management); err != nil {
		return err
	}
	for _, kind := range []remediator.Kind{remediator.Metal3, remediator.FenceAgents} {
		if err := management.InstallCRDObjects(kind.CRDs()...); err != nil {
			return err
		}
		if err := aggregate(ctx, kind.Rules()...); err != nil {
			return err
		}
	}
	return nil
}

// aggregate gives the manager the rights of a remediator, as Kubernetes does where a ClusterRole has the label for it. When it returns the API server
// has heard of that: a manager whose clock stands still asks it once.
func aggregate(ctx context.Context, rules ...rbacv1.PolicyRule) error {
	admin, err := management.Client()
	if err != nil {
		return err
	}
	if err := changeRights(ctx, admin, func(all []rbacv1.PolicyRule) []rbacv1.PolicyRule { return append(all, rules...) }); err != nil {
		return errors.Wrap(err, "failed to aggregate rights")
	}
	return management.UntilAllowed(ctx, ourManager, &rules[0], true)
}

// ourManager is who the manager is for the API server.
const ourManager = "system:serviceaccount:" + instance.Namespace + ":" + instance.ServiceAccount

// rights is held by who changes the rights of the manager: all tests share them, and nobody else is there to change them.
var rights sync.Mutex

// changeRights changes what the manager may do with requests.
func changeRights(ctx context.Context, admin client.Client, change func([]rbacv1.PolicyRule) []rbacv1.PolicyRule) error {
	rights.Lock()
	defer rights.Unlock()
	role := &rbacv1.ClusterRole{}
	if err := admin.Get(ctx, client.ObjectKey{Name: "remedy-system-remediators"}, role); err != nil {
		return err
	}
	before := client.MergeFrom(role.DeepCopy())
	role.Rules = change(role.Rules)
	return admin.Patch(ctx, role, before)
}

func scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme, remedyv1.AddToScheme} {
		NewWithT(t).Expect(add(s)).To(Succeed())
	}
	return s
}
