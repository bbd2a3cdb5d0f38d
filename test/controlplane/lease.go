// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"encoding/json"
	"net"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/pkg/errors"
	"k8s.io/client-go/rest"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/procgroup"
)

// The control planes that packages share.
const (
	// Management is for what a management cluster holds: Cluster API's kinds, the kinds of this project, and remediation requests.
	Management = "management"
	// Workload is for the Nodes of workload clusters, and the requests next to them. Objects here name this project's API group in
	// internal/uninstall only, which counts them.
	Workload = "workload"
)

// socketVariable is the environment variable that holds the path of a Lender's socket.
const socketVariable = "REMEDY_TEST_CONTROL_PLANES"

// Lease returns a control plane that packages share while they run below cmd/share. Without cmd/share the control plane belongs to the
// caller alone.
//
// A package that leases a control plane gives its objects generated names or deletes them at the end of each test. A package needs a
// control plane of its own, by Start, if it stops, freezes or configures the API server, reads or changes objects of other packages, or
// changes admission policies.
func Lease(ctx context.Context, name string) (*ControlPlane, error) {
	// The go command makes every variable that a test reads by os.Getenv a part of the key of its test cache. The path is another one in every
	// run, and the result of a test does not depend on it.
	socket, found := syscall.Getenv(socketVariable)
	if !found {
		return Start(ctx)
	}
	c := &ControlPlane{lease: &lease{socket: socket, name: name}}
	answer, err := c.lease.request(ctx, admin)
	if err != nil {
		return nil, err
	}
	c.Kubectl, c.AuditLog, c.Certificates = answer.Kubectl, answer.AuditLog, answer.Certificates
	c.Admin = answer.Config()
	return c, nil
}

// lease is the client's side of a shared control plane.
type lease struct {
	socket, name string
}

// leaseRequest asks how a user reaches a shared control plane.
type leaseRequest struct {
	Name string
	User User
}

// leaseAnswer is the Lender's answer to a leaseRequest.
type leaseAnswer struct {
	Error                           string
	Host                            string
	TLS                             rest.TLSClientConfig
	Kubectl, AuditLog, Certificates string
}

// Config is how the user reaches the API server.
func (a *leaseAnswer) Config() *rest.Config {
	return repeatFirstReads(&rest.Config{Host: a.Host, TLSClientConfig: a.TLS, QPS: clientQPS, Burst: clientBurst})
}

func (l *lease) request(ctx context.Context, user User) (*leaseAnswer, error) {
	connection, err := (&net.Dialer{}).DialContext(ctx, "unix", l.socket)
	if err != nil {
		return nil, errors.Wrapf(err, "the shared control planes have stopped, or %s is wrong", socketVariable)
	}
	defer func() { _ = connection.Close() }()
	answer := &leaseAnswer{}
	if err = json.NewEncoder(connection).Encode(&leaseRequest{Name: l.name, User: user}); err == nil {
		err = json.NewDecoder(connection).Decode(answer)
	}
	if err == nil && answer.Error != "" {
		err = errors.New(answer.Error)
	}
	return answer, errors.Wrapf(err, "failed to lease the control plane %s", l.name)
}

// Lender starts a control plane when the first process leases it, and stops all of them with Stop.
type Lender struct {
	group    *procgroup.Group
	listener net.Listener
	planes   map[string]*lazyControlPlane
}

// lazyControlPlane is a control plane that is started when it is needed.
type lazyControlPlane struct {
	mu      sync.Mutex
	plane   *ControlPlane
	stopped bool
}

// NewLender lends control planes to the processes that have Environment in their environment.
func NewLender() (*Lender, error) {
	group, err := procgroup.New()
	if err != nil {
		return nil, err
	}
	l := &Lender{group: group, planes: map[string]*lazyControlPlane{Management: {}, Workload: {}}}
	if l.listener, err = net.Listen("unix", l.socket()); err != nil { //nolint:noctx // it does not wait.
		group.Release()
		return nil, errors.Wrap(err, "failed to listen for leases: TMPDIR may be too long for a socket")
	}
	go l.serve()
	return l, nil
}

func (l *Lender) socket() string { return filepath.Join(l.group.Dir, "socket") }

// Environment is the variable that Lease reads.
func (l *Lender) Environment() string { return socketVariable + "=" + l.socket() }

// Stop stops the control planes. Leases are of no use after that.
func (l *Lender) Stop() {
	_ = l.listener.Close()
	var all sync.WaitGroup
	for _, p := range l.planes {
		all.Go(p.stop)
	}
	all.Wait()
	l.group.Release()
}

func (l *Lender) serve() {
	for {
		connection, err := l.listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = connection.Close() }()
			request := &leaseRequest{}
			if err := json.NewDecoder(connection).Decode(request); err != nil {
				return
			}
			answer, err := l.answer(request)
			if err != nil {
				answer = &leaseAnswer{Error: err.Error()}
			}
			// A client that has disconnected needs no answer.
			_ = json.NewEncoder(connection).Encode(answer)
		}()
	}
}

func (l *Lender) answer(request *leaseRequest) (*leaseAnswer, error) {
	p, found := l.planes[request.Name]
	if !found {
		return nil, errors.Errorf("there is no shared control plane %q", request.Name)
	}
	plane, err := p.start()
	if err != nil {
		return nil, err
	}
	config, err := plane.Config(request.User)
	if err != nil {
		return nil, err
	}
	return &leaseAnswer{
		Host: config.Host, TLS: config.TLSClientConfig,
		Kubectl: plane.Kubectl, AuditLog: plane.AuditLog, Certificates: plane.Certificates,
	}, nil
}

func (p *lazyControlPlane) start() (*ControlPlane, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return nil, errors.New("the shared control planes are stopped")
	}
	if p.plane != nil {
		return p.plane, nil
	}
	plane, err := Start(context.Background())
	if err == nil {
		p.plane = plane
	}
	return plane, err
}

func (p *lazyControlPlane) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	if p.plane != nil {
		p.plane.Stop()
	}
}
