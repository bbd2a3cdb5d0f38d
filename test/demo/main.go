// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo shows the product, step by step, on a real control plane, and stops the control plane at the end.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/pkg/errors"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/instance"
)

func main() {
	binary := flag.String("manager", "bin/manager", "the manager to show")
	keep := flag.Bool("keep", false, "keep everything running until Ctrl-C")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *binary, *keep); err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, binary string, keep bool) error {
	say("Starting etcd and kube-apiserver")
	cp, err := controlplane.Start(ctx)
	if err != nil {
		return err
	}
	defer cp.Stop()
	if err := instance.Grant(ctx, cp); err != nil {
		return err
	}

	say("Starting the manager, as its own ServiceAccount with the permissions of config/rbac, in a cluster without Cluster API")
	if err := show(ctx, binary, cp, "machinehealthcheck: off", showNothing); err != nil {
		return err
	}

	say("Installing the custom resource definitions of Cluster API and of Remedy")
	k, err := newKubectl(cp)
	if err != nil {
		return err
	}
	defer k.clean()
	if err := installDefinitions(ctx, cp, k); err != nil {
		return err
	}
	columns := "-o=custom-columns=KIND:.spec.names.kind,SHORT:.spec.names.shortNames,NAME:.metadata.name"
	if err := k.run(ctx, "get", "customresourcedefinitions", "--sort-by=.spec.names.kind", columns); err != nil {
		return err
	}

	say("Applying the samples")
	if err := k.run(ctx, "apply", "-f", "config/samples"); err != nil {
		return err
	}
	if err := k.run(ctx, "get", "rmhc,rnhc", "--all-namespaces"); err != nil {
		return err
	}

	say("Applying an invalid manifest: unhealthyRange: \"[5-3]\"")
	if err := k.runRejected(ctx, "apply", "-f", "test/demo/invalid.yaml"); err != nil {
		return err
	}

	say("Starting the manager again")
	err = show(ctx, binary, cp, "machinehealthcheck: on", func(manager *instance.Instance) error {
		if err := showRemediation(ctx, cp, k); err != nil || !keep {
			return err
		}
		return waitForInterrupt(ctx, k, manager)
	})
	if err != nil {
		return err
	}
	say("Done. Everything that was started has been stopped.")
	return nil
}

// installDefinitions installs the custom resource definitions of Cluster API and of Remedy, and Remedy's policies.
func installDefinitions(ctx context.Context, cp *controlplane.ControlPlane, k *kubectl) error {
	crds, err := controlplane.ClusterAPICRDs(ctx)
	if err != nil {
		return err
	}
	if err := cp.InstallCRDs(crds, "config/crd/bases"); err != nil {
		return err
	}
	return k.run(ctx, "apply", "-k", "config/policy")
}

func showNothing(*instance.Instance) error { return nil }

// show starts the manager, waits until its probe reports what is expected, prints the probes, and calls rest before it stops the manager.
func show(ctx context.Context, binary string, cp *controlplane.ControlPlane, expected string, rest func(*instance.Instance) error) error {
	var log bytes.Buffer
	manager, err := instance.Start(binary, cp, &log, "--leader-elect")
	if err != nil {
		return err
	}
	for _, probe := range []struct{ path, expected string }{
		{"/readyz", expected}, {"/readyz", "this instance leads"}, {"/healthz", "process"},
	} {
		text, err := await(ctx, manager, probe.path, probe.expected)
		if err != nil {
			manager.Kill()
			return errors.Wrap(err, log.String())
		}
		if probe.expected == expected {
			continue
		}
		fmt.Printf("\n  GET %s\n    %s\n", probe.path, strings.ReplaceAll(text, "\n", "\n    "))
	}
	if err := rest(manager); err != nil {
		manager.Kill()
		return errors.Wrap(err, log.String())
	}
	if code := manager.Stop(); code != 0 {
		return errors.Errorf("the manager did not stop cleanly: exit code %d\n%s", code, log.String())
	}
	fmt.Printf("\n  stopped cleanly\n")
	return nil
}

// await reads a probe until it succeeds and reports what is expected.
func await(ctx context.Context, manager *instance.Instance, path, expected string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	last := "no answer"
	for {
		status, text, err := manager.Probe(ctx, path)
		if err == nil && status == http.StatusOK && strings.Contains(text, expected) {
			return text, nil
		}
		if err == nil {
			last = text
		}
		select {
		case <-ctx.Done():
			return "", errors.Errorf("%s did not report %q, it reported: %s", path, expected, last)
		case <-manager.Exited():
			return "", errors.New("the manager has exited")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// waitForInterrupt prints how to reach the control plane, and waits for Ctrl-C.
func waitForInterrupt(ctx context.Context, k *kubectl, manager *instance.Instance) error {
	fmt.Printf("\n  Everything keeps running until Ctrl-C:\n    %s --kubeconfig %s get rmhc,rnhc -A\n    curl http://%s/readyz\n",
		k.path, k.kubeconfig(), manager.Probes)
	select {
	case <-ctx.Done():
	case <-manager.Exited():
	}
	return nil
}

func say(line string) {
	fmt.Printf("\n== %s\n", line)
}
