// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

// TemplateNotResolved means: no request can be created from the template.
const TemplateNotResolved Reason = "TemplateNotResolved"

func guardTemplateNotResolved(_ *pass, _ *Target, c *candidate) (bool, Hold) {
	return c.stepless || c.step.Unresolved, Hold{Seen: Seen{Who: c.step.ID.Template}}
}
