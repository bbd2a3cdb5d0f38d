// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"regexp"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ReadErrorReason is why something could not be read. The set is closed, so that a metric can use it as a label.
type ReadErrorReason string

// The reasons.
const (
	// NotConnected means: there is no connection to the cluster.
	NotConnected ReadErrorReason = "NotConnected"
	// KubeconfigRefused means: the kubeconfig Secret is missing, cannot be read, or holds a kubeconfig that the manager does not use.
	KubeconfigRefused ReadErrorReason = "KubeconfigRefused"
	// NotReadYet means: the connection is new, and the cache of Nodes has not synced.
	NotReadYet ReadErrorReason = "NotReadYet"
	// NotInitialized means: the cluster has no control plane yet.
	NotInitialized ReadErrorReason = "NotInitialized"
	// WrongCluster means: none of the Nodes that Machines refer to exists, so it may be another cluster.
	WrongCluster ReadErrorReason = "WrongCluster"
	// DifferentProviderID means: the Node has another provider ID than its Machine.
	DifferentProviderID ReadErrorReason = "DifferentProviderID"
	// NoNodeRef means: the Node exists, but its Machine does not refer to it yet.
	NoNodeRef ReadErrorReason = "NotNamed"
	// NotAnswering means: the API server did not answer in time.
	NotAnswering ReadErrorReason = "NotAnswering"
	// Unreachable means: the API server could not be reached.
	Unreachable ReadErrorReason = "Unreachable"
	// Untrusted means: the server that answered is not the one that the kubeconfig is for.
	Untrusted ReadErrorReason = "Untrusted"
	// Unauthorized means: the API server does not accept the credentials of the kubeconfig.
	Unauthorized ReadErrorReason = "Unauthorized"
	// Forbidden means: the user of the kubeconfig is not allowed to read that.
	Forbidden ReadErrorReason = "Forbidden"
	// Busy means: the API server rejected the request because it has too many.
	Busy ReadErrorReason = "Busy"
	// Failing means: the API server failed, or the server that answered is not an API server.
	Failing ReadErrorReason = "Failing"
	// Stopped means: the manager stopped waiting for the answer.
	Stopped ReadErrorReason = "Stopped"
)

// messages contain the problem and what to do. They contain nothing of the error that a client returned, because it may contain
// addresses, tokens, and port numbers that differ each time.
var messages = map[ReadErrorReason]string{
	NotConnected: "the manager has no connection to the cluster; " +
		"check that its API server is up and that the kubeconfig in its Secret is correct",
	NotReadYet: "the manager has not read the Nodes of the cluster yet; " +
		"if this lasts, check that the user of its kubeconfig is allowed to list and watch Nodes",
	NotInitialized: "the control plane of the cluster is not initialized, so its Nodes cannot be read",
	NoNodeRef: "a Node with the provider ID of the Machine has joined, and the Machine has no nodeRef yet; " +
		"if this lasts, see the log of Cluster API's Machine controller",
	WrongCluster: "none of the Nodes that Machines refer to exists: this may be another cluster",
	DifferentProviderID: "the provider ID of the Node differs from that of its Machine, so it may be another server, " +
		"or the kubeconfig may lead to another cluster; find out which before you delete the Machine or the Node",
	NotAnswering: "the API server of the cluster does not answer in time; " +
		"check that it is up and that the network does not block it",
	Unreachable: "the manager cannot reach the API server of the cluster; check that it is up and that the network does not block it",
	Untrusted: "the server that answers for the cluster has a certificate that the kubeconfig does not trust; " +
		"renew the kubeconfig in its Secret",
	Unauthorized: "the API server of the cluster does not accept the kubeconfig; renew the kubeconfig in its Secret",
	Forbidden: "the user of the cluster's kubeconfig lacks a permission; " +
		"allow it to get, list and watch Nodes, to get and list Leases, and to list Pods in kube-system; " +
		"a NodeHealthCheck also has to patch Nodes, to get Namespaces, and to write Leases",
	Busy:    "the API server of the cluster rejects requests because it has too many; the manager retries with backoff",
	Failing: "the API server of the cluster returns errors, or the server that answers is not an API server; see its log",
	Stopped: "the manager stopped waiting for an answer",
}

// kubeconfigHints name the Secret to correct. The manager reads the kubeconfig only when it connects, and keeps a connection
// whose API server answers its probes. So a corrected Secret alone changes nothing if the wrong kubeconfig leads to such an API server.
var kubeconfigHints = map[ReadErrorReason]string{
	WrongCluster: "; if so, correct Secret %s and restart the manager",
	Forbidden:    "; or correct Secret %s and restart the manager",
}

// ReadError is why something could not be read. Its text contains no secret, no address, and nothing that differs each time.
type ReadError struct {
	Reason ReadErrorReason
	// details replace the message of the reason; empty if that is enough.
	details string
}

// Error returns the problem and what to do.
func (e *ReadError) Error() string {
	if e.details != "" {
		return e.details
	}
	return messages[e.Reason]
}

// UnreadCluster is why the Machine of a Node of the management cluster is not certain: the Cluster in the annotations of the Node cannot be
// read, so it may be the management cluster or another one.
func UnreadCluster(cluster client.ObjectKey, err error) error {
	return &ReadError{Reason: ReadErrorReasonOf(err), details: fmt.Sprintf("the annotations of the Node name Cluster %s, "+
		"and whether that is this cluster is unknown, because the Nodes of that Cluster cannot be read: %s", cluster, err)}
}

// namingSecret adds which Secret of the Cluster to correct, if a wrong kubeconfig explains the error.
func (e *ReadError) namingSecret(cluster client.ObjectKey) *ReadError {
	if cluster == ManagementCluster && e.Reason == Forbidden {
		return &ReadError{Reason: Forbidden, details: "the manager lacks a permission in the management cluster; apply the roles of its release. " +
			"Control-plane Nodes need config/components/control-plane-nodes, and Leases in medik8s-leases need config/components/medik8s-leases"}
	}
	hint, found := kubeconfigHints[e.Reason]
	if !found || cluster == ManagementCluster {
		return e
	}
	kubeconfig := client.ObjectKey{Namespace: cluster.Namespace, Name: secret.Name(cluster.Name, secret.Kubeconfig)}
	return &ReadError{Reason: e.Reason, details: e.Error() + fmt.Sprintf(hint, kubeconfig)}
}

// reason returns the reason; empty if there is no error.
func (e *ReadError) reason() ReadErrorReason {
	if e == nil {
		return ""
	}
	return e.Reason
}

// CauseOf returns why an API call failed. The text contains no secret, no address, and nothing that differs each time.
func CauseOf(err error) string { return readError(err).Error() }

// ReadErrorReasonOf returns the reason of an error of this package; empty if there is no error.
func ReadErrorReasonOf(err error) ReadErrorReason {
	if err == nil {
		return ""
	}
	return readError(err).Reason
}

// The errors that need no details.
var (
	errNotConnected   = &ReadError{Reason: NotConnected}
	errNotReadYet     = &ReadError{Reason: NotReadYet}
	errNotInitialized = &ReadError{Reason: NotInitialized}
	errNoKnownNode    = &ReadError{Reason: WrongCluster}
	errNoNodeRef      = &ReadError{Reason: NoNodeRef}
	errNotAnswering   = &ReadError{Reason: NotAnswering}
	errStopped        = &ReadError{Reason: Stopped}
	errRedirected     = &ReadError{Reason: Failing, details: "the API server of the cluster redirects a request, and the manager follows no redirect; " +
		"check the server in its kubeconfig"}
	errTooLarge       = tooLarge("an answer of more than 8 MiB")
	errTooManyItems   = tooLarge("a list of more than 20,000 objects")
	errTooManyValues  = tooLarge("an answer of more than 150,000 values")
	errTooMuchMemory  = tooLarge("an answer that needs too much memory")
	errTooLargeUpdate = tooLarge("an update of a Node of more than 8 MiB or 50,000 values")
	errTooManyNodes   = tooLarge("more than 20,000 Nodes, or 96 MiB of memory for their labels, annotations and conditions")
)

// tooLarge returns the error for an answer above a limit.
func tooLarge(what string) *ReadError {
	return &ReadError{Reason: Failing, details: "the API server of the cluster returned " + what + ", and the manager reads no more; " +
		"check the server in its kubeconfig"}
}

// ErrWrongCluster: no Node belongs to its Machine. ErrDifferentProviderID: one Node does not.
var (
	ErrWrongCluster        error = errNoKnownNode
	ErrDifferentProviderID error = &ReadError{Reason: DifferentProviderID}
)

// readError classifies why a read failed. Every unknown error is Failing.
func readError(err error) *ReadError {
	var already *ReadError
	if errors.As(err, &already) {
		return already
	}
	for _, known := range classifiers {
		if known.is(err) {
			return &ReadError{Reason: known.reason, details: missingPermission(err)}
		}
	}
	return &ReadError{Reason: Failing}
}

// classifiers are tried in this order: the status of an API server comes before errors of the transport.
var classifiers = [...]struct {
	reason ReadErrorReason
	is     func(error) bool
}{
	{Unauthorized, apierrors.IsUnauthorized},
	{Forbidden, apierrors.IsForbidden},
	{Busy, apierrors.IsTooManyRequests},
	{NotAnswering, isTimeout},
	{Stopped, func(err error) bool { return errors.Is(err, context.Canceled) }},
	{Failing, hasType[apierrors.APIStatus]},
	{Untrusted, isTLSError},
	{Unreachable, hasType[net.Error]},
}

// forbidden matches what an API server forbids. It is the server of another cluster, so nothing else of its message is used.
var forbidden = regexp.MustCompile(
	`cannot (get|list|watch|create|update|patch|delete) resource "([a-z/]{1,63})" in API group "([a-z0-9.-]{0,63})"` +
		`(?: in the namespace "([a-z0-9-]{1,63})")?`)

// missingPermission names the permission that the user of a kubeconfig lacks; empty if the API server does not name it.
func missingPermission(err error) string {
	var answer apierrors.APIStatus
	if !apierrors.IsForbidden(err) || !errors.As(err, &answer) {
		return ""
	}
	found := forbidden.FindStringSubmatch(answer.Status().Message)
	if found == nil {
		return ""
	}
	resource := schema.GroupResource{Group: found[3], Resource: found[2]}.String()
	if found[4] != "" {
		resource += " in namespace " + found[4]
	}
	return "the user of the cluster's kubeconfig lacks a permission; allow it to " + found[1] + " " + resource
}

// hasType reports whether an error, or one that it wraps, has a type.
func hasType[T any](err error) bool {
	var target T
	return errors.As(err, &target)
}

func isTimeout(err error) bool {
	var network net.Error
	return apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || errors.Is(err, context.DeadlineExceeded) ||
		(errors.As(err, &network) && network.Timeout())
}

func isTLSError(err error) bool {
	return hasType[*tls.CertificateVerificationError](err) || hasType[tls.RecordHeaderError](err) || hasType[tls.AlertError](err)
}

// confirmsNotFound reports whether an API server confirms that the object does not exist. A 404 of a load balancer, of a proxy, or of an
// API server that does not serve the resource does not count: it names no object, or the client made up the status.
func confirmsNotFound(err error, resource, name string) bool {
	var answer apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &answer) {
		return false
	}
	status := answer.Status()
	if status.Code != http.StatusNotFound || status.Details == nil || status.Details.Kind != resource || status.Details.Name != name {
		return false
	}
	for _, cause := range status.Details.Causes {
		if cause.Type == metav1.CauseTypeUnexpectedServerResponse {
			return false
		}
	}
	return true
}
