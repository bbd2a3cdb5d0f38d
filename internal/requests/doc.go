// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package requests reads and writes remediation requests and reads their templates, for checks of any kind.
//
// A template is named by a check. A request is created from it for one target and has the name of the target. The remediator has to
// stop by an annotation, and reports its progress in the status of the request. This package does not decide when a request is created or
// deleted (package remediation), and does not report anything.
//
// Start with build.go and request.go, the pure part: they create a request and read one. remediators.go has how known remediators differ from
// the contract. requests.go has the other part: it finds out which templates can be used (resolve.go), watches the kinds of requests
// (kind.go, watch.go, store.go), finds requests (find.go) and writes them (write.go). Kinds and permissions can change while the manager runs; no restart is necessary.
package requests
