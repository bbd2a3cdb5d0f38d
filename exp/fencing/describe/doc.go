// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package describe explains the fences of a Node to a person: what was done, what is proven, what a fence waits for, and how to cancel it.
//
// It reads NodeFences and their FenceProfiles with the permissions of the user. It evaluates nothing: the record of a fence has all.
//
// Start with Of in describe.go. text.go prints a fence, and find.go finds those of a Node.
package describe
