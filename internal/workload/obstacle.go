// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Obstacle is why something could not be read. It is a closed set, fit for a label of a metric.
type Obstacle string

// The obstacles.
const (
	// NotConnected means: there is no connection to the cluster.
	NotConnected Obstacle = "NotConnected"
	// KubeconfigRefused means: the Secret with the kubeconfig is missing, or holds what we do not use.
	KubeconfigRefused Obstacle = "KubeconfigRefused"
	// NotReadYet means: the connection is new, and the Nodes have not arrived.
	NotReadYet Obstacle = "NotReadYet"
	// NotInitialized means: there is no control plane yet that could be asked.
	NotInitialized Obstacle = "NotInitialized"
	// NoKnownNode means: none of the Nodes that Machines refer to exists, so it may be another cluster.
	NoKnownNode Obstacle = "NoKnownNode"
	// NotNamed means: the Node is there, but its Machine does not say so yet.
	NotNamed Obstacle = "NotNamed"
	// NotAnswering means: the API server did not answer in time.
	NotAnswering Obstacle = "NotAnswering"
	// Unreachable means: the API server was not reached.
	Unreachable Obstacle = "Unreachable"
	// Untrusted means: who answered is not the API server that the kubeconfig is for.
	Untrusted Obstacle = "Untrusted"
	// Unauthorized means: the API server does not know who we are.
	Unauthorized Obstacle = "Unauthorized"
	// Forbidden means: the user of the kubeconfig is not allowed to read that.
	Forbidden Obstacle = "Forbidden"
	// Busy means: the API server turned us away because it has too much to do.
	Busy Obstacle = "Busy"
	// Failing means: the API server failed, or what answered is none.
	Failing Obstacle = "Failing"
	// Stopped means: it was us who stopped waiting.
	Stopped Obstacle = "Stopped"
)

// sentences say what is wrong and how to mend it. Nothing of an error goes into them: it may hold addresses, tokens and port numbers that
// are different each time.
var sentences = map[Obstacle]string{
	NotConnected:   "there is no connection to the cluster; see that its API server is up and that the kubeconfig in its Secret leads there",
	NotReadYet:     "the Nodes of the cluster have not arrived yet; if that lasts, see that the user of its kubeconfig may list and watch Nodes",
	NotInitialized: "the control plane of the cluster is not initialized, so its Nodes cannot be read",
	NotNamed:       "a Node with the Machine's provider ID has joined, and the Machine does not name it yet; if that lasts, see the log of Cluster API's Machine controller",
	NoKnownNode:    "none of the Nodes that Machines refer to exists: this may be another cluster",
	NotAnswering:   "the API server of the cluster does not answer in time; see that it is up and that the way to it is open",
	Unreachable:    "the API server of the cluster is not reached; see that it is up and that the way to it is open",
	Untrusted:      "who answers for the cluster has a certificate that the kubeconfig does not vouch for; renew the kubeconfig in its Secret",
	Unauthorized:   "the API server of the cluster does not accept the kubeconfig; renew the kubeconfig in its Secret",
	Forbidden:      "the user of the cluster's kubeconfig may not read that; allow it to get, list and watch Nodes, to get Leases, and to list Pods in kube-system",
	Busy:           "the API server of the cluster has too much to do",
	Failing:        "the API server of the cluster fails, or what answers is none; see its log",
	Stopped:        "this program stopped waiting for an answer",
}

// wrongKubeconfigs say which Secret to correct. ClusterCache reads the kubeconfig only when it connects, and keeps a connection whose API server
// answers "GET /". So a corrected Secret alone changes nothing where a wrong kubeconfig leads to such an API server.
var wrongKubeconfigs = map[Obstacle]string{
	NoKnownNode: "; if so, correct Secret %s and restart the manager",
	Forbidden:   "; or correct Secret %s and restart the manager",
}

// ReadError is why something could not be read. Its text holds no secret, no address and nothing that differs from time to time.
type ReadError struct {
	Obstacle Obstacle
	// details is a sentence of its own; empty if that of the obstacle says it all.
	details string
}

// Error says what is wrong and how to mend it.
func (e *ReadError) Error() string {
	if e.details != "" {
		return e.details
	}
	return sentences[e.Obstacle]
}

// namingSecret adds which Secret of the Cluster to correct, where a wrong kubeconfig explains the error.
func (e *ReadError) namingSecret(cluster client.ObjectKey) *ReadError {
	hint, found := wrongKubeconfigs[e.Obstacle]
	if !found || cluster == Home {
		return e
	}
	kubeconfig := client.ObjectKey{Namespace: cluster.Namespace, Name: secret.Name(cluster.Name, secret.Kubeconfig)}
	return &ReadError{Obstacle: e.Obstacle, details: sentences[e.Obstacle] + fmt.Sprintf(hint, kubeconfig)}
}

// ObstacleOf is the obstacle that an error of this package is about; empty if there is no error.
func ObstacleOf(err error) Obstacle {
	if err == nil {
		return ""
	}
	return readError(err).Obstacle
}

// The errors that need no details.
var (
	errNotConnected   = &ReadError{Obstacle: NotConnected}
	errNotReadYet     = &ReadError{Obstacle: NotReadYet}
	errNotInitialized = &ReadError{Obstacle: NotInitialized}
	errNoKnownNode    = &ReadError{Obstacle: NoKnownNode}
	errNotNamed       = &ReadError{Obstacle: NotNamed}
	errNotAnswering   = &ReadError{Obstacle: NotAnswering}
	errStopped        = &ReadError{Obstacle: Stopped}
)

// readError tells apart why a read failed. Whatever it does not know is Failing: nobody concludes anything from any of them.
func readError(err error) *ReadError {
	var already *ReadError
	if errors.As(err, &already) {
		return already
	}
	for _, known := range obstacles {
		if known.is(err) {
			return &ReadError{Obstacle: known.obstacle}
		}
	}
	return &ReadError{Obstacle: Failing}
}

// obstacles are tried in this order: what an API server said comes before how it was said.
var obstacles = [...]struct {
	obstacle Obstacle
	is       func(error) bool
}{
	{NotConnected, func(err error) bool { return errors.Is(err, clustercache.ErrClusterNotConnected) }},
	{Unauthorized, apierrors.IsUnauthorized},
	{Forbidden, apierrors.IsForbidden},
	{Busy, apierrors.IsTooManyRequests},
	{NotAnswering, timedOut},
	{Stopped, func(err error) bool { return errors.Is(err, context.Canceled) }},
	{Failing, answered},
	{Untrusted, untrusted},
	{Unreachable, unreached},
}

func timedOut(err error) bool {
	var network net.Error
	return apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || errors.Is(err, context.DeadlineExceeded) ||
		(errors.As(err, &network) && network.Timeout())
}

// answered says whether somebody gave an answer, be it a bad one.
func answered(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

func untrusted(err error) bool {
	var certificate *tls.CertificateVerificationError
	var noTLS tls.RecordHeaderError
	var alert tls.AlertError
	return errors.As(err, &certificate) || errors.As(err, &noTLS) || errors.As(err, &alert)
}

func unreached(err error) bool {
	var way *url.Error
	var network net.Error
	return errors.As(err, &way) || errors.As(err, &network)
}

// saysNotFound says whether an API server says that there is no such object. A 404 of a load balancer, of a proxy or of an API server that
// does not serve the resource looks like one and is none: it names no object, or the client had to make up its words.
func saysNotFound(err error, resource, name string) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	said := status.Status()
	if said.Code != http.StatusNotFound || said.Details == nil || said.Details.Kind != resource || said.Details.Name != name {
		return false
	}
	for _, cause := range said.Details.Causes {
		if cause.Type == metav1.CauseTypeUnexpectedServerResponse {
			return false
		}
	}
	return true
}
