// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package checks repeats checks of the devices of FenceProfiles, so that a wrong password is found before a Node has to be fenced.
//
// It asks no device itself: it creates a NodeFence with mode Check for one Node after the other, and copies its result to the status of the
// FenceProfile. Start with decide in decide.go, which is all that it decides.
package checks
