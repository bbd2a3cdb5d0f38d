// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane/assets"
)

// The processes of a world, by name.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Core              = "core"
	Bootstrap         = "bootstrap"
	ControlPlane      = "control-plane"
	Infrastructure    = "infrastructure"
	Remedy            = "remedy"
)

// provider is what clusterctl installs, and the program that its Deployment would run.
type provider struct {
	// process is what it is called here, label what clusterctl's folders call it.
	process, name, label string
	kind                 clusterctlv1.ProviderType
	version, file        string
	binary               assets.Binary
	// module is whose config folder has its manifests, below folder.
	test   bool
	folder string
	// flags bring the concurrency down: with upstream's defaults the managers drown in conflicts on two cores.
	flags []string
	env   []string
}

// ourVersion is the release as which the components are installed; their image is never pulled.
const ourVersion = "v0.1.0"

var core = provider{
	process: Core, name: "cluster-api", label: "cluster-api", kind: clusterctlv1.CoreProviderType,
	version: "v" + assets.ClusterAPIVersion, file: "core-components.yaml", binary: assets.CoreManager, folder: "core",
	flags: []string{
		"--machine-concurrency=10", "--machineset-concurrency=5", "--machinedeployment-concurrency=5", "--cluster-concurrency=10",
		"--clustertopology-concurrency=5", "--clustercache-concurrency=20", "--machinehealthcheck-concurrency=5",
	},
}

var bootstrap = provider{
	process: Bootstrap, name: "kubeadm", label: "bootstrap-kubeadm", kind: clusterctlv1.BootstrapProviderType,
	version: "v" + assets.ClusterAPIVersion, file: "bootstrap-components.yaml", binary: assets.BootstrapManager, folder: "bootstrap/kubeadm",
	flags: []string{"--kubeadmconfig-concurrency=5", "--clustercache-concurrency=20"},
}

var controlPlane = provider{
	process: ControlPlane, name: "kubeadm", label: "control-plane-kubeadm", kind: clusterctlv1.ControlPlaneProviderType,
	version: "v" + assets.ClusterAPIVersion, file: "control-plane-components.yaml", binary: assets.ControlPlaneManager, folder: "controlplane/kubeadm",
	flags: []string{"--kubeadmcontrolplane-concurrency=5", "--clustercache-concurrency=20"},
}

var infrastructure = provider{
	process: Infrastructure, name: "docker", label: "infrastructure-docker", kind: clusterctlv1.InfrastructureProviderType,
	version: "v" + assets.ClusterAPITestVersion, file: "infrastructure-components-development.yaml", binary: assets.InfrastructureManager,
	test: true, folder: "infrastructure/docker",
	flags: []string{"--devmachine-concurrency=10", "--devcluster-concurrency=10"},
	env:   []string{"POD_IP=127.0.0.1"},
}

var remedy = provider{
	process: Remedy, name: "remedy", label: "infrastructure-remedy", kind: clusterctlv1.InfrastructureProviderType,
	version: ourVersion, file: "infrastructure-components.yaml",
}

// upstream are the providers of Cluster API itself.
var upstream = []provider{core, bootstrap, controlPlane, infrastructure}

// installed are the providers of this world.
func (o Options) installed() []provider {
	if o.WithoutRemedy {
		return upstream
	}
	return append(append([]provider{}, upstream...), remedy)
}
