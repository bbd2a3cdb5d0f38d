// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package assets finds the binaries of a real control plane, or makes them.
//
// Every test, the demo and the benchmarks run against these binaries. They are looked for, one by one, in this order:
//
//  1. KUBEBUILDER_ASSETS, if it is set and holds the binary in a fitting version;
//  2. the cache, outside of the checkout (see Cache);
//  3. setup-envtest, which downloads and verifies a release, where the network allows it;
//  4. a build from source, through the Go module proxy: slow the first time, but it needs nothing except Go.
package assets

import (
	"path/filepath"
	"runtime"
	"strings"
)

// The versions that are built from source. The go.mod files below test/controlplane/build pin them; a test holds the two together.
const (
	KubernetesVersion = "1.36.3"
	EtcdVersion       = "3.6.16"
)

// ModulePath is the module whose test/controlplane/build folder has the modules that build the binaries.
const ModulePath = "github.com/cluster-api-remedy/cluster-api-provider-remedy"

// Binary is one program of a control plane.
type Binary string

// The programs of a control plane.
const (
	Etcd                  Binary = "etcd"
	KubeAPIServer         Binary = "kube-apiserver"
	Kubectl               Binary = "kubectl"
	KubeControllerManager Binary = "kube-controller-manager"
)

// Basic is what every test needs: a control plane without controllers, and kubectl.
func Basic() []Binary {
	return []Binary{Etcd, KubeAPIServer, Kubectl}
}

// All adds kube-controller-manager, for the targets that need garbage collection or aggregated roles.
func All() []Binary {
	return append(Basic(), KubeControllerManager)
}

// Paths are the paths of the binaries.
type Paths map[Binary]string

// versionArgs makes a binary print its version.
func (b Binary) versionArgs() []string {
	switch {
	case b == Kubectl:
		return []string{"version", "--client"}
	case b == Clusterctl:
		// Without a configuration, it fails before it looks for a newer version in the network.
		return []string{"version", "--output=short", "--config=/none/of/it"}
	case b.isClusterAPI():
		return []string{"--kubeconfig=/none/of/it"}
	default:
		return []string{"--version"}
	}
}

// fits reports whether what a binary prints of its version is one that the tests are meant for:
// the same minor version, as patch releases behave alike.
func (b Binary) fits(printed string) bool {
	switch {
	case b == Etcd:
		return strings.Contains(printed, "etcd Version: "+minor(EtcdVersion)+".")
	case b.isClusterAPI():
		return fitsClusterAPI(printed)
	default:
		return strings.Contains(printed, " v"+minor(KubernetesVersion)+".")
	}
}

// minor turns 1.36.3 into 1.36.
func minor(version string) string {
	return version[:strings.LastIndex(version, ".")]
}

// key names the folder of the cache: binaries of other versions or platforms never meet.
func key() string {
	return filepath.Join("kubernetes-"+KubernetesVersion+"_etcd-"+EtcdVersion, runtime.GOOS+"-"+runtime.GOARCH)
}
