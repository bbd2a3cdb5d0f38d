// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

// Option changes how a control plane is started.
type Option func(*ControlPlane)

type flag struct {
	name   string
	values []string
}

// WithAPIServerFlag sets a flag of the API server, also one that Start sets by itself.
func WithAPIServerFlag(name string, values ...string) Option {
	return func(c *ControlPlane) { c.flags = append(c.flags, flag{name: name, values: values}) }
}
