// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bytes"
	"embed"
	"text/template"
	"time"

	"github.com/pkg/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane/assets"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/manifests"
)

// Shape is the size and form of a workload cluster.
type Shape struct {
	// Namespace is made if it is not there. Empty: default.
	Namespace string
	Name      string
	// ControlPlanes is the number of control-plane Machines: an odd one, at least 1. 0 means 1.
	ControlPlanes int
	// Workers is the number of Machines of one MachineDeployment, <name>-workers; Pools are further ones.
	Workers int
	Pools   []Pool
	// ClusterClass makes it from a ClusterClass, which is made if it is not there.
	ClusterClass bool
	// Startup is how long a simulated machine and its Node take, each. 0 means a second.
	Startup time.Duration
	// Version is the Kubernetes version that it pretends to have. Empty: the one of the management cluster.
	Version string
}

// Pool is a MachineDeployment. Its Machines have the label pool: <name>.
type Pool struct {
	Name     string
	Replicas int
}

// WorkersPool is the name of the pool that Shape.Workers fills.
const WorkersPool = "workers"

// PoolLabel is on every Machine of a pool.
const PoolLabel = "pool"

//go:embed manifests/*.yaml
var files embed.FS

// complete fills in what was left out.
func (s Shape) complete() (Shape, error) {
	if s.Name == "" {
		return s, errors.New("a cluster needs a name")
	}
	if s.Namespace == "" {
		s.Namespace = metav1.NamespaceDefault
	}
	if s.ControlPlanes == 0 {
		s.ControlPlanes = 1
	}
	if s.ControlPlanes%2 == 0 {
		return s, errors.Errorf("cluster %s: %d control-plane Machines have no majority", s.Name, s.ControlPlanes)
	}
	if s.Startup == 0 {
		s.Startup = time.Second
	}
	if s.Version == "" {
		s.Version = "v" + assets.KubernetesVersion
	}
	pools := s.Pools
	if s.Workers > 0 {
		pools = append([]Pool{{Name: WorkersPool, Replicas: s.Workers}}, pools...)
	}
	s.Pools = pools
	return s, nil
}

// machines is how many there are when it is ready.
func (s Shape) machines() int {
	all := s.ControlPlanes
	for _, pool := range s.Pools {
		all += pool.Replicas
	}
	return all
}

// ClassName is the ClusterClass for this start-up time.
func (s Shape) ClassName() string { return "in-memory-" + s.Startup.String() }

// objects are what a user would apply.
func (s Shape) objects() ([]*unstructured.Unstructured, error) {
	file := "manifests/cluster.yaml"
	if s.ClusterClass {
		file = "manifests/cluster-of-class.yaml"
	}
	text, err := template.ParseFS(files, file)
	if err != nil {
		return nil, errors.WithStack(err)
	}
	var filled bytes.Buffer
	if err := text.Execute(&filled, s); err != nil {
		return nil, errors.WithStack(err)
	}
	return manifests.Parse(filled.Bytes())
}
