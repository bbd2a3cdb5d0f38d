// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"io"
	"maps"
	"slices"

	"github.com/pkg/errors"
)

// Options are the parts of a world. The zero value is everything, with upstream's defaults.
type Options struct {
	// Variables are what a user would set in clusterctl.yaml, for example EXP_RECONCILER_RATE_LIMITING or REMEDY_MODE.
	Variables map[string]string
	// Flags are added to the command line of a process, by its name; they win over the same flag of its Deployment.
	Flags map[string][]string
	// WithoutInfrastructure leaves the in-memory infrastructure's process stopped, as there can be one in a network namespace:
	// for a second management cluster. Start it later with Restart.
	WithoutInfrastructure bool
	// Tapped are Cluster API's managers whose writes can be counted and fail as well as those of Remedy (FailAtWrite, WritesOf): their requests
	// go through a tap, which costs them some time.
	Tapped []string
	// ClusterctlProgram installs, upgrades, moves and deletes with the program clusterctl, instead of its library.
	ClusterctlProgram bool
	// WithoutRemedy does not install Remedy.
	WithoutRemedy bool
	// Manager is the path of the manager. Empty: the value of REMEDY_WORLD_MANAGER; without that, it is built.
	Manager string
	// Logs is a folder for the logs of the processes. Empty: they go with the world.
	Logs string
	// Progress receives what is being done; nil for no output.
	Progress io.Writer
}

// check refuses what could not be meant.
func (o Options) check() error {
	for _, name := range o.Tapped {
		if !slices.ContainsFunc(upstream, func(p provider) bool { return p.process == name }) {
			return errors.Errorf("Options.Tapped: there is no manager %q of Cluster API; Remedy is always tapped", name)
		}
	}
	return nil
}

// RateLimiting is the variable of upstream's rate limiter: on by default, it lets each reconciler look at an object once per 15 seconds.
const RateLimiting = "EXP_RECONCILER_RATE_LIMITING"

// variables are the defaults of the caller's variables.
func (o Options) variables() map[string]string {
	set := map[string]string{
		"CLUSTER_TOPOLOGY": "true",
		"EXP_MACHINE_POOL": "true",
		// Metrics can be read without a token: the reader is the test.
		"CAPI_INSECURE_DIAGNOSTICS": "true",
		// No process listens there, and a Docker that happens to be on the machine is left alone.
		"CAPD_DOCKER_HOST": "tcp://127.0.0.1:1",
	}
	maps.Copy(set, o.Variables)
	return set
}
