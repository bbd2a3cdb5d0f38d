// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controlplane runs a real etcd and kube-apiserver, with RBAC on, for tests and for the demo.
// Everything listens on loopback only, in a folder of its own, and is removed when it is stopped.
package controlplane

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/pkg/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane/assets"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/procgroup"
)

// ControlPlane is a running etcd and kube-apiserver.
type ControlPlane struct {
	// Admin may do everything.
	Admin *rest.Config
	// Kubectl is the path of a kubectl of the same version.
	Kubectl string

	// AuditLog is a file with a line of JSON for every write, and who made it.
	AuditLog string
	// Certificates is the folder with the API server's own keys, for the components that share them.
	Certificates string

	// lease is set if other packages use the same control plane; everything below is empty then.
	lease   *lease
	plane   *envtest.ControlPlane
	ports   []*Port
	group   *procgroup.Group
	flags   []flag
	revived map[string]*revived
	// users keeps those who add a user apart: each is signed with the next number.
	users sync.Mutex
}

// User is a user of the API server: a person, or a ServiceAccount.
type User struct {
	Name   string
	Groups []string
}

// ServiceAccount is the user that a pod of this ServiceAccount would be.
func ServiceAccount(namespace, name string) User {
	return User{
		Name:   "system:serviceaccount:" + namespace + ":" + name,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace},
	}
}

// admin is allowed to do everything.
var admin = User{Name: "admin", Groups: []string{"system:masters"}}

// The rate at which a client of a test may send requests.
const (
	clientQPS   = 1000
	clientBurst = 2000
)

// startLimit is generous, because several control planes start at the same time on machines that are shared: a slow start is no failure.
const startLimit = 10 * time.Minute

// stopLimit is when a process that does not stop is killed.
const stopLimit = time.Minute

// auditPolicy notes every write, when it is answered.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted, Panic]
rules:
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
- level: None
`

func init() {
	// The errors of envtest contain its log messages, too.
	ctrllog.SetLogger(logr.Discard())
}

// Start runs a control plane until Stop.
func Start(ctx context.Context, options ...Option) (*ControlPlane, error) {
	begin := time.Now()
	paths, err := assets.Find(ctx, assets.Basic()...)
	if err != nil {
		return nil, err
	}
	c := &ControlPlane{Kubectl: paths[assets.Kubectl], revived: map[string]*revived{}}
	for _, option := range options {
		option(c)
	}
	if err := c.start(paths); err != nil {
		c.Stop()
		return nil, err
	}
	return c, recordSpan(begin)
}

func (c *ControlPlane) start(paths assets.Paths) error {
	var err error
	if c.group, err = procgroup.New(); err != nil {
		return err
	}
	etcdPath, err := c.group.Wrap("etcd", paths[assets.Etcd])
	if err != nil {
		return err
	}
	apiPath, err := c.group.Wrap("kube-apiserver", paths[assets.KubeAPIServer])
	if err != nil {
		return err
	}
	for range 3 {
		port, err := TakePort()
		if err != nil {
			return err
		}
		c.ports = append(c.ports, port)
	}
	apiPort, etcdPort, peerPort := c.ports[0].String(), c.ports[1].String(), c.ports[2].String()

	data, certificates := filepath.Join(c.group.Dir, "etcd-data"), filepath.Join(c.group.Dir, "certificates")
	for _, dir := range []string{data, certificates} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return errors.Wrap(err, "failed to make a folder for the control plane")
		}
	}
	c.Certificates = certificates
	policy := filepath.Join(c.group.Dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return errors.Wrap(err, "failed to write the audit policy")
	}
	c.AuditLog = filepath.Join(c.group.Dir, "audit.log")
	etcd := &envtest.Etcd{
		Path: etcdPath, DataDir: data, StartTimeout: startLimit, StopTimeout: stopLimit,
		URL: &url.URL{Scheme: "http", Host: "127.0.0.1:" + etcdPort},
	}
	// A write takes at most five seconds and twice that time: a machine that stops for some seconds fails no write.
	etcd.Configure().Set("listen-peer-urls", "http://127.0.0.1:"+peerPort).Set("election-timeout", "3000")

	server := &envtest.APIServer{Path: apiPath, CertDir: certificates, StartTimeout: startLimit, StopTimeout: stopLimit}
	server.Address, server.Port = "127.0.0.1", apiPort
	server.Configure().
		Set("advertise-address", "127.0.0.1").
		// Service addresses stay on loopback: otherwise an API server that calls a service leaves the machine.
		Set("service-cluster-ip-range", "127.96.0.0/16").
		Set("endpoint-reconciler-type", "none").
		Append("enable-admission-plugins", "OwnerReferencesPermissionEnforcement").
		Set("audit-policy-file", policy).
		Set("audit-log-path", c.AuditLog)
	for _, flag := range c.flags {
		server.Configure().Set(flag.name, flag.values...)
	}

	c.plane = &envtest.ControlPlane{Etcd: etcd, APIServer: server, KubectlPath: c.Kubectl}
	if err := c.plane.Start(); err != nil {
		return errors.Wrap(err, "the control plane does not start")
	}
	c.Admin, err = c.Config(admin)
	return err
}

// Stop ends the processes and removes what they wrote. A leased control plane goes on: other packages use it.
func (c *ControlPlane) Stop() {
	c.endRevived()
	if c.plane != nil && c.plane.Stop() == nil {
		c.group.Ended("etcd")
		c.group.Ended("kube-apiserver")
	}
	if c.group != nil {
		c.group.Release()
	}
	for _, port := range c.ports {
		port.Release()
	}
}

// Freeze makes the API server hang: connections stay, nothing is answered. Thaw ends it.
func (c *ControlPlane) Freeze() error { return c.signal(syscall.SIGSTOP) }

// Thaw lets a frozen API server go on.
func (c *ControlPlane) Thaw() error { return c.signal(syscall.SIGCONT) }

func (c *ControlPlane) signal(s syscall.Signal) error {
	pid, err := c.pid(APIServerProcess)
	if err != nil {
		return err
	}
	return errors.Wrap(syscall.Kill(pid, s), "failed to signal the API server")
}

// pid is the process id of etcd or the API server, for calls that affect all users of the control plane.
func (c *ControlPlane) pid(name string) (int, error) {
	if c.lease != nil {
		return 0, errors.Errorf("other packages use this %s: use Start instead of Lease", name)
	}
	return c.group.PID(name)
}

// Config returns how this user reaches the API server. Users may do nothing until a role is bound to them.
func (c *ControlPlane) Config(user User) (*rest.Config, error) {
	if c.lease != nil {
		answer, err := c.lease.request(context.Background(), user)
		if err != nil {
			return nil, err
		}
		return answer.Config(), nil
	}
	c.users.Lock()
	defer c.users.Unlock()
	added, err := c.plane.AddUser(envtest.User(user), &rest.Config{QPS: clientQPS, Burst: clientBurst})
	if err != nil {
		return nil, errors.Wrapf(err, "failed to add the user %s", user.Name)
	}
	return repeatFirstReads(added.Config()), nil
}

// WriteKubeconfig writes a kubeconfig for the user, for processes.
func (c *ControlPlane) WriteKubeconfig(user User, path string) error {
	config, err := c.Config(user)
	if err != nil {
		return err
	}
	content, err := Kubeconfig(config)
	if err != nil {
		return err
	}
	return errors.Wrap(os.WriteFile(path, content, 0o600), "failed to write a kubeconfig")
}

// Client returns a client without a cache that may do everything.
func (c *ControlPlane) Client() (client.Client, error) {
	made, err := client.New(c.Admin, client.Options{})
	return made, errors.Wrap(err, "failed to make a client")
}

// ClusterAPICRDs is the folder of the CustomResourceDefinitions of Cluster API, in the version of go.mod.
func ClusterAPICRDs(ctx context.Context) (string, error) {
	dir, err := assets.ModuleDir(ctx, "sigs.k8s.io/cluster-api")
	if err != nil {
		return "", err
	}
	crds := filepath.Join(dir, "core", "config", "crd", "bases")
	if _, err := os.Stat(crds); err != nil {
		return "", errors.Wrap(err, fmt.Sprintf("no definitions in Cluster API's module at %s", crds))
	}
	return crds, nil
}
