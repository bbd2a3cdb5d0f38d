// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// TemplateNotResolved means: no request can be made from its template.
const TemplateNotResolved Reason = "TemplateNotResolved"

func guardTemplateNotResolved(_ *pass, _ *Target, c *candidate) (held bool, until time.Time, seen Seen) {
	return c.stepless || c.step.Unresolved, time.Time{}, Seen{Who: c.step.ID.Template}
}
