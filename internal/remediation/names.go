// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

// Guards are the reasons of the guards, in the order in which they are asked.
func Guards() []Reason {
	names := make([]Reason, len(guards))
	for i := range guards {
		names[i] = guards[i].reason
	}
	return names
}

// LastLooks are the reasons of the guards that are asked once more just before an act, in their order.
func LastLooks() []Reason {
	names := make([]Reason, len(lookGuards))
	for i := range lookGuards {
		names[i] = lookGuards[i].reason
	}
	return names
}
