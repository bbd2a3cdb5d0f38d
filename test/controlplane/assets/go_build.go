// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"
)

// GoBuild builds the binaries from source, through the Go module proxy.
func GoBuild() Source {
	return Source{Name: "source (up to ten minutes on two cores the first time)", Make: buildAll}
}

// buildAll builds in two steps, as Kubernetes and etcd are pinned in modules of their own.
func buildAll(ctx context.Context, wanted []Binary, dir string, progress io.Writer) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	// A folder: go names the programs itself.
	output := dir + string(filepath.Separator)
	var kubernetes []string
	for _, binary := range wanted {
		if binary == Etcd {
			from := filepath.Join(root, "test", "controlplane", "build", "etcd")
			if err := build(ctx, job{what: "etcd", from: from, output: output, packages: []string{"."}}, progress); err != nil {
				return err
			}
			continue
		}
		kubernetes = append(kubernetes, "k8s.io/kubernetes/cmd/"+string(binary))
	}
	if len(kubernetes) == 0 {
		return nil
	}
	return build(ctx, job{
		what:     "kubernetes",
		from:     filepath.Join(root, "test", "controlplane", "build", "kubernetes"),
		output:   output,
		packages: kubernetes,
		ldflags:  versionFlags("k8s.io/component-base/version", KubernetesVersion),
	}, progress)
}

// versionFlags gives the binaries their version; otherwise they report v0.0.0, which clients reject.
func versionFlags(pkg, version string) string {
	parts := strings.Split(version, ".")
	variable := " -X " + pkg + "."
	return variable + "gitVersion=v" + version + variable + "gitMajor=" + parts[0] + variable + "gitMinor=" + parts[1]
}

// job is one call of the compiler.
type job struct {
	// what the progress calls it, and the folder of the module that pins it.
	what, from string
	// output is a file, or a folder if it ends like one.
	output        string
	packages      []string
	tags, ldflags string
}

func build(ctx context.Context, j job, progress io.Writer) error {
	total, err := countDependencies(ctx, j, progress)
	if err != nil {
		return err
	}
	args := append([]string{"build", "-v", "-trimpath", "-tags=" + j.tags, "-ldflags", "-s -w" + j.ldflags, "-o", j.output}, j.packages...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = j.from
	cmd.Env = buildEnv()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return errors.WithStack(err)
	}
	if err := cmd.Start(); err != nil {
		return errors.Wrap(err, "go does not start")
	}
	complaints := follow(stderr, progress, j.what, total)
	return errors.Wrap(cmd.Wait(), "go build failed: "+complaints)
}

// countDependencies downloads the modules and returns the maximum number of packages to compile.
func countDependencies(ctx context.Context, j job, progress io.Writer) (int, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-deps", "-tags=" + j.tags}, j.packages...)...)
	cmd.Dir = j.from
	cmd.Env = buildEnv()
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_, _ = fmt.Fprintf(progress, "control plane: downloading the modules of %s\n", j.what)
	if err := cmd.Run(); err != nil {
		return 0, errors.Wrap(err, "the modules cannot be downloaded: "+lastLines(stderr.String()))
	}
	return strings.Count(stdout.String(), "\n"), nil
}

// follow turns go's list of compiled packages into a line every few seconds, also while the linker prints nothing,
// and returns what was no package.
func follow(stderr io.Reader, progress io.Writer, what string, total int) string {
	compiled, done := atomic.Int64{}, make(chan struct{})
	go func() {
		started, tick := time.Now(), time.NewTicker(10*time.Second)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case now := <-tick.C:
				_, _ = fmt.Fprintf(progress, "control plane: %s: %d of at most %d packages compiled, %s\n",
					what, compiled.Load(), total, now.Sub(started).Round(time.Second))
			}
		}
	}()
	defer close(done)

	var complaints []string
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if strings.ContainsAny(lines.Text(), " :") {
			complaints = append(complaints, lines.Text())
			continue
		}
		compiled.Add(1)
	}
	return lastLines(strings.Join(complaints, "\n"))
}

func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "\n")
}

// moduleRoot finds this project's checkout, also when called from another module that requires it.
func moduleRoot(ctx context.Context) (string, error) {
	return ModuleDir(ctx, ModulePath)
}

// ModuleDir is where the files of a module are that the module of the current folder requires.
func ModuleDir(ctx context.Context, module string) (string, error) {
	return moduleDirFrom(ctx, "", module)
}

// moduleDirFrom asks the module of another folder.
func moduleDirFrom(ctx context.Context, from, module string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module)
	cmd.Dir = from
	cmd.Env = buildEnv()
	out, err := cmd.Output()
	dir := strings.TrimSpace(string(out))
	if err != nil || dir == "" {
		return "", errors.Errorf(
			"the files of %s are not found (%v): call this from inside of the checkout, after 'go mod download'", module, err)
	}
	return dir, nil
}

// buildEnv keeps a user's own flags and workspaces out of the builds, and needs no C compiler.
func buildEnv() []string {
	return append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly -buildvcs=false", "GOWORK=off")
}
