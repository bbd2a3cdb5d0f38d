// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"

	"github.com/pkg/errors"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// connection are kubectl's flags that select the management cluster.
type connection struct {
	rules     *clientcmd.ClientConfigLoadingRules
	overrides *clientcmd.ConfigOverrides
}

func newConnection(f *pflag.FlagSet) *connection {
	c := &connection{rules: clientcmd.NewDefaultClientConfigLoadingRules(), overrides: &clientcmd.ConfigOverrides{}}
	o := c.overrides
	f.StringVarP(&o.Context.Namespace, "namespace", "n", "", "namespace of the objects")
	f.StringVar(&c.rules.ExplicitPath, "kubeconfig", "", "path to the kubeconfig file to use")
	f.StringVar(&o.CurrentContext, "context", "", "name of the kubeconfig context to use")
	f.StringVar(&o.Context.AuthInfo, "user", "", "name of the kubeconfig user to use")
	f.StringVarP(&o.ClusterInfo.Server, "server", "s", "", "address and port of the API server")
	f.StringVar(&o.AuthInfo.Token, "token", "", "bearer token for authentication to the API server")
	f.StringVar(&o.AuthInfo.Impersonate, "as", "", "user name to impersonate")
	f.StringArrayVar(&o.AuthInfo.ImpersonateGroups, "as-group", nil, "group to impersonate, can be repeated")
	return c
}

// config returns how to connect, and the namespace of the flag or of the kubeconfig.
func (c *connection) config() (*rest.Config, string, error) {
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(c.rules, c.overrides)
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, "", errors.WithMessage(err, "failed to load the kubeconfig: select the management cluster with --kubeconfig or --context")
	}
	namespace, _, err := loader.Namespace()
	return config, namespace, errors.WithStack(err)
}

// checkEmptyFlags rejects a flag with an empty value. A script with an unset variable would otherwise change another namespace or cluster.
func checkEmptyFlags(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		empty := f.Value.String() == ""
		if list, isList := f.Value.(pflag.SliceValue); isList {
			empty = slices.Contains(list.GetSlice(), "")
		}
		if empty {
			err = invalid("--%s is empty: set a value or omit the flag", f.Name)
		}
	})
	return err
}
