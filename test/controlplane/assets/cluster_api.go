// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/pkg/errors"
)

// The versions of Cluster API, pinned by test/controlplane/build/clusterapi; a test holds the two together.
// Its test module, which has the in-memory infrastructure, has releases of its own.
const (
	ClusterAPIVersion     = "1.14.2"
	ClusterAPITestVersion = "1.14.0"
)

// The managers of Cluster API, and its command line.
const (
	CoreManager           Binary = "core-manager"
	BootstrapManager      Binary = "kubeadm-bootstrap-manager"
	ControlPlaneManager   Binary = "kubeadm-control-plane-manager"
	InfrastructureManager Binary = "docker-infrastructure-manager"
	Clusterctl            Binary = "clusterctl"
)

// clusterAPIPackages are the main packages of upstream. Two of them have the same last word, so that each is built by itself.
var clusterAPIPackages = map[Binary]string{
	CoreManager:           "sigs.k8s.io/cluster-api/core",
	BootstrapManager:      "sigs.k8s.io/cluster-api/bootstrap/kubeadm",
	ControlPlaneManager:   "sigs.k8s.io/cluster-api/controlplane/kubeadm",
	InfrastructureManager: "sigs.k8s.io/cluster-api/test/infrastructure/docker",
	Clusterctl:            "sigs.k8s.io/cluster-api/cmd/clusterctl",
}

// ClusterAPI is every program of Cluster API that the tests run.
func ClusterAPI() []Binary {
	return []Binary{CoreManager, BootstrapManager, ControlPlaneManager, InfrastructureManager, Clusterctl}
}

// NewClusterAPIProvider returns the provider of Cluster API's programs. They are always built: upstream publishes managers as images only.
func NewClusterAPIProvider(progress io.Writer) (*Provider, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return nil, errors.Wrap(err, "no folder for caches: set HOME or XDG_CACHE_HOME")
	}
	versions := "cluster-api-" + ClusterAPIVersion + "_test-" + ClusterAPITestVersion
	return &Provider{
		Cache:    Cache{Dir: filepath.Join(base, "cluster-api-provider-remedy", "clusterapi", versions, runtime.GOOS+"-"+runtime.GOARCH)},
		Sources:  []Source{{Name: "source (about five minutes on two cores the first time)", Make: buildClusterAPI}},
		Progress: progress,
	}, nil
}

// FindClusterAPI returns where Cluster API's programs are. Like Find, it never builds.
func FindClusterAPI(ctx context.Context) (Paths, error) {
	p, err := NewClusterAPIProvider(io.Discard)
	if err != nil {
		return nil, err
	}
	paths, missing := p.find(ctx, ClusterAPI())
	if len(missing) > 0 {
		return nil, errors.Errorf("no %s of Cluster API %s here: run 'make clusterapi' once (minutes the first time, nothing after that)",
			names(missing), ClusterAPIVersion)
	}
	return paths, nil
}

// ClusterAPIModules returns where the files of Cluster API's modules are, of exactly the versions that the managers are built from:
// they have the manifests that belong to the managers.
func ClusterAPIModules(ctx context.Context) (main, test string, err error) {
	root, err := moduleRoot(ctx)
	if err != nil {
		return "", "", err
	}
	from := clusterAPIBuild(root)
	if main, err = moduleDirFrom(ctx, from, "sigs.k8s.io/cluster-api"); err != nil {
		return "", "", err
	}
	test, err = moduleDirFrom(ctx, from, "sigs.k8s.io/cluster-api/test")
	return main, test, err
}

func clusterAPIBuild(root string) string {
	return filepath.Join(root, "test", "controlplane", "build", "clusterapi")
}

func buildClusterAPI(ctx context.Context, wanted []Binary, dir string, progress io.Writer) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	for _, binary := range wanted {
		err := build(ctx, job{
			what:     string(binary),
			from:     clusterAPIBuild(root),
			output:   filepath.Join(dir, string(binary)),
			packages: []string{clusterAPIPackages[binary]},
			// Upstream builds its images with this tag.
			tags:    "fieldsv1string",
			ldflags: versionFlags("sigs.k8s.io/cluster-api/version", ClusterAPIVersion),
		}, progress)
		if err != nil {
			return err
		}
	}
	return nil
}

// isClusterAPI: these log their version when they start, and stop because they find no cluster.
func (b Binary) isClusterAPI() bool {
	return slices.Contains(ClusterAPI(), b)
}

// fitsClusterAPI: unlike Kubernetes, the manifests come from the very same release. clusterctl prints the version and nothing else.
func fitsClusterAPI(printed string) bool {
	first, _, _ := strings.Cut(printed, "\n")
	return first == "v"+ClusterAPIVersion || strings.Contains(printed, "Version: v"+ClusterAPIVersion)
}
