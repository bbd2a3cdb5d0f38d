// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package depth decides how deep the tests go that can go deeper than a change needs. 'make proof FULL=1' asks for the full depth.
package depth

import "os"

// Full reports whether FULL asks for the full depth.
func Full() bool { return os.Getenv("FULL") != "" }

// Of returns the size of a test at the depth that is asked for.
func Of(ordinary, full int) int {
	if Full() {
		return full
	}
	return ordinary
}
