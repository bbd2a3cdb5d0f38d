// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

// Gates are the reasons of the gates, in the order in which they are asked.
func Gates() []Reason {
	names := make([]Reason, len(gates))
	for i := range gates {
		names[i] = gates[i].reason
	}
	return names
}

// Rules are the reasons of the rules, in the order in which they speak.
func Rules() []Reason {
	names := make([]Reason, len(rules))
	for i := range rules {
		names[i] = rules[i].reason
	}
	return names
}
