// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package checkup is the one sequence that both reconcilers run. It owns the clock, every evaluation, and one wake-up time.
//
//	watch ──▶ Snapshot ──▶ Evaluate ──▶ Plan ──▶ Apply ──▶ Report
package checkup
