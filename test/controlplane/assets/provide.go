// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/pkg/errors"
)

// Source makes binaries: it downloads or builds all of the wanted ones that it can into a folder.
// It omits what it cannot build; an error has the cause.
type Source struct {
	Name string
	Make func(ctx context.Context, wanted []Binary, dir string, progress io.Writer) error
}

// Provider finds binaries, and lets the sources make what is missing.
type Provider struct {
	// Given is the folder of KUBEBUILDER_ASSETS, or empty.
	Given    string
	Cache    Cache
	Sources  []Source
	Progress io.Writer
}

// NewProvider returns the provider that everything uses.
func NewProvider(progress io.Writer) (*Provider, error) {
	cache, err := DefaultCache()
	if err != nil {
		return nil, err
	}
	given := os.Getenv("KUBEBUILDER_ASSETS")
	if err := checkGiven(given); err != nil {
		return nil, err
	}
	return &Provider{
		Given:    given,
		Cache:    cache,
		Sources:  []Source{SetupEnvtest(), GoBuild()},
		Progress: progress,
	}, nil
}

// checkGiven: tests run in many folders, so that a relative path means something else in each.
func checkGiven(folder string) error {
	if folder == "" {
		return nil
	}
	if !filepath.IsAbs(folder) {
		return errors.Errorf("KUBEBUILDER_ASSETS=%s: must be an absolute path", folder)
	}
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return errors.Errorf("KUBEBUILDER_ASSETS=%s: there is no such folder; unset it to use the cache", folder)
	}
	return nil
}

// Find returns where the binaries are. It never builds: a test must not take minutes to find out that it cannot run.
func Find(ctx context.Context, wanted ...Binary) (Paths, error) {
	p, err := NewProvider(io.Discard)
	if err != nil {
		return nil, err
	}
	paths, missing := p.find(ctx, wanted)
	if len(missing) > 0 {
		return nil, errors.Errorf("no %s of Kubernetes %s here: run 'make controlplane-all' once (minutes the first time, nothing after that)",
			names(missing), minor(KubernetesVersion))
	}
	return paths, nil
}

// Provide returns where the binaries are, after making the ones that are missing.
func (p *Provider) Provide(ctx context.Context, wanted ...Binary) (Paths, error) {
	paths, missing := p.find(ctx, wanted)
	if len(missing) == 0 {
		return paths, nil
	}
	unlock, err := p.Cache.Lock(ctx, func() { p.say("another process is making them: waiting for it") })
	if err != nil {
		return nil, err
	}
	defer unlock()

	var failures []string
	for _, source := range p.Sources {
		// Each source may have made some, and another process may have made them.
		paths, missing = p.find(ctx, wanted)
		if len(missing) == 0 {
			return paths, nil
		}
		p.say("%s: from %s", names(missing), source.Name)
		if err := p.take(ctx, source, missing); err != nil {
			p.say("%s: %v", source.Name, err)
			failures = append(failures, fmt.Sprintf("%s: %v", source.Name, err))
		}
		if ctx.Err() != nil {
			return nil, errors.Wrap(ctx.Err(), "stopped; what is finished is kept, the next call goes on from there")
		}
	}
	paths, missing = p.find(ctx, wanted)
	if len(missing) > 0 {
		return nil, errors.Errorf("could not get %s: %s", names(missing), strings.Join(failures, "; "))
	}
	return paths, nil
}

// find looks through the places where finished binaries can be.
func (p *Provider) find(ctx context.Context, wanted []Binary) (Paths, []Binary) {
	paths := Paths{}
	var missing []Binary
	for _, binary := range wanted {
		if p.Given != "" {
			given := filepath.Join(p.Given, string(binary))
			if _, err := runVersion(ctx, binary, given); err == nil {
				paths[binary] = given
				continue
			} else if _, statErr := os.Stat(given); statErr == nil {
				p.say("KUBEBUILDER_ASSETS: %v; looking elsewhere", err)
			}
		}
		path, present := p.Cache.Path(binary)
		if !present {
			missing = append(missing, binary)
			continue
		}
		paths[binary] = path
	}
	return paths, missing
}

// take lets one source work in a folder of its own, and keeps what comes out whole.
func (p *Provider) take(ctx context.Context, source Source, wanted []Binary) error {
	dir, err := p.Cache.TempDir()
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()

	makeErr := source.Make(ctx, wanted, dir, p.Progress)
	var failures []string
	if makeErr != nil {
		failures = append(failures, makeErr.Error())
	}
	for _, binary := range wanted {
		made := filepath.Join(dir, string(binary))
		if _, err := os.Stat(made); err != nil {
			continue
		}
		// Complete binaries are kept, also after Ctrl-C.
		if err := p.Cache.Put(context.WithoutCancel(ctx), binary, made, source.Name); err != nil {
			failures = append(failures, err.Error())
		}
	}
	if len(failures) > 0 {
		return errors.New(strings.Join(failures, "; "))
	}
	return nil
}

func (p *Provider) say(format string, args ...any) {
	_, _ = fmt.Fprintf(p.Progress, "control plane: "+format+"\n", args...)
}

func names(binaries []Binary) string {
	words := make([]string, 0, len(binaries))
	for _, b := range binaries {
		words = append(words, string(b))
	}
	return strings.Join(words, ", ")
}
