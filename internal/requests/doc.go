// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package requests is everything about remediation requests and their templates as objects, for either kind of check.
//
// A template is what a user names. A request is made from it for one target, named as that target, and does what the contract with remediators
// asks for: it is created and deleted, its remediator is told to stop by an annotation, and what the remediator says is read from its status.
//
// The pure part makes a request (Build) and reads one (Read). The other part (Requests) finds out which templates can be used, keeps track of the
// requests that there are, and writes them. Kinds come and go while we run, and so do the rights to them: nothing has to be restarted.
//
// Of which kinds an earlier process may have made requests is found out from our rights: only where we may delete something there can be any, as
// rights to the kinds of remediators come by ClusterRoles alone. An API of those that cannot be asked keeps what waits for it, and says so; any other
// one may be out of order without anybody noticing.
package requests
