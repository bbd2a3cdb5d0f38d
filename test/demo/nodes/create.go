// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/demo"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/instance"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

const (
	workers   = 5
	namespace = "remediation"
	// timeout is that of the check, in check.yaml.
	timeout = 5 * time.Second
)

// demonstration is a cluster with a manager and a remediator.
type demonstration struct {
	*demo.Terminal

	cluster *controlplane.ControlPlane
	api     client.Client
	manager *instance.Instance
	log     bytes.Buffer
	// folder has the kubeconfig.
	folder string
	// mayReboot lets the remediator reboot Nodes.
	mayReboot  atomic.Bool
	endPlayers context.CancelFunc
	players    sync.WaitGroup
}

// create starts the cluster, and the manager in it.
func (d *demonstration) create(ctx context.Context, manager string) error {
	d.Heading("Setup: a cluster without Cluster API")
	d.Print("Starting etcd and kube-apiserver.")
	var err error
	if d.cluster, err = controlplane.Start(ctx); err != nil {
		return err
	}
	if d.folder, err = os.MkdirTemp("", "remedy-demo-"); err != nil {
		return errors.WithStack(err)
	}
	d.Kubeconfig = filepath.Join(d.folder, "kubeconfig")
	d.Path = append(d.Path, filepath.Dir(d.cluster.Kubectl))
	admin := controlplane.User{Name: "admin", Groups: []string{"system:masters"}}
	if err := d.cluster.WriteKubeconfig(admin, d.Kubeconfig); err != nil {
		return err
	}
	if d.api, err = client.New(d.cluster.Admin, client.Options{Scheme: testenv.Scheme}); err != nil {
		return errors.WithStack(err)
	}
	d.Print("Installing Remedy and the kinds of the remediation provider.")
	if err := d.install(ctx); err != nil {
		return err
	}
	d.Print("Creating %d Nodes.", workers)
	for _, name := range names(workers) {
		if err := d.api.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return errors.WithStack(err)
		}
	}
	if err := d.setReady(ctx, corev1.ConditionTrue, time.Now(), names(workers)...); err != nil {
		return err
	}
	d.Print("Starting the manager of Remedy, as its own ServiceAccount, with the permissions of its release.")
	if d.manager, err = instance.Start(manager, d.cluster, &d.log, "--leader-elect"); err != nil {
		return err
	}
	if err := d.Until(ctx, "the manager is ready, and finds no Cluster API", d.ready); err != nil {
		return err
	}
	d.Print("The manager is ready. It has found no Cluster API, so it reconciles NodeHealthChecks only.")
	return nil
}

// install installs the definitions, policies and permissions of Remedy, and the kinds of the remediator with its template.
func (d *demonstration) install(ctx context.Context) error {
	kind := remediator.FenceAgents
	installed := &testenv.Environment{ControlPlane: d.cluster, API: d.api}
	for _, step := range []testenv.Step{
		testenv.RemedyKinds, testenv.Kustomization("config/policy"), testenv.ManagerRoles, testenv.RemediationKinds(kind),
		testenv.Namespaces(namespace),
	} {
		if err := step(ctx, installed); err != nil {
			return err
		}
	}
	// No kube-controller-manager runs that aggregates ClusterRoles.
	role := &rbacv1.ClusterRole{}
	if err := d.api.Get(ctx, client.ObjectKey{Name: "remedy-system-remediators"}, role); err != nil {
		return errors.WithStack(err)
	}
	role.Rules = kind.Rules()
	if err := d.api.Update(ctx, role); err != nil {
		return errors.WithStack(err)
	}
	if err := d.api.Create(ctx, kind.NewTemplate(namespace, "reboot", map[string]any{"agent": "fence_ipmilan"})); err != nil {
		return errors.WithStack(err)
	}
	d.runRemediator(ctx)
	return nil
}

// runRemediator reboots Nodes as soon as it may, so that the demo can print the request before.
func (d *demonstration) runRemediator(ctx context.Context) {
	provider := &remediator.Remediator{
		Kind: remediator.FenceAgents, Client: client.NewNamespacedClient(d.api, namespace), Nodes: d.api,
		Outcome: func(*unstructured.Unstructured) remediator.Outcome {
			if d.mayReboot.Load() {
				return remediator.Succeeds
			}
			return remediator.Hangs
		},
		Worked: func(ctx context.Context, node string) error {
			return d.setReady(ctx, corev1.ConditionTrue, time.Now(), node)
		},
	}
	ctx, d.endPlayers = context.WithCancel(ctx)
	d.players.Go(func() {
		for ctx.Err() == nil {
			// A conflict is tried again.
			_, _ = provider.Act(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
}

// ready reports whether the manager is ready, leads, and has not found Cluster API.
func (d *demonstration) ready(ctx context.Context) (bool, error) {
	select {
	case <-d.manager.Exited():
		return false, errors.New("the manager has exited")
	default:
	}
	status, text, err := d.manager.Probe(ctx, "/readyz")
	return status == http.StatusOK && strings.Contains(text, "machinehealthcheck: off") && strings.Contains(text, "this instance leads"),
		errors.Wrap(err, text)
}

// names returns the names of the first Nodes.
func names(count int) []string {
	all := make([]string, 0, count)
	for i := range count {
		all = append(all, fmt.Sprintf("worker-%d", i+1))
	}
	return all
}

// setReady sets the condition Ready of Nodes, as kubelets or the node controller do.
func (d *demonstration) setReady(ctx context.Context, status corev1.ConditionStatus, since time.Time, nodes ...string) error {
	reason := map[corev1.ConditionStatus]string{corev1.ConditionTrue: "KubeletReady", corev1.ConditionUnknown: "NodeStatusUnknown"}[status]
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: status, Reason: reason, LastTransitionTime: metav1.NewTime(since)}
	for _, name := range nodes {
		node := &corev1.Node{}
		if err := d.api.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			return errors.WithStack(err)
		}
		node.Status.Conditions = []corev1.NodeCondition{ready}
		if err := d.api.Status().Update(ctx, node); err != nil {
			return errors.WithStack(err)
		}
	}
	return nil
}

// explained adds the end of the manager's log to an error.
func (d *demonstration) explained(err error) error {
	if err == nil || d.manager == nil {
		return err
	}
	d.stop()
	lines := strings.Split(strings.TrimSpace(d.log.String()), "\n")
	return errors.Errorf("%v\nThe log of the manager ends with:\n%s", err, strings.Join(lines[max(0, len(lines)-10):], "\n"))
}

// stop ends all processes. It can be called more than once.
func (d *demonstration) stop() {
	if d.endPlayers != nil {
		d.endPlayers()
		d.players.Wait()
	}
	if d.manager != nil {
		d.manager.Kill()
	}
	if d.cluster != nil {
		d.cluster.Stop()
		d.cluster = nil
	}
	if d.folder != "" {
		_ = os.RemoveAll(d.folder)
	}
}
