// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package version returns the version of this build.
package version

import "runtime/debug"

// released is set by the linker for a release.
var released string

// String returns the version of a release or of the Go module, else the commit this was built from, else "development".
func String() string {
	if released != "" {
		return released
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "development"
	}
	commit, changed := "", ""
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision":
			commit = setting.Value
		case setting.Key == "vcs.modified" && setting.Value == "true":
			changed = "-changed"
		}
	}
	if commit == "" {
		return moduleVersion(info.Main.Version)
	}
	return "commit-" + commit[:min(len(commit), 12)] + changed
}

// moduleVersion is that of a program that 'go install' has built from a version of the module; "development" without one.
func moduleVersion(version string) string {
	if version == "" || version == "(devel)" {
		return "development"
	}
	return version
}
