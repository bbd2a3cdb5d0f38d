// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bytes"
	"context"
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/pkg/errors"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/config"
	"sigs.k8s.io/yaml"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane/assets"
)

// certManager is all of cert-manager that clusterctl looks at: the certificates of the webhooks are made here.
//
//go:embed manifests/cert-manager.yaml
var certManager []byte

const certManagerVersion = "v1.0.0"

// repository is a folder from which clusterctl installs, without a network.
type repository struct {
	dir       string
	kubectl   string
	providers []provider
	variables map[string]string
	// By process: where its webhooks are called, and with authority by whom.
	webhooks  map[string]*controlplane.Port
	authority []byte
}

// write makes the files of every provider, as a release would have them.
func (r *repository) write(ctx context.Context) error {
	main, test, err := assets.ClusterAPIModules(ctx)
	if err != nil {
		return err
	}
	metadata, err := os.ReadFile(filepath.Join(main, "metadata.yaml"))
	if err != nil {
		return errors.Wrap(err, "Cluster API's module has no metadata.yaml")
	}
	if err := r.put("cert-manager", certManagerVersion, "cert-manager.yaml", certManager); err != nil {
		return err
	}
	made, ctx := errgroup.WithContext(ctx)
	for _, p := range r.providers {
		made.Go(func() error {
			if p.process == Remedy {
				return r.release(ctx, p.version)
			}
			module := main
			if p.test {
				module = test
			}
			components, err := r.build(ctx, filepath.Join(module, filepath.FromSlash(p.folder), "config", "default"))
			if err != nil {
				return errors.Wrapf(err, "the components of %s cannot be made", p.label)
			}
			if err := r.put(p.label, p.version, "metadata.yaml", metadata); err != nil {
				return err
			}
			return r.put(p.label, p.version, p.file, leadWebhooks(components, r.webhooks[p.process], r.authority))
		})
	}
	return made.Wait()
}

// built are the manifests of each folder of Cluster API's modules. They are the same for all worlds of a program.
var built sync.Map

// build makes the manifests of a folder.
func (r *repository) build(ctx context.Context, folder string) ([]byte, error) {
	if manifests, is := built.Load(folder); is {
		return manifests.([]byte), nil
	}
	manifests, err := run(ctx, r.kubectl, "kustomize", folder)
	if err == nil {
		built.Store(folder, manifests)
	}
	return manifests, err
}

// release builds the files of a version of Remedy with the script of a release.
func (r *repository) release(ctx context.Context, version string) error {
	root, err := assets.ModuleDir(ctx, assets.ModulePath)
	if err != nil {
		return err
	}
	_, err = run(ctx, filepath.Join(root, "hack", "release.sh"), filepath.Join(r.dir, remedy.label, version), version)
	return errors.Wrap(err, "failed to build the release")
}

func (r *repository) put(label, version, file string, content []byte) error {
	folder := filepath.Join(r.dir, label, version)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return errors.Wrap(err, "failed to make a folder for a provider")
	}
	return errors.Wrap(os.WriteFile(filepath.Join(folder, file), content, 0o600), "failed to write a provider's file")
}

// configuration is clusterctl's configuration: as an object for its library, which then reads neither the user's environment nor a home
// folder, and as a file for those who want to look around with clusterctl.
func (r *repository) configuration(ctx context.Context, file string) (config.Client, error) {
	reader := config.NewMemoryReader()
	written := map[string]any{}
	for name, value := range r.variables {
		reader.Set(name, value)
		written[name] = value
	}
	var providers []map[string]string
	for _, p := range r.providers {
		url := filepath.Join(r.dir, p.label, p.version, p.file)
		if _, err := reader.AddProvider(p.name, p.kind, url); err != nil {
			return nil, errors.WithStack(err)
		}
		providers = append(providers, map[string]string{"name": p.name, "type": string(p.kind), "url": url})
	}
	written["providers"] = providers
	// An empty folder: nothing of the user's gets in.
	written["overridesFolder"] = filepath.Join(r.dir, "overrides")
	reader.Set("overridesFolder", filepath.Join(r.dir, "overrides"))
	certs := map[string]string{"url": filepath.Join(r.dir, "cert-manager", certManagerVersion, "cert-manager.yaml"), "version": certManagerVersion}
	written["cert-manager"] = certs
	asText, err := yaml.Marshal(certs)
	if err != nil {
		return nil, errors.WithStack(err)
	}
	reader.Set("cert-manager", string(asText))
	asFile, err := yaml.Marshal(written)
	if err != nil {
		return nil, errors.WithStack(err)
	}
	if err := os.WriteFile(file, asFile, 0o600); err != nil {
		return nil, errors.Wrap(err, "failed to write clusterctl.yaml")
	}
	made, err := config.New(ctx, "", config.InjectReader(reader))
	return made, errors.Wrap(err, "clusterctl refuses its configuration")
}

// run runs a tool and returns what it prints; an error carries what it complained about.
func run(ctx context.Context, tool string, args ...string) ([]byte, error) {
	return runWith(ctx, nil, tool, args...)
}

// runWith runs a tool with exactly this environment; nil is that of this program.
func runWith(ctx context.Context, environment []string, tool string, args ...string) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Env = environment
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	return stdout.Bytes(), errors.Wrapf(err, "%s: %s", filepath.Base(tool), bytes.TrimSpace(stderr.Bytes()))
}
